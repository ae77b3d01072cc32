"""Steps from the repetition of communication: the loop in which ranks meet again and again.

One location is looked at. A *beat* is a call that it makes once a step: of the outermost loop of the structure that
repeats and holds most of the communication, a call that stands in no inner loop of it; else the last one before the
loop does something outside of its inner loops; and where there is no such loop or call, one that comes once in every
period of the sequence of calls. A step then lasts, on every rank, from one beat
to the next. A beat that is a collective of all ranks gives all of them the same steps; else all ranks must have come to
that place as often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.steps.sequence import LIKE, beats_of_period
from scalana.graphs.steps.steps import FEWEST, Steps
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline

MOST = 0.5
"""Part of the calls, or of the seconds in them, that must be those of the loop; and of the calls in steps, those at
places to which most steps come."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The calls of the location that is looked at, in order."""

    rows: IntArray
    """Rows of the timeline's calls ``[calls]``."""
    vertex: IntArray
    """``[calls]``"""
    operation: IntArray
    """``[calls]``"""
    seconds: FloatArray
    """``[calls]``"""
    symbol: IntArray
    """What is the same call again: place, operation and, of collectives, size ``[calls]``."""
    common: BoolArray
    """Whether every rank that calls anything takes part in it ``[calls]``."""


@dataclass(frozen=True, slots=True)
class _Beats:
    """Calls that come once a step."""

    at: IntArray
    """Which calls of the location, ascending ``[steps]``."""
    member: BoolArray
    """Calls that are part of the steps, rather than of what is before, between and after them ``[calls]``."""
    slack: int
    """So many calls that are no members may lie between two beats without their being apart."""


def repeated(timeline: Timeline, psg: PSG, source: str) -> Steps | None:
    """The steps that the communication of a run shows; None where nothing repeats clearly, and where so many calls were
    made that not all were written."""
    if timeline.unwritten is not None or not len(timeline.calls):
        return None
    look = _look(timeline)
    for beats in _candidates(look, timeline, psg):
        if len(beats.at) < FEWEST or not _alike(look, beats):
            continue
        call = _on_all_ranks(look.rows[beats.at], timeline)
        if call is not None:
            return _steps(look, beats, call, timeline, source)
    return None


def _look(timeline: Timeline) -> _Look:
    """The location of the lowest rank that calls most."""
    calls, locations = timeline.calls, timeline.locations
    count = np.diff(calls.first)
    lowest = int(locations.rank[np.flatnonzero(count)[0]])
    location = int(np.argmax(np.where(locations.rank == lowest, count, -1)))
    rows = np.arange(calls.first[location], calls.first[location + 1])
    vertex = calls.vertex[rows].astype(np.int64)
    common = _is_common(rows, timeline)
    size = np.where(common, calls.nbytes[rows], 0)
    operation = calls.operation[rows].astype(np.int64)
    symbol, _ = number_columns(vertex, operation, size)
    return _Look(rows, vertex, operation, calls.exit_s[rows] - calls.enter_s[rows], symbol, common)


def _candidates(look: _Look, timeline: Timeline, psg: PSG) -> Iterator[_Beats]:
    """What may be the beats, the best first."""
    below, direct = _loops(np.unique(look.vertex).tolist(), psg)
    depth = {loop: sum(above.kind is VertexKind.LOOP for above in psg.ancestors(loop)) for loop in below}
    total_s = max(float(look.seconds.sum()), 1e-300)
    share = {}
    for loop, vertices in below.items():
        inside = np.isin(look.vertex, vertices)
        share[loop] = max(float(inside.mean()), float(look.seconds[inside].sum()) / total_s)
    for loop in sorted(below, key=lambda loop: (depth[loop], -share[loop])):
        if share[loop] < MOST:
            continue
        member = np.isin(look.vertex, below[loop])
        at = _beats_of_loop(direct[loop], look, timeline, psg)
        if at is not None:
            yield _Beats(at, member, 0)
        else:
            rows = np.flatnonzero(member)
            turns = turns_of_loop(loop, below.keys(), look.rows, rows, timeline, psg)
            if turns is not None:
                yield _Beats(turns, member, 0)
            period, found = beats_of_period(look.symbol[rows])
            if period > 1:  # each time the same call: that is an inner loop's own repetition
                yield _Beats(rows[found], member, 0)
    period, at = beats_of_period(look.symbol)
    if period:
        yield _Beats(at, _members(look.symbol, at), period)


