"""Generation on replicas, token by token: slow, and plain enough to be right. What the event loop is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from scalana.workload.costs import Decode


@dataclass
class Answer:
    """A trajectory that is generated."""

    turns: list[tuple[int, int, float]]
    """Tokens read, tokens generated, seconds of tools after it."""
    waits_until_s: float = 0.0
    left: int = 0
    held: int = 0
    ended_s: float | None = None


@dataclass
class Replica:
    """One engine: it makes one token for each of its active answers at a time."""

    decode: Decode
    queue: list[Answer]
    now_s: float = 0.0
    running: list[Answer] = field(default_factory=list)

    def finish(self) -> float:
        """Generate all; the end."""
        while self.queue or self.running:
            while self.queue and len(self.running) < self.decode.slots:
                answer = self.queue.pop(0)
                self.running.append(answer)
                self.prepare(answer)
            active = [one for one in self.running if one.waits_until_s <= self.now_s + 1e-12]
            if not active:
                self.now_s = min(one.waits_until_s for one in self.running)
                continue
            held = sum(one.held for one in active)
            costs = self.decode
            self.now_s += costs.floor_s + costs.sequence_s * len(active) + costs.context_s * held
            for one in active:
                one.left -= 1
                one.held += 1
                if one.left == 0:
                    _, _, tool_s = one.turns.pop(0)
                    one.waits_until_s = self.now_s + tool_s
                    if one.turns:
                        self.prepare(one, tool_s)
                    else:
                        one.ended_s = self.now_s
                        self.running.remove(one)
        return self.now_s

    def prepare(self, one: Answer, tool_s: float = 0.0) -> None:
        """Read what a turn begins with."""
        read, tokens, _ = one.turns[0]
        one.left, one.held = tokens, one.held + read
        one.waits_until_s = self.now_s + tool_s + self.decode.start_s + self.decode.read_s * read
