"""What a rank computes between its messages: actions of a pipeline that nobody named.

Between a receive and the send that follows it lies the action that makes the one of the other. Where two actions lie
between the same two messages (the last stage turns, the first one begins anew), their time is divided as such actions
take where they stand alone. What is known to be neither (waiting for an own message, loading data, an optimizer, other
communication) is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from scalana.detectors.pipeline.measured.replayable import ActionRows, Between
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.thresholds.certainty import USUAL_RANGE
from scalana.detectors.thresholds.factors import BACKWARD_PER_FORWARD
from scalana.detectors.thresholds.seconds import NO_WORK_S
from scalana.detectors.thresholds.shares import NEXT_TO_NOTHING
from scalana.graphs.arrays.columns import ColumnTable, concatenate
from scalana.graphs.arrays.intervals import length_between
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


class Pause(IntEnum):
    """What a rank does that is neither a message of the pipeline nor computing."""

    SEND = 0
    """Waits for a message of its own to be taken."""
    DATA = 1
    """Waits for input data."""
    OPTIMIZER = 2
    GRADIENTS = 3
    """Reduces gradients over replicas."""
    OTHER = 4
    """Calls that are none of the pipeline's."""


@dataclass(frozen=True)
class PauseRows(ColumnTable):
    """Pauses in any order, those of one kind and rank apart from each other, ``[rows]`` all."""

    rank: IntArray
    what: IntArray
    """A :class:`Pause` each."""
    begin_s: FloatArray
    end_s: FloatArray

    def on(self, place: IntArray) -> PauseRows:
        """Those of the ranks that have a place (the others have -1), by that."""
        known = self.rank < len(place)
        known[known] = place[self.rank[known]] >= 0
        return replace(self.take(known), rank=place[self.rank[known]])

    @property
    def meets(self) -> BoolArray:
        """Which are calls that are none of the pipeline's."""
        return np.asarray((self.what == Pause.OTHER) | (self.what == Pause.GRADIENTS))

    def meetings(self) -> dict[int, FloatArray]:
        """By rank, when its calls that are none of the pipeline's began, in order."""
        met = self.meets
        return {rank: np.sort(self.begin_s[met & (self.rank == rank)]) for rank in np.unique(self.rank).tolist()}

    def with_others(self, rank: IntArray, begin_s: FloatArray, end_s: FloatArray) -> PauseRows:
        """These and others of the kind :attr:`Pause.OTHER`."""
        more = PauseRows(rank, np.full(len(rank), Pause.OTHER), begin_s, end_s)
        return concatenate([self, more], PauseRows)


NO_PAUSES = PauseRows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Events(ColumnTable):
    """Messages at their ends, sorted by place and time, ``[events]`` all."""

    place: IntArray
    """Of the rank, along the line or the ring of ranks."""
    backward: BoolArray
    is_send: BoolArray
    number: IntArray
    """Of the microbatch, from the begin of the run."""
    begin_s: FloatArray
    end_s: FloatArray
    bytes: IntArray
    chunk: IntArray
    """Which of the stages of its rank it is for, or from: 0 for the first one."""
    message: IntArray
    """A number that both ends of a message have."""

    def with_others(self, others: Events) -> Events:
        """These and other ones, sorted again."""
        both = concatenate([self, others], Events)
        return both.take(np.lexsort((both.end_s, both.begin_s, both.place)))

    def numbered(self, number: IntArray, chunk: IntArray | None = None) -> Events:
        """The same with other numbers."""
        return replace(self, number=number, chunk=self.chunk if chunk is None else chunk)


@dataclass(frozen=True)
class Read:
    """What the stages of a pipeline did."""

    rows: ActionRows
    between: Between
    """A row for each step."""
    windows_s: FloatArray
    """When every rank began with a step, its first wait included, and ended ``[steps, places, 2]``."""
    batched: bool = False
    """Whether forwards and backwards are sent together, and received together."""