def _loops(vertices: list[int], psg: PSG) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Of every loop around any of the vertices, those below it, and those of these that are in no inner loop."""
    below, direct = defaultdict(list), defaultdict(list)
    for vertex in vertices:
        loops = [above.index for above in psg.ancestors(vertex) if above.kind is VertexKind.LOOP]
        for loop in loops:
            below[loop].append(vertex)
        if loops:
            direct[loops[0]].append(vertex)
    return below, direct


def _beats_of_loop(vertices: list[int], look: _Look, timeline: Timeline, psg: PSG) -> IntArray | None:
    """The calls of a loop that come once in each turn of it, the last in order if several do; None if there are none.

    What comes most often comes in every turn: other calls are in branches. What only samples tell of may be in loops
    that nobody knows of, and counts where there is nothing else.
    """
    told = [vertex for vertex in vertices if not any(above.index in psg.added for above in psg.ancestors(vertex))]
    places = []
    wanted = np.flatnonzero(np.isin(look.vertex, told or vertices))
    site, chosen = number_columns(look.vertex[wanted], look.operation[wanted])
    even = _as_often_on_all(look.vertex[wanted][chosen], look.operation[wanted][chosen], timeline)
    for number in range(len(chosen)):
        at = wanted[site == number]
        common = bool(look.common[at].all())
        if common or even[number]:
            places.append((common, len(at), int(at[0]), at))
    if not places:
        return None
    counts = [count for _, count, _, _ in places]
    once = [_once_a_turn(at, look, counts) for _, _, _, at in places]
    places = [(common, len(at), int(at[0]), at) for (common, _, _, _), at in zip(places, once, strict=True)]
    most = max(count for _, count, _, _ in places)
    often = [place for place in places if place[1] == most]
    return max(often, key=lambda place: (place[0], place[2]))[3]


def _once_a_turn(at: IntArray, look: _Look, counts: list[int]) -> IntArray:
    """Of the calls at one place, one a turn: a line may make several calls each time (an object's size, and then the
    object). They differ in size, come in turn, and another place has so many fewer calls."""
    period, found = beats_of_period(look.symbol[at])
    if period > 1 and any(abs(count - len(at) / period) <= 1.0 for count in counts):
        return at[found]
    return at


def _members(symbol: IntArray, at: IntArray) -> BoolArray:
    """The calls of a sequence that come between most of the beats."""
    step = np.searchsorted(at, np.arange(len(symbol)))
    pair = np.unique(np.stack((symbol, step)), axis=1)
    often = np.bincount(pair[0], minlength=int(symbol.max()) + 1) >= MOST * len(at)
    return np.asarray(often[symbol])


def _alike(look: _Look, beats: _Beats) -> bool:
    """Whether most of what is called in the steps is called in most of them."""
    inside = np.flatnonzero(beats.member & (np.arange(len(look.rows)) <= beats.at[-1]))
    often = _members(look.vertex[inside], np.searchsorted(inside, beats.at))
    return float(often.mean()) >= MOST and len(inside) >= MOST * len(look.rows) * float(beats.slack > 0)


def _is_common(rows: IntArray, timeline: Timeline) -> BoolArray:
    """Whether calls post to operations in which every rank that calls anything takes part ``[rows]``."""
    instances = timeline.instances
    posts = timeline.calls.posts[rows]
    size = np.diff(instances.first)
    common = np.append(instances.complete & (size >= max(len(_ranks(timeline)), 2)), False)
    return np.asarray(common[posts])


def _ranks(timeline: Timeline) -> IntArray:
    """The ranks that call anything."""
    return np.unique(timeline.locations.rank[np.diff(timeline.calls.first) > 0])


def _on_all_ranks(rows: IntArray, timeline: Timeline) -> IntArray | None:
    """For calls of one location the like call of every rank, -1 of ranks that call nothing ``[calls, ranks]``.

    These are the members of the same collective; or the call at the same place that has the same number there, if all
    ranks are there equally often. None where neither is so.
    """
    calls, locations = timeline.calls, timeline.locations
    result = np.full((len(rows), timeline.ranks), -1, np.int64)
    if _is_common(rows, timeline).all():
        first = timeline.instances.first
        for number, instance in enumerate(calls.posts[rows].tolist()):
            members = timeline.instances.members[first[instance] : first[instance + 1]]
            result[number, locations.rank[calls.location[members]]] = members
        return result
    vertex, operation = calls.vertex[rows], calls.operation[rows]
    if (vertex != vertex[0]).any() or (operation != operation[0]).any():
        return None
    if not _as_often_on_all(vertex[:1], operation[:1], timeline)[0]:
        return None
    there = np.flatnonzero((calls.vertex == vertex[0]) & (calls.operation == operation[0]))
    ranks = _ranks(timeline)
    own = there[calls.location[there] == calls.location[rows[0]]]
    result[:, ranks] = there.reshape(len(ranks), -1)[:, np.searchsorted(own, rows)].T
    return result


def _as_often_on_all(vertex: IntArray, operation: IntArray, timeline: Timeline) -> BoolArray:
    """Whether each of some calls of the program is made equally often on all ranks that call anything, on one thread of
    each. They differ in vertex or operation ``[places]``. One pass over all calls."""
    calls, locations = timeline.calls, timeline.locations
    codes = int(calls.operation.max()) + 1
    place_of = np.full((int(calls.vertex.max()) + 1) * codes, len(vertex))
    place_of[vertex.astype(np.int64) * codes + operation] = np.arange(len(vertex))
    row = calls.location.astype(np.int64) * (len(vertex) + 1)
    row += place_of[calls.vertex.astype(np.int64) * codes + calls.operation]
    count = np.bincount(row, minlength=len(locations) * (len(vertex) + 1)).reshape(len(locations), -1)[:, :-1]
    ranks = _ranks(timeline)
    of_rank = np.zeros((timeline.ranks, len(vertex)), np.int64)
    np.add.at(of_rank, locations.rank, count)
    return np.asarray((np.count_nonzero(count, axis=0) == len(ranks)) & (np.ptp(of_rank[ranks], axis=0) == 0))


def _steps(look: _Look, beats: _Beats, call: IntArray, timeline: Timeline, source: str) -> Steps:
    """The steps between beats. ``call`` is the beat of every rank ``[steps, ranks]``.

    A step begins where the one before ends; or, where something else was done between the two, or before the first,
    behind the last call of that. Where nothing is called before the first, its beginning is not known.
    """
    calls = timeline.calls
    end = np.where(call >= 0, calls.exit_s[call], np.nan)
    start = np.concatenate((np.full((1, end.shape[1]), np.nan), end[:-1]))
    foreign = np.concatenate(([0], np.cumsum(~beats.member)))
    between = foreign[beats.at] - foreign[np.append(0, beats.at[:-1] + 1)]
    member_vertex = np.zeros(int(calls.vertex.max()) + 1, np.bool_)
    member_vertex[look.vertex[beats.member]] = True
    for step in np.flatnonzero((between > beats.slack) | (np.arange(len(between)) == 0)).tolist():
        for rank in np.flatnonzero(call[step] >= 0).tolist():
            beat = int(call[step, rank])
            low = int(call[step - 1, rank]) + 1 if step else int(calls.first[calls.location[beat]])
            others = np.flatnonzero(~member_vertex[calls.vertex[low:beat]])
            if len(others):
                start[step, rank] = calls.exit_s[low + int(others[-1])]
    return Steps(source, np.arange(len(end), dtype=np.int64), start, end)


SURE = 2.0
"""Periods of sampling that a loop does something else for, usually, so that every turn shows it."""


def turns_of_loop(
    loop: int, inner: Container[int], rows: IntArray, member: IntArray, timeline: Timeline, psg: PSG
) -> IntArray | None:
    """The last calls of the turns of a loop, ascending, among the calls of a location; None where that is not clear.

    Before the first call of a turn the location works in the loop, but in none of its inner loops. A turn in which that
    was too short to be seen is as long as most of the others.

    Args:
        loop: its vertex.
        inner: all loops with calls in them.
        rows: the location's calls, by row of the timeline ``[calls]``.
        member: those that are below the loop ``[some calls]``.
    """
    outside_s = _outside_s(loop, inner, rows, timeline, psg)[member]
    first = np.flatnonzero(outside_s > 0.0)
    first = first[first > 0]
    if len(first) < FEWEST:
        return None
    gaps = np.diff(first)
    lengths, counts = np.unique(gaps, return_counts=True)
    usual = int(lengths[np.argmax(counts)])
    if usual < 2:
        return None
    if float(np.mean(gaps % usual == 0)) >= LIKE:
        begins = np.arange(first[0] % usual, len(member) + 1, usual)
        begins = begins[begins > 0]
    elif float(np.median(outside_s[first])) >= SURE * timeline.period_s:
        begins = np.append(first, len(member))
    else:
        return None
    return np.asarray(member[begins - 1])


def _outside_s(loop: int, inner: Container[int], rows: IntArray, timeline: Timeline, psg: PSG) -> FloatArray:
    """Seconds that a location works in a loop and in none of its inner loops, before each of its calls ``[calls]``."""
    own, activities = timeline.own, timeline.activities
    here = np.array([_stands_in(vertex, loop, inner, psg) for vertex in activities.vertex.tolist()], np.bool_)
    chosen: BoolArray = here[own.activity] & (own.burst >= rows[0]) & (own.burst <= rows[-1])
    seconds = np.bincount(own.burst[chosen] - rows[0], own.seconds[chosen], len(rows))
    return np.asarray(seconds, np.float64)


def _stands_in(vertex: int, loop: int, inner: Container[int], psg: PSG) -> bool:
    """Whether the innermost loop with calls around a vertex is this one."""
    while vertex >= 0 and vertex not in inner:
        vertex = psg[vertex].parent
    return vertex == loop
