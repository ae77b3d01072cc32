"""A job that its launcher starts several times, as its records would be: each attempt a list of what happens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from scalana.runtime.record.format import SPAN_TYPE
from tests.graphs.runs import MS, Rank

STEP_MS = 100.0


@dataclass
class Started:
    """One start of two ranks, from a moment on in ms."""

    folder: Path
    number: int
    start_ms: float
    boot_ms: float = 500.0
    """Until the first step."""
    meta: dict[str, str] = field(default_factory=lambda: {"ppid": "7"})

    def __post_init__(self) -> None:
        self.ranks = [
            Rank(self.folder, rank, 2, self.meta, start_ms=self.start_ms, name=f"host-{self.number}{rank}-0.rec")
            for rank in range(2)
        ]
        self.step = 0
        for rank in self.ranks:
            rank.writer.group(1, "world", rank.rank, range(2))
            rank.work("load", self.boot_ms)

    def steps(self, count: int) -> Started:
        """Steps of equal length, each with a collective."""
        for _ in range(count):
            for rank in self.ranks:
                begin = rank.now
                rank.work("step", STEP_MS - 10)
                rank.call("allreduce", rank.now + 10, seq=self.step + 1)
                rank.writer.span(
                    SPAN_TYPE["step"], "step", round(begin * MS), round(STEP_MS * MS), step=self.step,
                    attributes={"source": "user"},
                )  # fmt: skip
                rank.writer.flush()
                rank.writer.time(round(rank.now * MS))
            self.step += 1
        return self

    def file(self, name: str, path: str, inode: int, ms: float) -> Started:
        """Rank 0 writes or reads a file of a checkpoint; the others wait."""
        for rank in self.ranks:
            begin = rank.now
            rank.sleep("load", ms)
            if rank.rank == 0:
                rank.writer.span(
                    SPAN_TYPE["other"], name, round(begin * MS), round(ms * MS),
                    attributes={"kind": "checkpoint", "file": path, "inode": inode, "failed": 0},
                )  # fmt: skip
        return self

    def in_functions(self, names: Iterable[str], ms: float) -> Started:
        """All ranks are in functions of the program, from the outermost inwards."""
        for rank in self.ranks:
            rank.work([("/job/train.py", name, 20 + row) for row, name in enumerate(names)], ms)
        return self

    def end(self, status: int = 0, killed: int = -1) -> float:
        """The end of all records, but for that of a rank that was killed; returns the moment in ms."""
        for rank in self.ranks:
            if rank.rank == killed:
                rank.writer.close()
            else:
                rank.end(status)
        return self.ranks[0].now


@dataclass
class Driven:
    """A driver that marks steps, and two actors that work in them; all are there from a moment on in ms."""

    folder: Path
    start_ms: float = 1000.0

    def __post_init__(self) -> None:
        self.driver = self._process("driver", 0)
        self.actors = [self._process("Trainer", number, made_as=str(number)) for number in (1, 2)]
        self.step = 0

    def _process(self, part: str, number: int, **meta: str) -> Rank:
        told = {"part": part, "part_source": "framework", "pid": str(300 + number), **meta}
        name = f"host-{300 + number}-0.rec"
        return Rank(self.folder, number, 0, told, start_ms=self.start_ms, name=name, role="member")

    def steps(self, count: int) -> Driven:
        """Steps of equal length."""
        for _ in range(count):
            begin = self.driver.now
            for one in (self.driver, *self.actors):
                one.work("step", STEP_MS)
            self._mark(begin)
        return self

    def _mark(self, begin: float) -> None:
        lasted = round((self.driver.now - begin) * MS)
        told = {"step": self.step, "attributes": {"source": "user"}}
        self.driver.writer.span(SPAN_TYPE["step"], "step", round(begin * MS), lasted, **told)
        self.step += 1

    def file(self, name: str, inode: int) -> Driven:
        """The first actor writes or reads a file of a checkpoint, next to no time."""
        at = round(self.actors[0].now * MS)
        told = {"kind": "checkpoint", "file": "/ckpt", "inode": inode, "failed": 0}
        self.actors[0].writer.span(SPAN_TYPE["other"], name, at - MS, MS, attributes=told)
        return self

    def dies(
        self, starts_ms: float, boots_ms: float, inode: int, waits: bool = True, early_ms: float | None = None
    ) -> Driven:
        """The second actor dies, and is started again; the step under way ``waits`` for it, and what was lost is read,
        or the other actor makes the steps meanwhile. The process in its place was there ``early_ms`` before, and has
        asked for work since then; then the actor dies in the midst of a step."""
        before, self.actors = self.actors[1], self.actors[:1]
        if early_ms is not None:
            before.work("step", STEP_MS / 2)
        before.writer.close()
        begin = self.driver.now
        self.start_ms = begin + starts_ms if early_ms is None else begin - early_ms
        again = self._process("Trainer", 3, made_as="2")
        if early_ms is not None:
            again.call("send", again.now + 1, seq=0)
            again.sleep("load", begin + starts_ms - again.now)
        if waits:
            self.driver.sleep("load", starts_ms + boots_ms)
            self.actors[0].sleep("load", starts_ms + boots_ms)
            self.file("load", inode)
        else:
            self.steps(round((starts_ms + boots_ms) / STEP_MS))
        again.work("load", boots_ms)
        again.call("send", again.now + 1, seq=1)
        self.actors.append(again)
        if waits:
            self.driver.work("step", STEP_MS)
            self._mark(begin)
        return self

    def end(self) -> float:
        """The end of all that are there; returns the moment in ms."""
        for one in (self.driver, *self.actors):
            one.end()
        return self.driver.now
