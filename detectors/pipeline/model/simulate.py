"""When everything happens: a simulator of operations, with what each waits for.

One pass over all operations, in an order in which they can be done
(:mod:`~scalana.detectors.pipeline.model.sequence`); the results do not depend on which. :mod:`tests` hold a plain
event simulator as the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scalana.detectors.pipeline.model.actions import Program
from scalana.detectors.pipeline.model.engines import Engine
from scalana.detectors.pipeline.model.lowering import Code, Operations, lower
from scalana.detectors.pipeline.model.sequence import LEAVE, CodeArray, RowArray
from scalana.graphs.arrays.compiled_loops import compiled
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


@dataclass(frozen=True)
class Timeline:
    """When everything happened; worked out when it is asked for."""

    operations: Operations
    setting: Setting

    @cached_property
    def finish_s(self) -> FloatArray:
        """When a rank had done everything ``[ranks]``."""
        return _run(self.operations, self.setting, np.zeros(0)) + self.setting.tail_s

    @cached_property
    def end_s(self) -> FloatArray:
        """When an operation ended ``[operations]``."""
        end = np.empty(self.operations.size)
        _run(self.operations, self.setting, end)
        return end

    @cached_property
    def begin_s(self) -> FloatArray:
        """When an operation began, after what the host does before it ``[operations]``."""
        operations, setting = self.operations, self.setting
        before = np.concatenate(([0.0], self.end_s[:-1]))[: operations.size]
        some = np.flatnonzero(np.diff(operations.first))
        before[operations.first[some]] = setting.ready_s[some]
        return np.where(operations.code == Code.MEET, before, before + setting.lead_s)

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


def replay(operations: Operations, setting: Setting) -> Timeline:
    """When everything happens.

    Raises:
        Deadlock: where ranks wait for each other.
    """
    sequence = operations.sequence
    if (sequence.stopped < operations.first[1:]).any():
        raise Deadlock(_deadlock(operations, sequence.stopped))
    return Timeline(operations, setting)


def _run(operations: Operations, setting: Setting, end_s: FloatArray) -> FloatArray:
    """When ranks have done their operations ``[ranks]``; when each ended is written to ``end_s``, unless that is
    empty."""
    sequence, links = operations.sequence, setting.links
    return _replay(
        sequence.rank,
        sequence.until,
        sequence.operation,
        sequence.code,
        sequence.argument,
        sequence.action,
        sequence.message,
        sequence.link,
        sequence.queue,
        operations.queue_first,
        sequence.started,
        setting.duration_s,
        links.latency_s,
        links.occupied_s if links.occupied_s.any() else links.occupied_s[:0],
        setting.lead_s,
        bool(setting.lead_s.any()),
        setting.ready_s,
        operations.engine.rendezvous,
        operations.meetings,
        end_s,
    )


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
    return "the order cannot run (deadlock); waiting: " + "; ".join(said)


@compiled
def _replay(
    rank_of: RowArray,
    until: RowArray,
    operation: RowArray,
    code: CodeArray,
    argument: RowArray,
    action: RowArray,
    message_of: RowArray,
    link: RowArray,
    queue: RowArray,
    queue_first: IntArray,
    started: IntArray,
    duration_s: FloatArray,
    latency_s: FloatArray,
    occupied_s: FloatArray,
    lead_s: FloatArray,
    leads: bool,
    ready_s: FloatArray,
    rendezvous: bool,
    meetings: int,
    end_s: FloatArray,
) -> FloatArray:
    """As :func:`_run`; ``leads`` is whether the host does anything, ``occupied_s`` is empty where messages take no
    link."""
    clock = ready_s.copy()
    # When one side of a message is there, then when it is taken; when it arrives. What is read together lies together.
    message = np.empty((len(link), 2))
    link_free = np.zeros(len(queue_first) - 1)
    head = queue_first[:-1].copy()
    met = np.full(meetings, -1.0)
    ends = len(end_s) > 0
    several, run, row, rank = 0, 0, -1, 0
    now, stretch_ends = clock[0], 0
    for i in range(len(code)):
        if i == stretch_ends:
            clock[rank] = now
            row += 1
            rank, stretch_ends = rank_of[row], until[row]
            now = clock[rank]
        what, x = code[i], argument[i]
        if leads and what != 5 and what != LEAVE:
            now += lead_s[operation[i]]
        if what == 0:
            now += duration_s[action[run]]
            run += 1
        elif what == 3:
            now = max(now, message[x, 1])
        elif what == 4:
            now = max(now, message[x, 0])
        elif what == 5:
            met[x] = max(met[x], now)
        elif what == LEAVE:
            now = met[x]
        elif what < 3:
            message[x, 0] = now
        else:
            message[x, 0] = max(now, message[x, 0]) if rendezvous else now
            line = link[x]
            count = 1
            if what == 7:
                count = started[several]
                several += 1
            elif what == 8:
                count = 0
            # Messages of a link travel one after the other, in the order of their sending.
            for h in range(head[line], head[line] + count):
                m = queue[h]
                start = max(message[m, 0], link_free[line])
                message[m, 1] = start + latency_s[message_of[m]]
                if len(occupied_s):
                    start += occupied_s[message_of[m]]
                link_free[line] = start
                message[m, 0] = start
            head[line] += count
        if ends:
            end_s[operation[i]] = now  # of a meeting, the leaving comes last
    clock[rank] = now
    return clock
