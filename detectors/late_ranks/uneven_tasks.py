"""Pieces of work that take far longer than their like, among ranks that hand work on to each other.

In a pipeline all ranks wait in turn: to begin with, at its ends, and for a moment in each step. So their waiting does
not tell whether a different rank takes longer in each step. What they compute between two calls does, which is known
exactly: it is compared with what this rank ordinarily computes between the same two, with what the rank that waits
computes meanwhile, and with what this one computes next, of what it was handed. Where parts are uneven for all alike
(levels of a grid, blocks of different sizes), that is how the work is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.counts import SHOWS_THE_NOISE
from scalana.detectors.thresholds.factors import COMPARABLE, FAR_MORE
from scalana.detectors.thresholds.shares import MAJORITY, MINOR, PREDOMINANT, SHARE_OF_ITS_OWN, SLIGHT
from scalana.detectors.whatif.changes import IntervalExcess, change_of
from scalana.detectors.whatif.joins import with_join_waits
from scalana.detectors.whatif.replay import Replay
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import quantiles, weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.runtime.operations import MESSAGES

_NAMED = (VertexKind.LOOP, VertexKind.FUNCTION)


@dataclass(slots=True)
class UnevenTasks:
    """Own work between two calls."""

    number: IntArray
    """The same for those on one location between the same two calls of the program ``[calls]``."""
    alike: BoolArray
    """``[calls]``"""
    large: BoolArray
    """Those that are large on a different rank each time; none where sizes of all kinds occur ``[calls]``."""

    @classmethod
    def of(cls, blamed: BlamedRun, least_s: float) -> UnevenTasks:
        """Compare all pieces that somebody waits for, if they wait ``least_s`` for messages. O(calls log calls)."""
        timeline = blamed.timeline
        calls, own = timeline.calls, timeline.own
        count = len(calls)
        # Where few calls are written, it is several pieces that lie between two of them.
        wait_s = _waits_for_messages(blamed)
        if timeline.unwritten is not None or float(wait_s.sum()) < least_s:
            return cls(np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.bool_))
        cpu_s = weighted_count(own.burst, own.cpu_s, count + len(timeline.locations))[:count]
        before = np.append(-1, calls.vertex)[:count]
        before[calls.first[:-1][np.diff(calls.first) > 0]] = -1
        is_piece = _pieces(calls.location, cpu_s)
        number, _ = number_columns(calls.location, before, calls.vertex, is_piece.astype(np.int64))
        usual_s = quantiles(number, cpu_s, (0.5,), (False,))[0][number]
        known = is_piece & (np.bincount(number)[number] >= SHOWS_THE_NOISE)
        alike = known & (cpu_s <= COMPARABLE * usual_s)
        large = known & (cpu_s > FAR_MORE * usual_s)
        waited, apart = _judge(blamed, wait_s, is_piece, large, cpu_s, usual_s)
        waited_s, apart_s = float(cpu_s[waited].sum()), float(cpu_s[apart].sum())
        between_s = float(cpu_s[known & ~large & ~alike].sum())
        rare = (
            len(apart) < SHOWS_THE_NOISE
            or apart_s < SHARE_OF_ITS_OWN * waited_s
            or between_s > float(cpu_s[large].sum())
        )
        if rare:
            large[:] = False
        return cls(number, alike, large)

    def causes(
        self, candidates: list[Candidate], small: list[Candidate], replay: Replay
    ) -> list[tuple[Candidate, IntervalExcess]]:
        """What of some candidates, whose ranks are not late by themselves, lies in large pieces; those in one stretch
        of code without communication are one cause, with ``small`` ones there. It costs the waiting that goes with
        these pieces."""
        groups: dict[Place, list[Candidate]] = defaultdict(list)
        for candidate in candidates:
            if self.excess(candidate) is not None:
                groups[_stretch_of_code(candidate)].append(candidate)
        beside: dict[Place, list[Candidate]] = defaultdict(list)
        if groups:
            for candidate in small:
                if candidate.code_location.kind == TargetKind.OWN:
                    beside[_stretch_of_code(candidate)].append(candidate)
        found = []
        for place, group in groups.items():
            joined = _join(group).joined(beside[place])
            excess = self.excess(joined)
            if excess is not None:
                (change,) = with_join_waits([change_of(joined, excess)], joined.blamed.timeline, replay)
                measured_s, mended_s = replay.ends_s([None, change])
                less_s = float((measured_s - mended_s).sum() - change.removed_s.sum())
                found.append((replace(joined, lost_s=min(max(less_s, 0.0), joined.lost_s)), excess))
        return found

    def excess(self, candidate: Candidate) -> IntervalExcess | None:
        """What a candidate's ranks do at its place in large pieces, above what they do there in others; None if it is
        nothing notable."""
        if not self.large.any():
            return None
        table, timeline = candidate.blamed.table, candidate.blamed.timeline
        calls, own = timeline.calls, timeline.own
        count = len(calls)
        wanted = table.numbering.activity_mask(table.target[candidate.entries])
        rows = np.flatnonzero(wanted[own.activity] & (own.burst < count))
        burst, location = own.burst[rows], calls.location
        here = np.isin(timeline.locations.rank[location], candidate.ranks)
        did_s, cpu_s, core_wait_s = (
            weighted_count(burst, column[rows], count) for column in (own.seconds, own.cpu_s, own.core_wait_s)
        )
        alike = np.flatnonzero(self.alike)
        tasks = np.bincount(self.number[alike], minlength=int(self.number.max(initial=-1)) + 1)
        usual_s = weighted_count(self.number[alike], cpu_s[alike], len(tasks)) / np.maximum(tasks, 1)
        large = np.flatnonzero(self.large & here & (did_s > 0.0))
        # Samples tell what single pieces spend at one of several places by chance, and what all of them do.
        over_s = float((cpu_s[large] - usual_s[self.number[large]]).sum())
        if over_s <= 0.0 or over_s < MINOR * float(cpu_s[here].sum()):
            return None
        part = min(1.0, over_s / float(cpu_s[large].sum()))
        return IntervalExcess(
            burst, own.seconds[rows], np.searchsorted(burst, large), np.searchsorted(burst, large, side="right"),
            location[large], did_s[large], cpu_s[large], part * did_s[large], part * cpu_s[large],
            part * core_wait_s[large], of_pieces=True,
        )  # fmt: skip


def _join(group: list[Candidate]) -> Candidate:
    """One candidate of several in one stretch of code: at the largest if that holds most, else at what contains all."""
    group = sorted(group, key=lambda candidate: -candidate.lost_s)
    largest, lost_s = group[0], sum(candidate.lost_s for candidate in group)
    code_location, psg = largest.code_location, largest.blamed.psg
    if largest.lost_s < MAJORITY * lost_s:
        chains = [_without_calls(candidate.code_location.vertex, psg) for candidate in group]
        places = [{psg[vertex].place for vertex in chain} for chain in chains]
        named = [v for v in chains[0] if psg[v].kind in _NAMED and all(psg[v].place in other for other in places)]
        code_location = CodeLocation(code_location.kind, named[0], -1) if named else code_location
    ranks = sorted({rank for candidate in group for rank in candidate.ranks})
    return replace(largest.joined(group[1:]), code_location=code_location, ranks=ranks)


def _stretch_of_code(candidate: Candidate) -> Place:
    """The outermost loop or function around a candidate that is without communication."""
    psg = candidate.blamed.psg
    return psg[_without_calls(candidate.code_location.vertex, psg)[-1]].place


def _without_calls(vertex: int, psg: PSG) -> list[int]:
    """A vertex and what it lies in, innermost first, up to the outermost loop or function without communication."""
    chain = [vertex]
    for above in psg.ancestors(vertex):
        if psg.communicates(above.index):
            break
        chain.append(above.index)
    return chain


def _pieces(location: IntArray, cpu_s: FloatArray) -> BoolArray:
    """Which bursts are more than the moments between calls that follow each other ``[calls]``: those that are not far
    shorter than the bursts in which their location spends its time."""
    squares = weighted_count(location, cpu_s * cpu_s, int(location.max(initial=-1)) + 1)
    long_s = squares / np.maximum(weighted_count(location, cpu_s, len(squares)), 1e-300)
    return np.asarray(cpu_s > SLIGHT * long_s[location])


def _waits_for_messages(blamed: BlamedRun) -> FloatArray:
    """Seconds of waiting of every row of the stretches, 0 where it is for no message ``[rows of stretches]``."""
    table, timeline = blamed.table, blamed.timeline
    intervals = table.intervals
    message = np.isin(timeline.instances.operation[intervals.instance], MESSAGES)
    return np.where(np.repeat(message, np.diff(intervals.first)), intervals.wait_s, 0.0)


def _judge(
    blamed: BlamedRun, wait_s: FloatArray, is_piece: BoolArray, large: BoolArray, cpu_s: FloatArray, usual_s: FloatArray
) -> tuple[IntArray, IntArray]:
    """Of large pieces those that end with a message that somebody waits for, ``wait_s`` being
    :func:`_waits_for_messages`; and of these, those that are far larger than the last piece of who waits, and its next.
    """
    table, timeline = blamed.table, blamed.timeline
    calls, intervals = timeline.calls, table.intervals
    delay = np.repeat(np.arange(len(intervals.culprit)), np.diff(intervals.first))
    rows = np.flatnonzero(wait_s > 0.0)
    culprit, waiter = intervals.culprit[delay[rows]], intervals.call[rows]
    tasks = np.flatnonzero(is_piece)

    def task(at: IntArray, call: IntArray) -> tuple[IntArray, BoolArray]:
        """The pieces with some numbers, and whether they are on the locations of some calls."""
        inside = (at >= 0) & (at < len(tasks))
        found = tasks[np.where(inside, at, 0)]
        return found, inside & (calls.location[found] == calls.location[call])

    if not len(tasks):
        return tasks, tasks
    late, own = task(np.searchsorted(tasks, culprit, side="right") - 1, culprit)
    own &= large[late]
    late, waiter = late[own], waiter[own]
    next_one = np.searchsorted(tasks, waiter, side="right")
    most_s = np.zeros(len(late))
    for at in (next_one - 1, next_one):
        other, known = task(at, waiter)
        most_s = np.maximum(most_s, np.where(known, cpu_s[other], 0.0))
    apart = cpu_s[late] - most_s >= PREDOMINANT * (cpu_s[late] - usual_s[late])
    return np.unique(late), np.unique(late[apart])