def read_events(
    events: Events,
    places: int,
    step: IntArray,
    pauses: PauseRows,
    returned: IntArray | None = None,
    stages: IntArray | None = None,
) -> Read:
    """The actions of all stages.

    ``step`` is that of every microbatch, ``returned`` as in :class:`ActionRows` of the first stage's forward of it
    ``[microbatches]``. ``stages`` are those of every place ``[places, chunks]``; round and round if None.
    """
    found = [_Rank(events.take(events.place == p), pauses, p, p in (0, places - 1), step) for p in range(places)]
    begins = np.searchsorted(step, np.arange(int(step[-1]) + 1))
    inner = [length for one in found[1:-1] for length in one.backward_over_forward()]
    for one in found:
        # A rank knows its own kind best.
        one.divide(
            next(iter([*one.backward_over_forward(), float(np.median(inner)) if inner else BACKWARD_PER_FORWARD]))
        )
    rows = np.concatenate([one.table() for one in found])
    place = np.repeat(np.arange(places), [len(one.actions) for one in found])
    number = rows[:, 1].astype(np.int64)
    chunk = rows[:, 9].astype(np.int64)
    stage = chunk * places + place if stages is None else stages[place, chunk]
    of_step = step[number]
    actions = ActionRows(
        of_step, place, rows[:, 0].astype(np.int64), stage, number - begins[of_step], rows[:, 2], rows[:, 3]
    )
    actions = replace(
        actions,
        wait_begin_s=rows[:, 4],
        wait_end_s=rows[:, 5],
        send_wait_s=rows[:, 6],
        sent_s=rows[:, 7],
        data_s=rows[:, 8],
        returned=np.zeros(len(rows), np.int64) if returned is None else np.where(stage == 0, returned[number], 0),
    )
    steps = len(begins)
    windows = np.full((steps, places, 2), np.nan)
    np.fmin.at(windows[:, :, 0], (of_step, place), np.fmin(actions.begin_s, actions.wait_begin_s))
    np.fmax.at(windows[:, :, 1], (of_step, place), actions.end_s)
    between = Between.nothing(steps, places)
    for p, one in enumerate(found):
        after = np.append(windows[1:, p, 0], np.inf)
        between.optimizer_s[:, p] = one.paused_s(Pause.OPTIMIZER, windows[:, p, 1], after)
    return Read(actions, between, windows, any(one.batched for one in found))


_Computed = tuple[Kind, int, int]
"""What was computed: kind, microbatch, chunk."""


@dataclass
class _Stretch:
    """Computing between two messages."""

    begin_s: float
    end_s: float
    computed: list[_Computed]
    """What was computed in it; two at most for the first and the last stage."""


class _Row(NamedTuple):
    """A message at a rank."""

    backward: bool
    is_send: bool
    number: int
    chunk: int
    begin_s: float
    end_s: float

    @property
    def computed(self) -> _Computed:
        """What it is for, or from."""
        return Kind.B if self.backward else Kind.F, self.number, self.chunk


def _rows(events: Events) -> list[_Row]:
    return [_Row(*row) for row in zip(*(getattr(events, name).tolist() for name in _Row._fields), strict=True)]


def _together(rows: list[_Row], at_once_s: float) -> Iterator[tuple[int, int]]:
    """Begin and end of each group of sends of which one follows the other at once; each receive is one by itself."""
    at = 0
    while at < len(rows):
        until = at + 1
        while rows[at].is_send and until < len(rows) and rows[until].is_send:
            if rows[until].begin_s - rows[until - 1].end_s >= at_once_s:
                break
            until += 1
        yield at, until
        at = until


