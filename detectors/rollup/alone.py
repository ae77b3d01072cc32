"""What only those do at all who are late with it: all that lies in one branch, loop or function is one cause.

A rank that generates the input for all, or writes a file, spends its time in dozens of lines and small functions. None
of these is the cause, and none may cost enough to be told.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.contexts import ALONE
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.shares import MAJORITY, NEARLY_ALL, NEXT_TO_NOTHING, TOO_SMALL
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.structure.psg import PSG, Vertex, VertexKind
from scalana.graphs.timeline import Timeline

_PARTS = (VertexKind.BRANCH, VertexKind.LOOP, VertexKind.FUNCTION)


def join_done_alone(candidates: list[Candidate], blamed: BlamedRun) -> list[Candidate]:
    """Join candidates on the same ranks that lie in a part of the program without communication in which no other rank
    was seen to do more than next to nothing: the outermost such part. Largest candidate first.

    The largest of them stands for it if it holds most of it; else the innermost part that holds nearly all.
    """
    timeline, psg = blamed.timeline, blamed.psg
    above = {number: _around(candidate) for number, candidate in enumerate(candidates)}
    enough = TOO_SMALL * sum(candidate.lost_s for candidate in candidates)
    above = {number: chain for number, chain in above.items() if chain and candidates[number].lost_s >= enough}
    if len(above) < 2:
        return candidates
    seconds = _seconds(sorted({vertex for chain in above.values() for vertex in chain}), timeline, psg)
    parts: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for number, chain in above.items():
        here = np.isin(np.arange(timeline.ranks), candidates[number].ranks)
        whole = [vertex for vertex in chain if not here.all() and _alone(seconds[vertex], here)]
        if whole:
            parts[whole[-1], tuple(candidates[number].ranks)].append(number)
    gone: set[int] = set()
    joined: dict[int, Candidate] = {}
    for numbers in parts.values():
        if len(numbers) > 1:
            main, *others = sorted(numbers, key=lambda number: -candidates[number].lost_s)
            joined[main] = _join(candidates[main], [candidates[number] for number in others])
            gone.update(others)
    kept = [joined.get(number, candidate) for number, candidate in enumerate(candidates) if number not in gone]
    return sorted(kept, key=lambda candidate: -candidate.lost_s)


def join_alternatives(candidates: list[Candidate]) -> list[Candidate]:
    """Join candidates on the same ranks that lie in one function, and in parts of one choice: what these ranks run
    instead of what others do is one cause, from wherever the function is called. Largest candidate first."""
    result: list[list[Candidate]] = []  # each with its parts, the one that stands for them first
    main: dict[object, int] = {}
    for candidate in candidates:
        psg = candidate.blamed.psg
        vertex = candidate.code_location.vertex
        chosen = _choice_of(candidate) if candidate.code_location.kind == TargetKind.OWN else ALONE
        function = psg.enclosing(vertex, VertexKind.FUNCTION) if 0 < vertex < len(psg) else -1
        if chosen == ALONE or function < 0:
            result.append([candidate])
            continue
        first = main.setdefault((chosen, psg[function].place), len(result))
        if first == len(result) or not set(candidate.ranks) <= set(result[first][0].ranks):
            result.append([candidate])
        else:
            result[first].append(candidate)
    return sorted((main.joined(parts) for main, *parts in result), key=lambda candidate: -candidate.lost_s)


def _choice_of(candidate: Candidate) -> int:
    """The choice in which all of a candidate's work lies, ALONE for none."""
    table = candidate.blamed.table
    found = np.unique(table.choice[table.target[candidate.entries]])
    return int(found[0]) if len(found) == 1 else ALONE


def _join(main: Candidate, others: list[Candidate]) -> Candidate:
    chain = _around(main)
    held: dict[int, float] = defaultdict(float)
    for part in (main, *others):
        for vertex in _around(part):
            held[vertex] += part.lost_s
    joined = main.joined(others)
    if main.lost_s >= MAJORITY * joined.lost_s:
        return joined
    vertex = next(vertex for vertex in chain if held[vertex] >= NEARLY_ALL * joined.lost_s)
    return replace(joined, code_location=CodeLocation(TargetKind.OWN, vertex, -1))


def _around(candidate: Candidate) -> list[int]:
    """The branches, loops and functions around a candidate, innermost first, up to one that communicates; none of what
    is no own work."""
    psg = candidate.blamed.psg
    result: list[int] = []
    if candidate.code_location.kind != TargetKind.OWN:
        return result
    for above in _upward(candidate.code_location.vertex, psg):
        if above.kind in _PARTS:
            if above.parent <= 0 or above.place.name == "<module>" or psg.communicates(above.index):
                break
            result.append(above.index)
    return result


def _upward(vertex: int, psg: PSG) -> Iterator[Vertex]:
    """A vertex and those above it; nothing of what is outside of the structure."""
    if 0 < vertex < len(psg):
        yield psg[vertex]
        yield from psg.ancestors(vertex)


def _seconds(parts: list[int], timeline: Timeline, psg: PSG) -> dict[int, FloatArray]:
    """Own time of every rank in each part of the program, and in what it calls, where the rank was seen in a sample
    ``[ranks]``."""
    own, ranks = timeline.own, timeline.ranks
    row = {vertex: number for number, vertex in enumerate(parts)}
    inside: list[int] = []
    activities, first = [], [0]
    for activity, vertex in enumerate(timeline.activities.vertex.tolist()):
        within = [row[above.index] for above in _upward(vertex, psg) if above.index in row]
        if within:
            activities.append(activity)
            inside.extend(within)
            first.append(len(inside))
    number = np.full(len(timeline.activities), -1)
    number[activities] = np.arange(len(activities))
    rows = np.flatnonzero(number[own.activity] >= 0)
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst[rows]]]
    cell = number[own.activity[rows]] * ranks + rank
    shape = len(activities), ranks
    seconds = weighted_count(cell, own.seconds[rows], len(activities) * ranks).reshape(shape)
    seen = np.bincount(cell, own.samples[rows], len(activities) * ranks).reshape(shape) > 0
    result = np.zeros((len(parts), ranks))
    for at, (low, high) in enumerate(itertools.pairwise(first)):
        result[inside[low:high]] += np.where(seen[at], seconds[at], 0.0)
    return dict(zip(parts, result, strict=True))


def _alone(seconds: FloatArray, here: np.ndarray) -> bool:
    """Whether the ranks ``here`` do all of it, but for next to nothing."""
    return float(seconds[~here].max()) <= NEXT_TO_NOTHING * float(seconds[here].min())
