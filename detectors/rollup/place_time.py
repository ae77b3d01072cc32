"""What every rank spends at a place, and how often it runs what is around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scalana.detectors.delays.choices import same_in_choices
from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.delays.served import serving_threads
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.library_calls import library_place
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME

_RECEIVE = BY_NAME["recv"].code


_REPEATED = (VertexKind.LOOP, VertexKind.FUNCTION)


@dataclass(slots=True)
class PlaceSeconds:
    """Own time at a finding's place, by rank ``[ranks]``, in seconds over the whole run."""

    wall_s: FloatArray
    helper_s: FloatArray
    """Of the wall time, that in which another thread or a child process did the work."""
    cpu_s: FloatArray


def place_time(candidate: Candidate) -> PlaceSeconds:
    """Sum the own work of every rank in the activities of a candidate; nothing of other ranks never seen in them, whose
    time there is but inferred from what others did in like stretches. Of several threads of a rank that communicate, it
    is the one that is waited for, and all of those that take turns at what others call them for.

    A place in a library is the same whatever line of the user's leads there: ranks of other roles have other lines.
    """
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    own, calls = timeline.own, timeline.calls
    wanted = np.zeros(len(timeline.activities.helper), dtype=bool)
    if candidate.code_location.kind == TargetKind.OWN:
        targets = np.unique(table.target[candidate.entries])
        wanted[with_contexts_of_others(targets, candidate.ranks, table.work, timeline)] = True
        wanted[same_in_choices(targets, table.work, table.choice)] = True
        wanted |= np.isin(timeline.activities.vertex, _alike(candidate.code_location.vertex, psg))
    rows = np.flatnonzero(wanted[own.activity])
    burst, seconds = own.burst[rows], own.seconds[rows]
    after = burst >= len(calls.location)  # the last call of its location
    location = np.where(after, burst - len(calls.location), 0)
    location[~after] = calls.location[burst[~after]]
    locations = timeline.locations

    def by_location(seconds: FloatArray) -> FloatArray:
        return weighted_count(location, seconds, len(locations.rank))

    seen = by_location(own.samples[rows].astype(np.float64)) > 0.0
    # Its own seconds may all be rests that were found here, and what was sampled in them a helper's.
    seen |= np.isin(locations.rank, candidate.ranks)
    helper = np.where(timeline.activities.helper[own.activity[rows]], seconds, 0.0)
    parts = [np.where(seen, by_location(part), 0.0) for part in (seconds, helper, own.cpu_s[rows])]
    one = _one_for_all(timeline)
    parts = [weighted_count(one, part, len(one)) for part in parts]
    blamed_s = weighted_count(table.location[candidate.entries], table.seconds[candidate.entries], len(locations.rank))
    blamed_s[parts[0] <= 0.0] = 0.0  # it was late with what another one did before it was started
    # The others may do it for this one, which would then count twice.
    order = np.lexsort((parts[0], blamed_s, locations.rank))
    most = order[np.append(np.diff(locations.rank[order]) != 0, True)]
    # What another of them that communicates does itself is no background work.
    own_s = parts[0] - parts[1]
    beside_s = weighted_count(locations.rank, own_s, timeline.ranks)[locations.rank] - own_s
    parts[1] = np.maximum(parts[1] - beside_s, 0.0)
    result = np.zeros((len(parts), timeline.ranks))
    result[:, locations.rank[most]] = [part[most] for part in parts]
    return PlaceSeconds(*result)


def _one_for_all(timeline: Timeline) -> IntArray:
    """One location for all threads of its rank that do but what others call them for; itself for any other
    ``[locations]``."""
    locations, rows = timeline.locations, np.flatnonzero(serving_threads(timeline))
    result = np.arange(len(locations.rank))
    _, first, number = np.unique(locations.rank[rows], return_index=True, return_inverse=True)
    result[rows] = rows[first][number.reshape(-1)]
    return result


def _alike(vertex: int, psg: PSG) -> list[int]:
    """The vertices of the same part of a library's call, below whatever call; none of what is no such part."""
    inside = library_place(vertex, psg)
    if inside is None:
        return []
    part = inside, psg[vertex].place.name
    return [v.index for v in psg.vertices if v.kind is VertexKind.CALL and (v.site, v.place.name) == part]


def times_run(vertex: int, here: npt.NDArray[np.bool_], timeline: Timeline, psg: PSG) -> tuple[float, float] | None:
    """How often the ranks ``here`` ran what is around a place, and how often those of the others did that make calls of
    communication there, on average: ranks of other roles may run it elsewhere. None where no other does."""
    runs = runs_of_ranks(vertex, timeline, psg)
    others = runs[~here & (runs > 0.0)]
    return (float(runs[here].mean()), float(others.mean())) if len(others) else None


def runs_of_ranks(vertex: int, timeline: Timeline, psg: PSG) -> FloatArray:
    """How often every rank ran what is around a place ``[ranks]``.

    Known by the calls of communication that the innermost loop or function with any makes in each round: of every rank
    those of the call that it makes most often. 0 where it makes none of them.
    """
    above = (v.index for v in psg.ancestors(vertex) if v.kind in _REPEATED and psg.communicates(v.index))
    around = next(above, -1)
    if around <= 0:
        return np.zeros(timeline.ranks)
    beside = np.zeros(len(psg), dtype=bool)
    stack = [around]
    while stack:
        for child in psg[stack.pop()].children:
            if psg[child].kind is VertexKind.COMM:
                beside[child] = True
            elif psg[child].kind is not VertexKind.LOOP:
                stack.append(child)
    calls = timeline.calls
    rows = np.flatnonzero(beside[np.minimum(calls.vertex, len(psg) - 1)] & (calls.vertex < len(psg)))
    # A pickled message is received by two calls: a matched probe, and the one that fetches it.
    rows = rows[(calls.operation[rows] != _RECEIVE) | (calls.posts[rows] >= 0)]
    which, rank = np.cumsum(beside)[calls.vertex[rows]] - 1, timeline.locations.rank[calls.location[rows]]
    weight = np.ones(len(rows)) if timeline.unwritten is None else timeline.unwritten.stands_for[rows]
    count = weighted_count(which * timeline.ranks + rank, weight, int(beside.sum()) * timeline.ranks)
    return np.asarray(count.reshape(-1, timeline.ranks).max(axis=0, initial=0.0))
