"""ScalAna as published, as a detector of its own and as the baseline that ours is compared with.

After Jin et al., "ScalAna: automating scaling loss detection with graph analysis" (SC 2020): problematic vertices are
those whose aggregated time grows most with the ranks (non-scalable), or exceeds that of other ranks by a threshold
(abnormal). From each of them a walk goes backwards through the graph of one rank, along order and control, and over to
another rank where a communication dependence carries waiting; it ends at the root or at a collective. What it cannot
see is what sums over the run do not show: faults that move between ranks, and how many seconds a cause costs.

:func:`largest_imbalance` is the naive baseline: the vertex at which ranks differ most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.finding import Finding, Hop
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.ppg import PPG
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.runtime.operations import BY_CODE, Waits

ABNORMAL = 1.3
"""Times a vertex' typical time from which a rank is abnormal (the paper's AbnormThd)."""
SHARE = 0.01
"""Part of a rank's time that a vertex must have to be looked at."""
MOST_NON_SCALABLE = 5
"""Vertices taken from the top of the list by slope."""
COLLECTIVE = (Waits.ALL, Waits.ROOT, Waits.AT_ROOT, Waits.LOWER)
ENTERED = (VertexKind.LOOP, VertexKind.BRANCH, VertexKind.FUNCTION, VertexKind.REGION, VertexKind.CALL)
"""Kinds whose body the walk enters at its end; inlined functions are part of the path as their bodies are."""

CodeLocation = tuple[int, int]
"""(rank, vertex)"""


@dataclass(slots=True)
class Walk:
    """One backtracking."""

    start: CodeLocation
    steps: list[CodeLocation]
    """From the start to the end of the walk."""
    cause: CodeLocation
    """The place on the way that is taken for the cause."""
    seconds: float
    """What makes the start problematic: its time above the typical one."""


@dataclass(slots=True)
class Published:
    """What the published method finds."""

    abnormal: list[CodeLocation]
    non_scalable: list[tuple[int, float]]
    """(vertex, slope in log-log), steepest first."""
    walks: list[Walk]
    findings: list[Finding] = field(default_factory=list)
    """One for each distinct cause; largest sum of seconds first. ``lost_s`` is that sum, no saving is known."""


def detect(ppg: PPG, waits: WaitStates, growth: Sequence[tuple[int, float]] = ()) -> Published:
    """Backtrack from every problematic vertex.

    ``growth`` are the non-scalable vertices, from :func:`non_scalable_vertices`; for a single run there are none.
    """
    time_s = ppg.metrics["time_s"]
    typical = np.median(time_s, axis=1)
    abnormal = abnormal_vertices(time_s)
    flagged = set(abnormal)
    depends = dependences(ppg, waits)
    starts = [
        (code_location, float(time_s[code_location[1], code_location[0]] - typical[code_location[1]]))
        for code_location in abnormal
    ]
    for vertex, _ in growth:
        rank = int(np.argmax(time_s[vertex]))
        if (rank, vertex) not in flagged:
            starts.append(((rank, vertex), float(time_s[vertex, rank])))
    walks = []
    for start, seconds in starts:
        steps = backtrack(ppg.psg, depends, start)
        walks.append(Walk(start, steps, _cause(steps, ppg.psg, time_s, typical, flagged), seconds))
    result = Published(abnormal, list(growth), walks)
    result.findings = _findings(walks, ppg, depends)
    return result


def abnormal_vertices(time_s: FloatArray, threshold: float = ABNORMAL) -> list[CodeLocation]:
    """(rank, vertex) pairs whose time exceeds the vertex' median over ranks, largest excess first.

    ``time_s`` is ``[vertices, ranks]``.
    """
    typical = np.median(time_s, axis=1, keepdims=True)
    worth = SHARE * time_s.sum(axis=0).max(initial=0.0)
    vertex, rank = np.nonzero((time_s > threshold * typical) & (time_s - typical > worth))
    order = np.argsort(-(time_s - typical)[vertex, rank], kind="stable")
    return [(int(rank[row]), int(vertex[row])) for row in order]


def non_scalable_vertices(time_s: FloatArray, ranks: Sequence[int]) -> list[tuple[int, float]]:
    """Vertices by the slope of log time against log ranks, steepest first.

    ``time_s`` is ``[vertices, runs]``: the mean over the ranks of each run. Vertices that take little time at the
    largest size are left out.
    """
    p = np.asarray(ranks, dtype=np.float64)
    largest = time_s[:, p == p.max()].mean(axis=1)
    rows = np.flatnonzero((largest >= SHARE * largest.sum()) & (time_s.min(axis=1) > 0.0))
    x = np.log(p) - np.log(p).mean()
    if not len(rows) or not x.any():
        return []
    slope = np.log(time_s[rows]) @ x / (x @ x)
    order = np.argsort(-slope, kind="stable")[:MOST_NON_SCALABLE]
    return [(int(rows[row]), float(slope[row])) for row in order]


def dependences(ppg: PPG, waits: WaitStates) -> dict[CodeLocation, CodeLocation]:
    """For every (rank, communication vertex) that waits, the (rank, vertex) that it waits for most."""
    calls, locations = ppg.timeline.calls, ppg.timeline.locations
    rows = np.flatnonzero((waits.wait_s > 0.0) & (waits.culprit >= 0))
    late = waits.culprit[rows]
    rank = locations.rank[calls.location]
    keys = np.stack([rank[rows], calls.vertex[rows], rank[late], calls.vertex[late]], axis=1)
    if not len(rows):
        return {}
    edges, number = np.unique(keys, axis=0, return_inverse=True)
    seconds = np.bincount(number.reshape(-1), weights=waits.wait_s[rows])
    total = ppg.metrics["comm_s"]
    result: dict[CodeLocation, CodeLocation] = {}
    for edge in np.argsort(seconds, kind="stable").tolist():  # the largest of a pair comes last and stays
        mine, vertex, other, there = (int(value) for value in edges[edge])
        if seconds[edge] >= SHARE * max(float(total[vertex, mine]), 1e-300):
            result[mine, vertex] = other, there
    return result