class _Rank:
    """One rank: from its events to its actions."""

    def __init__(self, events: Events, pauses: PauseRows, place: int, turns: bool, step: IntArray) -> None:
        self.events, self.turns, self.step = events, turns, step
        mine = pauses.rank == place
        order = np.argsort(pauses.begin_s[mine], kind="stable")
        self.what = pauses.what[mine][order]
        self.pause_s = np.stack((pauses.begin_s[mine][order], pauses.end_s[mine][order]), axis=1)
        self.batched = False
        self.stretches = list(self._stretches())
        for stretch in self.stretches:
            self._trim(stretch)
        self.actions: list[tuple[_Computed, float, float]] = []

    def _stretches(self) -> Iterator[_Stretch]:
        """What lies between two messages, or two groups of messages that go together: then all that came is computed
        but for what is sent on later (it was asked for ahead)."""
        rows = _rows(self.events)
        at_once_s = self._at_once_s()
        left = {row.computed: at for at, row in enumerate(rows) if row.is_send}  # when what was made is sent
        pending: list[_Computed] = []
        done: set[_Computed] = set()
        free_s = -np.inf
        for at, until in _together(rows, at_once_s):
            row, group = rows[at], rows[at:until]
            self.batched |= len({one.backward for one in group}) > 1
            if row.is_send and self.turns:  # what begins or turns here: no message comes just before
                made = (one.computed for one in group)
                pending += [one for one in made if one not in pending and one not in done]
            computed = [one for one in pending if left.get(one, -1) < until] if row.is_send else list(pending)
            if computed and (row.is_send or row.begin_s - free_s >= at_once_s):
                yield from self._between(rows, at, free_s, computed)
                done.update(computed)
                pending = [one for one in pending if one not in done]
            if not row.is_send:
                pending.append(row.computed)
            free_s = rows[until - 1].end_s
        if pending:
            yield from self._cut(_Stretch(free_s, np.inf, pending))

    def _between(self, rows: list[_Row], at: int, since_s: float, computed: list[_Computed]) -> Iterator[_Stretch]:
        """What was computed before a row, with what is none of it cut off."""
        told = self._in_order(computed)
        opened = at > 0 and bool(self.step[rows[at - 1].number] < self.step[told[0][1]])
        closed = bool(self.step[rows[at].number] > self.step[told[-1][1]])
        yield from self._cut(_Stretch(since_s, rows[at].begin_s, told), opened, closed)

    def _in_order(self, computed: list[_Computed]) -> list[_Computed]:
        """In the order of computing: where a forward and a backward are one, the forward comes first."""
        return sorted(computed, key=lambda one: (self.step[one[1]], one[0])) if self.batched else computed

    def _at_once_s(self) -> float:
        """Own work between two messages that is none: where a rank asks for several at a time, nothing lies between."""
        work_s = self.events.begin_s[1:] - self.events.end_s[:-1]
        return min(NO_WORK_S, NEXT_TO_NOTHING * float(np.quantile(work_s, USUAL_RANGE))) if len(work_s) else 0.0

    def _cut(self, stretch: _Stretch, opened: bool = False, closed: bool = False) -> Iterator[_Stretch]:
        """Cut a stretch at what lies between two steps, or between two actions at data that is loaded; its open ends
        are where the next or last such thing is. ``opened`` is whether it begins with a message of the step before,
        ``closed`` whether it ends with one of the step after."""
        if len(stretch.computed) == 1 and (opened or closed):
            low, high = self._inside(stretch)
            pauses = self.pause_s[low:high][self.what[low:high] != Pause.SEND]
            if len(pauses):
                stretch.begin_s = float(pauses[-1, 1]) if opened else stretch.begin_s
                stretch.end_s = float(pauses[0, 0]) if closed else stretch.end_s
            yield stretch
            return
        steps = {int(self.step[number]) for _, number, _ in stretch.computed}
        opens, ends = stretch.begin_s == -np.inf, stretch.end_s == np.inf
        whole = opens or ends or len(steps) > 1
        if len(stretch.computed) == 1 and not whole:
            yield stretch
            return
        low, high = self._inside(stretch)
        what = self.what[low:high]
        pauses = self.pause_s[low:high][(what != Pause.SEND) if whole else (what == Pause.DATA)]
        if opens or ends:
            one = stretch.computed[-1:] if opens else stretch.computed[:1]
            begin = (pauses[-1, 1] if len(pauses) else np.nan) if opens else stretch.begin_s
            end = (pauses[0, 0] if len(pauses) else np.nan) if ends else stretch.end_s
            yield _Stretch(float(begin), float(end), one)
        elif len(pauses):
            yield _Stretch(stretch.begin_s, float(pauses[0, 0]), stretch.computed[:1])
            yield _Stretch(float(pauses[-1, 1]), stretch.end_s, stretch.computed[1:])
        else:
            yield stretch

    def _inside(self, stretch: _Stretch) -> tuple[int, int]:
        """Which pauses lie in a stretch."""
        low, high = np.searchsorted(self.pause_s[:, 0], (stretch.begin_s, stretch.end_s))
        return int(low), int(high)

    def _trim(self, stretch: _Stretch) -> None:
        """Take pauses off that stand at the begin or the end of a stretch; those of gradients are told with the
        backward that they follow."""
        if not (np.isfinite(stretch.begin_s) and np.isfinite(stretch.end_s)):
            return
        low, high = self._inside(stretch)
        inside = self.pause_s[low:high][self.what[low:high] != Pause.GRADIENTS].tolist()
        for begin, end in inside:
            if begin - stretch.begin_s <= NO_WORK_S and end <= stretch.end_s:
                stretch.begin_s = max(stretch.begin_s, end)
        for begin, end in reversed(inside):
            if stretch.end_s - end <= NO_WORK_S and begin >= stretch.begin_s:
                stretch.end_s = begin

    def _alone(self, kind: Kind, chunk: int = -1) -> list[float]:
        """How long actions of a kind, and of a chunk if one is given, took where each is seen by itself."""
        return [
            one.end_s - one.begin_s
            for one in self.stretches
            if len(one.computed) == 1
            and one.computed[0][0] is kind
            and (chunk < 0 or one.computed[0][2] == chunk)
            and np.isfinite(one.end_s - one.begin_s)
        ]

    def backward_over_forward(self) -> list[float]:
        """How much longer a backward takes than a forward where each is seen by itself, if both are: one number."""
        alone = [self._alone(kind) for kind in (Kind.F, Kind.B)]
        medians = [float(np.median(lengths)) if lengths else 0.0 for lengths in alone]
        return [medians[1] / medians[0]] if min(medians) > 0 else []

    def _weights(self, backward: float) -> dict[tuple[Kind, int], float]:
        """By how much of a stretch each of its actions takes: as each takes by itself, where all were seen so."""
        chunks = sorted({chunk for one in self.stretches for _, _, chunk in one.computed})
        usual = {(kind, chunk): (1.0, backward)[kind] for kind in (Kind.F, Kind.B) for chunk in chunks}
        alone = {key: self._alone(*key) for key in usual}
        if len(chunks) < 2 or not all(alone.values()):
            return usual
        return {key: float(np.median(lengths)) for key, lengths in alone.items()}

    def divide(self, backward: float) -> None:
        """Divide stretches among their actions; a backward takes so many times as long as a forward."""
        weight = self._weights(backward)
        parts_of = [np.array([weight[kind, chunk] for kind, _, chunk in one.computed]) for one in self.stretches]
        lengths = [(one.end_s - one.begin_s) / parts.sum() for one, parts in zip(self.stretches, parts_of, strict=True)]
        seen = [each for each in lengths if np.isfinite(each)]
        unit = float(np.median(seen)) if seen else 0.0
        for stretch, parts in zip(self.stretches, parts_of, strict=True):
            usual = float(parts.sum()) * unit
            begin = stretch.begin_s if np.isfinite(stretch.begin_s) else stretch.end_s - usual
            end = stretch.end_s if np.isfinite(stretch.end_s) else stretch.begin_s + usual
            edges = begin + (end - begin) * np.concatenate(([0.0], np.cumsum(parts) / parts.sum()))
            for one, since, until in zip(stretch.computed, edges, edges[1:], strict=False):
                self.actions.append((one, float(since), float(until)))

    def table(self) -> FloatArray:
        """Kind, microbatch, begin, end, wait from and until, waiting for own messages, sent, data, chunk
        ``[actions, 10]``."""
        kind, number, chunk = np.array([told for told, _, _ in self.actions], np.int64).T
        begin, end = np.array([edges for _, *edges in self.actions]).T
        what = kind == Kind.B, number, chunk
        wait = self._waits(what)
        if self.batched:  # what came for a forward and a backward came together, before the first of the two
            together = np.repeat(np.arange(len(self.stretches)), [len(one.computed) for one in self.stretches])
            first = np.searchsorted(together, np.arange(len(self.stretches)))
            edges = np.fmin.reduceat(wait[:, 0], first), np.fmax.reduceat(wait[:, 1], first)
            wait = np.column_stack(edges)[together]
        before = np.concatenate(([-np.inf], end[:-1]))
        upto = np.where(np.isnan(wait[:, 0]), begin, wait[:, 0])
        events = self.events
        sends = events.take(events.is_send)
        own = self.paused_s(Pause.SEND, before, upto) + length_between(sends.begin_s, sends.end_s, before, upto)
        sent = self._of(sends, sends.begin_s, what)
        data = self.paused_s(Pause.DATA, before, upto)
        return np.column_stack((kind, number, begin, end, wait, own, sent, data, chunk))

    def _of(self, events: Events, value: FloatArray, what: tuple[BoolArray, IntArray, IntArray]) -> FloatArray:
        """A value of the events of one direction for each of some actions, NaN where there is none ``[actions]``;
        ``what`` is whether it is a backward, its microbatch and its chunk."""
        backward, number, chunk = what
        table = np.full((2, len(self.step), int(max(chunk.max(), events.chunk.max(initial=0))) + 1), np.nan)
        table[events.backward.astype(int), events.number, events.chunk] = value
        return np.asarray(table[backward.astype(int), number, chunk])

    def _waits(self, what: tuple[BoolArray, IntArray, IntArray]) -> FloatArray:
        """The receive for every action, with waits for own messages right before it ``[actions, 2]``."""
        came = self.events.take(~self.events.is_send)
        begin = came.begin_s.copy()
        own = self.pause_s[self.what == Pause.SEND]
        last = np.searchsorted(own[:, 1], begin, side="right") - 1
        joined = last >= 0
        joined[joined] = begin[joined] - own[last[joined], 1] <= NO_WORK_S
        begin[joined] = own[last[joined], 0]
        return np.stack([self._of(came, value, what) for value in (begin, came.end_s)], axis=1)

    def paused_s(self, what: Pause, begin_s: FloatArray, end_s: FloatArray) -> FloatArray:
        """Seconds of pauses of a kind in some windows ``[windows]``."""
        mine = self.pause_s[self.what == what]
        return length_between(mine[:, 0], mine[:, 1], begin_s, end_s)
