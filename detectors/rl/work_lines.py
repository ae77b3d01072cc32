"""The line at which some processes do more of a kind of work than others: where phases begin inside of a library, whose
loop calls what the program gave it, it is that line a person would look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.loop import Loop
from scalana.detectors.rl.phases import Doing
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class WorkPlace:
    """Where it is."""

    vertex: int
    line: int
    here_s: float = np.nan
    """Seconds of each of these processes there, NaN where it is where the work begins."""
    others_s: float = np.nan
    """Likewise of others that do such work."""
    inside: Place | None = None
    """Of the program's call of a library, in which the work begins: where there."""
    calls: str = ""
    """What is called there."""


def place_of(loop: Loop, doing: Doing, ranks: list[int], timeline: Timeline, psg: PSG) -> WorkPlace | None:
    """Where a finding about what some processes do stands: where that begins, if it does in the program's own code;
    else where in its own code they do most of what they do more than others, if that is known, or else where it calls
    the library in which it begins. None where neither is known.

    What a library calls back (a reward function) is the program's own code, below its call of the library.
    """
    vertex, line = int(loop.vertex[doing]), int(loop.line[doing])
    begins_here = vertex >= 0 and line > 0 and _own_vertex(vertex, psg) == vertex
    if begins_here and psg[vertex].kind is not VertexKind.CALL:
        return WorkPlace(vertex, line)
    found = _where_more(loop, doing, ranks, timeline, psg)
    if begins_here and (found is None or not _is_below(found.vertex, vertex, psg)):
        return WorkPlace(vertex, line)
    if found is not None or vertex < 0:
        return found
    inside, calls = _inside(vertex, psg)
    return WorkPlace(_own_vertex(vertex, psg), line, inside=inside, calls=calls)


def _where_more(loop: Loop, doing: Doing, ranks: list[int], timeline: Timeline, psg: PSG) -> WorkPlace | None:
    """The line of the program's own code, or else its function that a library calls, in which processes do most of what
    they do more than others; None where samples do not show it."""
    spent = np.stack([_by_activity(loop, rank, doing, timeline) for rank in range(len(loop.processes))])
    those = np.array(ranks, np.int64)
    others = np.setdiff1d(np.flatnonzero(spent.sum(axis=1) > 0.0), those)
    usual: FloatArray = spent[others].mean(axis=0) if len(others) else np.zeros(spent.shape[1])
    more = np.maximum(spent[those].mean(axis=0) - usual, 0.0) if len(those) else np.zeros(spent.shape[1])
    # What samples do not show, by far, is not to be told by those few that there are.
    doing_s = loop.own_s[:, :, doing].sum(axis=1)
    excess_s = float(doing_s[those].mean() - doing_s[others].mean()) if len(those) and len(others) else 0.0
    activities = timeline.activities
    rows = np.flatnonzero((activities.line > 0) & (more > 0.0)).tolist()
    at = {row: int(activities.vertex[row]) for row in np.flatnonzero(activities.line > 0).tolist()}
    lines = {row: (_own_vertex(vertex, psg), int(activities.line[row])) for row, vertex in at.items()}
    called = {row: _called_back(vertex, psg) for row, vertex in at.items()}
    for places in (lines, {row: place for row, place in called.items() if place is not None}):
        seconds: dict[tuple[int, int], float] = {}
        for row in rows:
            if row in places:
                seconds[places[row]] = seconds.get(places[row], 0.0) + float(more[row])
        best = max(seconds, key=lambda place: seconds[place], default=None)
        if best is not None and seconds[best] >= MAJORITY * max(float(more.sum()), excess_s):
            there = np.array([row for row, place in places.items() if place == best])
            here_s, others_s = float(spent[those].mean(axis=0)[there].sum()), float(usual[there].sum())
            within = at[int(there[more[there].argmax()])]
            return WorkPlace(*best, here_s, others_s, *_inside(within, psg))
    return None


def _called_back(vertex: int, psg: PSG) -> tuple[int, int] | None:
    """The outermost function of the program around a vertex that a library calls, with its first line."""
    found = None
    for above in (psg[vertex], *psg.ancestors(vertex)) if 0 <= vertex < len(psg) else ():
        if above.kind is VertexKind.FUNCTION and above.parent > 0 and psg[above.parent].kind is VertexKind.CALL:
            found = above.index, above.place.line
    return found


def _is_below(vertex: int, call: int, psg: PSG) -> bool:
    return any(above.index == call for above in psg.ancestors(vertex))


def _inside(vertex: int, psg: PSG) -> tuple[Place | None, str]:
    """Of a part of a call of a library, where that is there, and what it calls; nothing for anything else."""
    return (psg[vertex].site, psg[vertex].place.name) if _own_vertex(vertex, psg) != vertex else (None, "")


def _own_vertex(vertex: int, psg: PSG) -> int:
    """The vertex of the program's own call of a library of which a vertex is a part; itself if it is none."""
    while 0 <= vertex < len(psg) and psg[vertex].kind is VertexKind.CALL and psg[vertex].site is not None:
        vertex = psg[vertex].parent
    return vertex


def _by_activity(loop: Loop, rank: int, doing: Doing, timeline: Timeline) -> FloatArray:
    """Seconds that a process spends on something, by what its samples show ``[activities]``."""
    process, calls, own = loop.processes[rank], timeline.calls, timeline.own
    location = process.location
    first, end = (int(each) for each in calls.first[location : location + 2])
    bursts = np.append(np.arange(first, end), len(calls) + location)
    edges = np.searchsorted(own.burst, [first, end, len(calls) + location, len(calls) + location + 1])
    rows = np.concatenate((np.arange(*edges[:2]), np.arange(*edges[2:])))
    last_s = timeline.locations.end_s[location]
    leaves = np.append(timeline.locations.start_s[location], calls.exit_s[first:end])
    enters = np.append(calls.enter_s[first:end], last_s)
    number = np.searchsorted(bursts, own.burst[rows])
    begin_s, end_s = leaves[number].copy(), enters[number].copy()
    seen: IntArray = np.searchsorted(own.seen_row, rows)
    known = seen < len(own.seen_row)
    known[known] = own.seen_row[seen[known]] == rows[known]
    begin_s[known], end_s[known] = own.seen_s[seen[known]].T
    bounds = process.bounds_s
    begin_s, end_s = np.clip(begin_s, bounds[0], bounds[-1]), np.clip(end_s, bounds[0], bounds[-1])
    inside = process.spent_s(begin_s, end_s)[:, doing]
    part = np.divide(inside, end_s - begin_s, out=np.zeros_like(inside), where=end_s > begin_s)
    seconds = own.seconds[rows] * part
    return np.asarray(np.bincount(own.activity[rows].astype(np.int64), seconds, len(timeline.activities)), np.float64)