def backtrack(psg: PSG, depends: dict[CodeLocation, CodeLocation], start: CodeLocation) -> list[CodeLocation]:
    """Walk backwards from ``start``: over to the rank that is waited for, into the ends of loops, to predecessors."""
    rank, vertex = start
    steps = [start]
    seen = {start}
    crossed = False  # whether the last step came over from another rank
    while True:
        here = psg[vertex]
        is_start = len(steps) == 1
        following: CodeLocation | None = None
        if here.kind is VertexKind.COMM and not crossed:
            if _is_collective(here.operation) and not is_start:
                return steps
            following = depends.get((rank, vertex))
        if following is not None and following not in seen:
            crossed = True
        else:
            crossed = False
            inside = psg[steps[-2][1]].parent == vertex and steps[-2][0] == rank if len(steps) > 1 else False
            # From inside, a loop is entered again at its end: the iteration before. Anything else is left.
            enter = (
                here.kind in ENTERED and here.children and not is_start and (here.kind is VertexKind.LOOP or not inside)
            )
            inner = (rank, here.children[-1]) if enter else None
            following = inner if inner is not None and inner not in seen else _predecessor(psg, rank, vertex, seen)
        if following is None:
            return steps
        rank, vertex = following
        seen.add(following)
        steps.append(following)


def _predecessor(psg: PSG, rank: int, vertex: int, seen: set[CodeLocation]) -> CodeLocation | None:
    """The vertex before ``vertex`` in order, else the first one above that was not seen; None at the root."""
    while True:
        here = psg[vertex]
        if here.parent < 0:
            return None
        siblings = psg[here.parent].children
        position = siblings.index(vertex)
        if position > 0 and (rank, siblings[position - 1]) not in seen:
            return rank, siblings[position - 1]
        vertex = here.parent
        if (rank, vertex) not in seen and psg[vertex].parent >= 0:
            return rank, vertex


def _is_collective(operation: int) -> bool:
    return operation in BY_CODE and BY_CODE[operation].waits in COLLECTIVE


def _cause(
    steps: list[CodeLocation], psg: PSG, time_s: FloatArray, typical: FloatArray, flagged: set[CodeLocation]
) -> CodeLocation:
    """On a way, the abnormal computation with the most time above typical, else the longest computation."""
    work = [code_location for code_location in steps if psg[code_location[1]].kind is not VertexKind.COMM]
    abnormal = [code_location for code_location in work if code_location in flagged]
    if abnormal:
        return max(
            abnormal,
            key=lambda code_location: float(time_s[code_location[1], code_location[0]] - typical[code_location[1]]),
        )
    longest = max(work, key=lambda code_location: float(time_s[code_location[1], code_location[0]]), default=None)
    if longest is None or time_s[longest[1], longest[0]] <= 0.0:
        return steps[0]
    return longest


def _findings(walks: list[Walk], ppg: PPG, depends: dict[CodeLocation, CodeLocation]) -> list[Finding]:
    psg = ppg.psg
    by_cause: dict[CodeLocation, list[Walk]] = {}
    for walk in walks:
        by_cause.setdefault(walk.cause, []).append(walk)
    total = max(sum(walk.seconds for walk in walks), 1e-300)
    findings = []
    for (rank, vertex), group in by_cause.items():
        place = psg[vertex].place
        longest = max(group, key=lambda walk: walk.seconds)
        seconds = sum(walk.seconds for walk in group)
        hops = [
            _hop(ppg, code_location)
            for number, code_location in enumerate(longest.steps[: longest.steps.index((rank, vertex))])
            if psg[code_location[1]].kind is VertexKind.COMM and (number == 0 or code_location in depends)
        ]
        findings.append(
            Finding(
                "published", vertex, place.file, place.line, place.end_line, psg.function_of(vertex),
                psg[vertex].kind.value, [rank], seconds, seconds / total, 0.0, [*hops, _hop(ppg, (rank, vertex))],
                {"walks": len(group), "longest_walk": len(longest.steps)},
            )
        )  # fmt: skip
    return sorted(findings, key=lambda finding: -finding.lost_s)


def _hop(ppg: PPG, code_location: CodeLocation) -> Hop:
    rank, vertex = code_location
    here = ppg.psg[vertex]
    operation = BY_CODE[here.operation].name if here.kind is VertexKind.COMM and here.operation in BY_CODE else ""
    wait = float(ppg.metrics["wait_s"][vertex, rank])
    return Hop(rank, here.place.file, here.place.line, ppg.psg.function_of(vertex), here.kind.value, operation, wait)


def largest_imbalance(ppg: PPG) -> CodeLocation | None:
    """The (rank, vertex) outside communication at which a rank's time is furthest above the mean of all ranks."""
    time_s = ppg.metrics["time_s"].copy()
    time_s[[vertex.index for vertex in ppg.psg.vertices if vertex.kind is VertexKind.COMM]] = 0.0
    over = time_s - time_s.mean(axis=1, keepdims=True)
    if not over.size or over.max() <= 0.0:
        return None
    vertex, rank = np.unravel_index(int(np.argmax(over)), over.shape)
    return int(rank), int(vertex)
