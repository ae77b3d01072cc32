"""When everything happens: a simulator of operations, with what each waits for.

Every rank goes through its operations until it needs a message that has not been sent, and goes on when it has been.
One pass over all operations; the results do not depend on the order in which ranks are taken. :mod:`tests` hold a
plain event simulator as the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np

from scalana.detectors.pipeline.actions import Program
from scalana.detectors.pipeline.lowering import Code, CodeArray, Engine, Operations, RowArray, lower
from scalana.graphs.arrays.types import FloatArray, IntArray


class Deadlock(ValueError):
    """Ranks that wait for each other: the message names them and what each waits for."""


@dataclass(frozen=True, slots=True)
class Links:
    """How long messages take, each by itself."""

    latency_s: FloatArray
    """From the sending to the arrival of a message on an idle link ``[messages]``."""
    occupied_s: FloatArray
    """How much of it the link is taken, and with it the next message and a sender that waits (bytes / bandwidth)
    ``[messages]``."""

    @classmethod
    def none(cls, operations: Operations) -> Links:
        """Messages that take no time."""
        return cls.uniform(operations)

    @classmethod
    def uniform(cls, operations: Operations, latency_s: float = 0.0, occupied_s: float = 0.0) -> Links:
        """The same for all messages; ``occupied_s`` comes on top of the latency."""
        count = len(operations.sender)
        return cls(np.full(count, latency_s + occupied_s), np.full(count, occupied_s))

    @classmethod
    def by_ranks(cls, operations: Operations, latency_s: FloatArray, occupied_s: FloatArray | None = None) -> Links:
        """From tables by source and destination rank ``[ranks, ranks]``."""
        occupied = np.zeros_like(latency_s) if occupied_s is None else occupied_s
        link = operations.link
        return cls((latency_s + occupied).ravel()[link], occupied.ravel()[link])


@dataclass(frozen=True)
class Timeline:
    """When everything happened."""

    operations: Operations
    begin_s: FloatArray
    """When an operation began, after what the host does before it ``[operations]``."""
    end_s: FloatArray
    """``[operations]``"""
    finish_s: FloatArray
    """When a rank had done everything ``[ranks]``."""

    @cached_property
    def makespan_s(self) -> float:
        """From zero until the last rank has done everything."""
        return float(self.finish_s.max(initial=0.0))

    @cached_property
    def action_begin_s(self) -> FloatArray:
        """``[actions]``"""
        return self.begin_s[self.operations.run]

    @cached_property
    def action_end_s(self) -> FloatArray:
        """``[actions]``"""
        return self.end_s[self.operations.run]

    @cached_property
    def wait_s(self) -> FloatArray:
        """How long an action had to wait for its message ``[actions]``."""
        receive = self.operations.receive
        return np.where(receive >= 0, self.end_s[receive] - self.begin_s[receive], 0.0)

    def bubble_share(self) -> float:
        """Idle rank-time over all rank-time until the makespan (not over the ideal time)."""
        runs = self.operations.run
        busy = float((self.end_s[runs] - self.begin_s[runs]).sum())
        return 1 - busy / (self.makespan_s * self.operations.program.ranks)


@dataclass(frozen=True, slots=True)
class Setting:
    """All that a replay takes beside the operations."""

    duration_s: FloatArray
    """``[actions]``"""
    links: Links
    lead_s: FloatArray
    """What the host does before an operation ``[operations]``."""
    ready_s: FloatArray
    """When a rank begins ``[ranks]``."""
    tail_s: FloatArray
    """What a rank does after its last operation ``[ranks]``."""

    @classmethod
    def plain(cls, operations: Operations, duration_s: FloatArray, links: Links | None = None) -> Setting:
        """Durations and links alone: the host takes no time."""
        ranks = operations.program.ranks
        links = Links.none(operations) if links is None else links
        return cls(duration_s, links, np.zeros(operations.size), np.zeros(ranks), np.zeros(ranks))


def replay(operations: Operations, setting: Setting) -> Timeline:
    """When everything happens.

    Raises:
        Deadlock: where ranks wait for each other.
    """
    begin_s, end_s, finish_s, at = _replay(
        operations.first,
        operations.code,
        operations.argument,
        operations.link,
        operations.queue,
        operations.queue_first,
        setting.duration_s,
        setting.links.latency_s,
        setting.links.occupied_s,
        setting.lead_s,
        setting.ready_s,
        setting.tail_s,
        operations.engine.rendezvous,
        operations.meetings,
    )
    if (at < operations.first[1:]).any():
        raise Deadlock(_deadlock(operations, at))
    return Timeline(operations, begin_s, end_s, finish_s)


def simulate(
    program: Program, duration_s: FloatArray, engine: Engine | None = None, latency_s: float = 0.0
) -> Timeline:
    """A program by itself, with the same latency everywhere; ``engine`` is `ideal` if it is not given."""
    operations = lower(program) if engine is None else lower(program, engine)
    return replay(operations, Setting.plain(operations, duration_s, Links.uniform(operations, latency_s)))


def _deadlock(operations: Operations, at: IntArray) -> str:
    """Which rank waits for what."""
    program = operations.program
    said = []
    for rank in np.flatnonzero(at < operations.first[1:]):
        message = operations.argument[at[rank]]
        if operations.code[at[rank]] == Code.MEET:
            said.append(f"rank {rank}, at the end of a step, for the other ranks")
            continue
        sender, receiver = (int(side[message]) for side in (operations.sender, operations.receiver))
        if operations.code[at[rank]] == Code.COMPLETE:
            said.append(f"rank {rank}, after {program.action(sender)}, for rank {program.rank[receiver]} to receive it")
        else:
            said.append(
                f"rank {rank}, before {program.action(receiver)}, for {program.action(sender)} of rank"
                f" {program.rank[sender]}"
            )
    return "the order cannot run; waiting are " + "; ".join(said)


@numba.njit(cache=True)
def _replay(
    first: IntArray,
    code: CodeArray,
    argument: RowArray,
    link: RowArray,
    queue: RowArray,
    queue_first: IntArray,
    duration_s: FloatArray,
    latency_s: FloatArray,
    occupied_s: FloatArray,
    lead_s: FloatArray,
    ready_s: FloatArray,
    tail_s: FloatArray,
    rendezvous: bool,
    meetings: int,
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Begin and end of operations, finish of ranks, and the operation at which each rank stopped."""
    ranks = len(first) - 1
    messages = len(link)
    begin = np.empty(len(code))
    end = np.empty(len(code))
    clock = ready_s.copy()
    at = first[:-1].copy()
    # When a message was sent, its receive posted, and when it arrives: -1 until it is known.
    sent = np.full(messages, -1.0)
    posted = np.full(messages if rendezvous else 0, -1.0)
    taken = np.full(messages if rendezvous else 0, -1.0)
    arrival = np.full(messages, -1.0)
    head = queue_first[:-1].copy()
    link_free = np.zeros(len(head))
    waiting = np.full(2 * messages, -1, np.int32)
    met = np.full(meetings, -1.0)
    lacking = np.full(meetings, ranks)
    ready = np.arange(ranks)
    count = ranks
    while count:
        count -= 1
        rank = ready[count]
        now = clock[rank]
        i = at[rank]
        last = first[rank + 1]
        while i < last:
            what, x = code[i], argument[i]
            if what >= 3 and what < 5 and arrival[x] < 0:
                waiting[2 * x + what - 3] = rank
                break
            if what == 5:
                # Ranks come here once each; the last one lets the others go on.
                begin[i] = now
                met[x] = max(met[x], now)
                lacking[x] -= 1
                if lacking[x]:
                    break
                for other in range(ranks):
                    if other != rank:
                        end[at[other]] = met[x]
                        clock[other] = met[x]
                        at[other] += 1
                        ready[count] = other
                        count += 1
                now = met[x]
                end[i] = now
                i += 1
                continue
            now += lead_s[i]
            begin[i] = now
            if what == 0:
                now += duration_s[x]
            elif what >= 3:
                now = max(now, arrival[x] if what == 3 else taken[x])
            else:
                if what == 1:
                    sent[x] = now
                else:
                    posted[x] = now
                # Messages of a link travel one after the other, in the order of their sending.
                line = link[x]
                h = head[line]
                while h < queue_first[line + 1]:
                    m = queue[h]
                    start = sent[m]
                    if start < 0 or (rendezvous and posted[m] < 0):
                        break
                    if rendezvous:
                        start = max(start, posted[m])
                    start = max(start, link_free[line])
                    link_free[line] = start + occupied_s[m]
                    if rendezvous:
                        taken[m] = link_free[line]
                    arrival[m] = start + latency_s[m]
                    for side in range(2):
                        other = waiting[2 * m + side]
                        if other >= 0:
                            waiting[2 * m + side] = -1
                            ready[count] = other
                            count += 1
                    h += 1
                head[line] = h
            end[i] = now
            i += 1
        clock[rank] = now
        at[rank] = i
    finish = clock + tail_s
    return begin, end, finish, at
