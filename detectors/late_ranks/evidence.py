"""What is known about a finding besides its seconds: how much slower, how often, on a CPU or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate, library_place
from scalana.detectors.whatif.changes import StretchExcess, comparisons_blamed
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import FloatArray, Timeline
from scalana.runtime.operations import BY_NAME

_RECEIVE = BY_NAME["recv"].code
_REPEATED = (VertexKind.LOOP, VertexKind.FUNCTION)
FAR_MORE = 2.0
"""So many times the CPU seconds of other ranks are another amount of work, not another share of a core."""
CERTAIN = 2.0
"""Standard deviations of the number of samples that an excess of CPU time must have, to be more computing."""


@dataclass(slots=True)
class PlaceTime:
    """Own time at a finding's place, by rank ``[ranks]``, in seconds over the whole run."""

    wall_s: FloatArray
    helper_s: FloatArray
    """Of the wall time, that in which another thread or a child process did the work."""
    cpu_s: FloatArray


def place_time(candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG) -> PlaceTime:
    """Sum the own work of every rank in the activities of a candidate; nothing of other ranks never seen in them, whose
    time there is but inferred from what others did in like stretches. Of several threads of a rank that communicate, it
    is the one that is waited for.

    A place in a library is the same whatever line of the user's leads there: ranks of other roles have other lines.
    """
    own, calls = timeline.own, timeline.calls
    wanted = np.zeros(len(timeline.activities.helper), dtype=bool)
    if candidate.spot.kind == TargetKind.OWN:
        targets = np.unique(table.target[candidate.entries])
        wanted[with_contexts_of_others(targets, candidate.ranks, table.work, timeline)] = True
        wanted |= np.isin(timeline.activities.vertex, _alike(candidate.spot.vertex, psg))
    rows = np.flatnonzero(wanted[own.activity])
    gap, seconds = own.gap[rows], own.seconds[rows]
    after = gap >= len(calls.location)  # the last call of its location
    location = np.where(after, gap - len(calls.location), 0)
    location[~after] = calls.location[gap[~after]]
    locations = timeline.locations

    def by_location(seconds: FloatArray) -> FloatArray:
        return weighted_count(location, seconds, len(locations.rank))

    seen = by_location(own.samples[rows].astype(np.float64)) > 0.0
    # Its own seconds may all be rests that were found here, and what was sampled in them a helper's.
    seen |= np.isin(locations.rank, candidate.ranks)
    helper = np.where(timeline.activities.helper[own.activity[rows]], seconds, 0.0)
    parts = [np.where(seen, by_location(part), 0.0) for part in (seconds, helper, own.cpu_s[rows])]
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
    return PlaceTime(*result)


def _alike(vertex: int, psg: PSG) -> list[int]:
    """The vertices of the same part of a library's call, below whatever call; none of what is no such part."""
    inside = library_place(vertex, psg)
    if inside is None:
        return []
    part = inside, psg[vertex].place.name
    return [v.index for v in psg.vertices if v.kind is VertexKind.CALL and (v.site, v.place.name) == part]


def computes_more(candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG) -> bool:
    """Whether the candidate's ranks use far more CPU at its place than the others.

    Where ranks share cores, who computes more waits more for a core too: that wait is then not the cause.
    """
    cpu = place_time(candidate, table, timeline, psg).cpu_s
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    return bool((~here).any()) and float(cpu[here].mean()) > FAR_MORE * float(cpu[~here].mean())


def may_compute_more(candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG) -> bool:
    """Whether samples tell that the candidate's ranks use more CPU at its place over the run than the others, each of
    them worth a period; their numbers vary by their roots. Samples in single stretches, chosen for being long, do not
    tell that."""
    cpu = place_time(candidate, table, timeline, psg).cpu_s
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    if here.all():
        return True
    variance = timeline.period_s * (cpu[here].mean() / here.sum() + cpu[~here].mean() / (~here).sum())
    return float(cpu[here].mean() - cpu[~here].mean()) >= CERTAIN * float(np.sqrt(variance))


def occurrences(candidate: Candidate, table: BlameTable) -> int:
    """Instances in which the candidate was blamed."""
    groups = table.groups
    blamed = comparisons_blamed(np.unique(table.target[candidate.entries]), table)
    blamed &= np.isin(groups.comparison_culprit, table.location[candidate.entries])
    return len(np.unique(table.stretches.instance[blamed[groups.comparison]]))


def describe(
    candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG, excess: StretchExcess | None
) -> dict[str, object]:
    """Evidence for the report. Seconds are means over the finding's ranks, and over the others.

    ``excess`` is the candidate's, of one on own work.
    """
    evidence: dict[str, object] = {"occurrences": occurrences(candidate, table)}
    if candidate.spot.kind != TargetKind.OWN or excess is None:
        return evidence
    time = place_time(candidate, table, timeline, psg)
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    wall = float(time.wall_s[here].mean())
    others = float(time.wall_s[~here].mean()) if (~here).any() else None
    evidence["seconds_here"] = wall
    if others is not None:
        evidence["seconds_others"] = others
        evidence["ratio"] = wall / others if others > 0.0 else None
        runs = times_run(candidate.spot.vertex, here, timeline, psg)
        if runs is not None:
            evidence["runs_here"], evidence["runs_others"] = runs
    shares = excess.shares()
    if shares is not None:
        evidence["cpu_share"], evidence["core_wait_share"] = shares
        evidence["sleeps"] = excess.asleep
    if excess.of_pieces:
        evidence["large_pieces"], evidence["large_pieces_over_s"] = len(excess.over_s), float(excess.over_s.sum())
    if wall > 0.0:
        evidence["helper_share"] = float(time.helper_s[here].mean()) / wall
    evidence["callers"] = callers(candidate.spot.vertex, psg)
    inside = library_place(candidate.spot.vertex, psg)
    if inside is not None:
        called = psg[candidate.spot.vertex].place.name
        evidence["library"] = {"file": inside.file, "line": inside.line, "function": inside.name, "calls": called}
    return evidence


def times_run(vertex: int, here: npt.NDArray[np.bool_], timeline: Timeline, psg: PSG) -> tuple[float, float] | None:
    """How often the ranks ``here`` ran what is around a place, and how often those of the others did that make calls of
    communication there, on average: ranks of other roles may run it elsewhere. None where no other does."""
    runs = runs_of_ranks(vertex, timeline, psg)
    others = runs[~here & (runs > 0.0)]
    return (float(runs[here].mean()), float(others.mean())) if len(others) else None


def runs_of_ranks(vertex: int, timeline: Timeline, psg: PSG) -> FloatArray:
    """How often every rank ran what is around a place ``[ranks]``.

    Told by the calls of communication that the innermost loop or function with any makes in each round: of every rank
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


def callers(vertex: int, psg: PSG) -> list[str]:
    """Call sites above a vertex, innermost first, as ``file:line function``.

    Where a library calls the user's function back, the site is the line of the user's that enters the library.
    """
    result = []
    current = vertex
    while current > 0:
        function = psg.enclosing(current, VertexKind.FUNCTION)
        if function < 0:
            break
        parent = psg[function].parent
        site = psg[function].site
        if site is None and psg[parent].kind is VertexKind.CALL and psg[parent].parent > 0:  # else a thread's start
            site = psg[parent].place
        if parent > 0 and site is not None and site.line > 0:
            result.append(f"{site.file}:{site.line} {psg.function_of(parent)}")
        current = parent
    return result
