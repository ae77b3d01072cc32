"""A pipeline that somebody wrote by hand, recognised by its messages alone.

What a chain of ranks does is a pipeline of training if every rank in the middle passes on what came (the k-th message
to the next rank follows the k-th from the one before, and the same backwards), what goes there comes back in the same
size, and it repeats. A halo exchange sends before it has received, a ring has no ends, a manager has many neighbours,
and a sweep in one direction has nothing that comes back: they are none. Two ranks, and all forwards before all
backwards, look like other programs as well (question and answer, sweeps there and back): they count only where
training is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.actions import Kind
from scalana.detectors.pipeline.measured import ActionRows
from scalana.graphs.arrays.types import FloatArray, IntArray

_USUAL_BACKWARD = 2.0
"""Seconds of a backward over those of its forward, where no rank shows it: two products of matrices for one."""


@dataclass(frozen=True)
class MessageRows:
    """Sends and receives in any order, ``[rows]`` all."""

    rank: IntArray
    peer: IntArray
    is_send: IntArray
    """1 for a send, 0 for a receive."""
    bytes: IntArray
    begin_s: FloatArray
    """When the call began; for one that does not block, when its result was asked for."""
    end_s: FloatArray
    """When the rank could go on."""


@dataclass(frozen=True)
class HandWritten:
    """A pipeline that was recognised."""

    ranks: tuple[int, ...]
    """The ranks in the order of their stages."""
    microbatches: IntArray
    """How many every step has ``[steps]``."""
    rows: ActionRows
    """Its actions; ``rank`` in them counts stages. Forwards and backwards between the same two messages are told apart
    by what they take elsewhere."""


def recognise_messages(rows: MessageRows, training: bool = False) -> HandWritten | None:
    """The pipeline that these messages are; None if they may be anything else.

    ``training`` says that something else shows a training step (an optimizer, a loss): then what looks like other
    programs too is taken for a pipeline.
    """
    order = np.lexsort((rows.end_s, rows.begin_s, rows.rank))
    rows = MessageRows(*(getattr(rows, name)[order] for name in rows.__dataclass_fields__))
    chain = _chain(rows)
    if chain is None or (len(chain) == 2 and not training):
        return None
    events = _Events.along(rows, chain)
    if events is None or not events.is_passed_on():
        return None
    steps = _steps(events.of(0))
    if steps is None or (not training and not events.alternates()):
        return None
    return HandWritten(tuple(chain), np.bincount(steps), _actions(events, steps))


def _chain(rows: MessageRows) -> list[int] | None:
    """The ranks in a line, from the one that sends before it receives anything; None if they are no line."""
    near: dict[int, set[int]] = {}
    for rank, peer in zip(rows.rank.tolist(), rows.peer.tolist(), strict=True):
        near.setdefault(rank, set()).add(peer)
        near.setdefault(peer, set()).add(rank)
    ends = [rank for rank, peers in near.items() if len(peers) == 1]
    if len(ends) != 2 or any(len(peers) > 2 for peers in near.values()):
        return None
    opening = [rank for rank in ends if (rows.rank == rank).any() and rows.is_send[rows.rank == rank][0]]
    if len(opening) != 1:
        return None
    chain, before = [opening[0]], -1
    while len(chain) < len(near):
        following = near[chain[-1]] - {before}
        if len(following) != 1:
            return None
        before = chain[-1]
        chain.append(following.pop())
    return chain


@dataclass(frozen=True)
class _Event:
    """A message at one of its ends: forward or back, received or sent, the how-manieth of its kind."""

    kind: Kind
    is_send: bool
    number: int
    begin_s: float
    end_s: float
    bytes: int


class _Events:
    """The messages of every stage in order."""

    def __init__(self, stages: list[list[_Event]]) -> None:
        self.stages = stages

    @classmethod
    def along(cls, rows: MessageRows, chain: list[int]) -> _Events | None:
        """Events of a chain of ranks; None where the two ends of a link, or there and back, do not fit."""
        stages = []
        for stage, rank in enumerate(chain):
            count: dict[tuple[Kind, bool], int] = {}
            events = []
            for i in np.flatnonzero(rows.rank == rank):
                onward = stage + 1 < len(chain) and rows.peer[i] == chain[stage + 1]
                is_send = bool(rows.is_send[i])
                kind = Kind.F if onward == is_send else Kind.B
                number = count.get((kind, is_send), 0)
                count[kind, is_send] = number + 1
                events.append(
                    _Event(kind, is_send, number, float(rows.begin_s[i]), float(rows.end_s[i]), int(rows.bytes[i]))
                )
            if len(set(count.values())) != 1 or len(count) != (2 if stage in (0, len(chain) - 1) else 4):
                return None
            stages.append(events)
        if len({len(events) // (2 if s in (0, len(chain) - 1) else 4) for s, events in enumerate(stages)}) != 1:
            return None
        return cls(stages)

    def of(self, stage: int) -> list[_Event]:
        """The events of a stage, in order."""
        return self.stages[stage]

    def is_passed_on(self) -> bool:
        """Whether every stage sends on only what it has received, and what goes there comes back in its size."""
        last = len(self.stages) - 1
        for stage, events in enumerate(self.stages):
            came = {kind: [e for e in events if e.kind is kind and not e.is_send] for kind in (Kind.F, Kind.B)}
            went = {kind: [e for e in events if e.kind is kind and e.is_send] for kind in (Kind.F, Kind.B)}
            to_next, to_previous = (went[Kind.F], came[Kind.B]), (came[Kind.F], went[Kind.B])
            if stage == 0:
                pairs = edges = [to_next]
            elif stage == last:
                pairs = edges = [to_previous]
            else:
                edges = [to_next, to_previous]
                pairs = [(came[Kind.F], went[Kind.F]), (came[Kind.B], went[Kind.B]), to_next]
            for earlier, later in pairs:
                if any(a.end_s > b.end_s or a.begin_s > b.begin_s for a, b in zip(earlier, later, strict=True)):
                    return False
            for there, back in edges:
                if sorted(e.bytes for e in there) != sorted(e.bytes for e in back):
                    return False
        return True

    def alternates(self) -> bool:
        """Whether the first rank goes on forwards after a backward, before all have come back: nothing but a pipeline
        keeps several under way so."""
        under_way, came = 0, False
        for event in self.stages[0]:
            if event.is_send:
                if came and under_way > 0:
                    return True
                under_way += 1
            else:
                under_way -= 1
                came = under_way > 0
        return False


def _steps(first: list[_Event]) -> IntArray | None:
    """The step of every microbatch ``[microbatches of the run]``: one ends when all that was sent has come back.

    None where steps have different numbers of microbatches: then nothing repeats.
    """
    step, under_way, steps = 0, 0, []
    for event in first:
        if event.is_send:
            steps.append(step)
            under_way += 1
        else:
            under_way -= 1
            step += under_way == 0
    sizes = np.bincount(np.array(steps, np.int64))
    return np.array(steps, np.int64) if len(sizes) >= 2 and len(set(sizes.tolist())) == 1 else None


def _stretches(events: list[_Event], first: bool, last: bool) -> Iterator[tuple[float, float, list[tuple[Kind, int]]]]:
    """Between two messages of a stage: begin, end, and the (kind, microbatch) that were computed in it."""
    pending: list[tuple[Kind, int]] = []
    free_s = None
    for event in events:
        if event.is_send and (first or last):
            pending.append((event.kind, event.number))  # begins or turns here: no message comes just before
        if pending:
            yield event.begin_s if free_s is None else free_s, event.begin_s, pending
            pending = []
        if not event.is_send:
            pending = [(event.kind, event.number)]
        free_s = event.end_s
    if pending and free_s is not None:
        yield free_s, free_s, pending


def _actions(events: _Events, steps: IntArray) -> ActionRows:
    """Actions from what lies between messages."""
    last = len(events.stages) - 1
    found = [list(_stretches(e, s == 0, s == last)) for s, e in enumerate(events.stages)]
    alone: dict[Kind, list[float]] = {Kind.F: [], Kind.B: []}
    for inner in found[1:-1]:
        for begin, end, computed in inner:
            if len(computed) == 1:
                alone[computed[0][0]].append(end - begin)
    known = all(alone.values()) and np.median(alone[Kind.F]) > 0
    backward = float(np.median(alone[Kind.B]) / np.median(alone[Kind.F])) if known else _USUAL_BACKWARD
    weight = {Kind.F: 1.0, Kind.B: backward}
    begins = np.searchsorted(steps, np.arange(int(steps[-1]) + 1))
    rows: list[tuple[int, int, int, int, int, float, float, float, float]] = []
    for stage, stretches in enumerate(found):
        received = {(e.kind, e.number): (e.begin_s, e.end_s) for e in events.of(stage) if not e.is_send}
        usual = np.median([end - begin for begin, end, computed in stretches if len(computed) == 1] or [0.0])
        for begin, end, computed in stretches:
            # The very last backward of the first stage is followed by no message: it takes what such a one usually
            # does.
            end = end if end > begin or computed[0][0] is Kind.F else begin + float(usual)
            total, at = sum(weight[kind] for kind, _ in computed), begin
            for kind, number in computed:
                until = at + (end - begin) * weight[kind] / total
                wait = received.get((kind, number), (np.nan, np.nan))
                step = int(steps[number])
                rows.append((step, stage, kind, stage, number - int(begins[step]), at, until, *wait))
                at = until
    whole = np.array([row[:5] for row in rows], np.int64)
    seconds = np.array([row[5:] for row in rows], np.float64)
    step, stage_of, kind_of, _, microbatch = whole.T
    actions = ActionRows.of(step, stage_of, kind_of, stage_of, microbatch, seconds[:, 0], seconds[:, 1])
    return replace(actions, wait_begin_s=seconds[:, 2], wait_end_s=seconds[:, 3])
