"""From the blame table to candidate findings: entries that are one cause, joined.

Entries of one place are joined over ranks. Entries of different lines of one loop without communication are one
cause: the line that holds most of it on a rank, else the loop. The lines of a function are joined only where no line or
loop of it holds a large part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scalana.detectors.blame import BlameTable
from scalana.detectors.targets import TargetKind
from scalana.graphs.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline

MOST = 0.5
"""Part of a loop's blame on a rank that makes one line of it the place."""
LARGE = 0.25
"""Part of a function's blame on a rank that lets a line or loop of it stand alone."""
NOTABLE = 0.15
"""Part of the largest rank's blame that makes a rank one of the finding's."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a candidate stands: a line inside a vertex, or a whole vertex (line -1)."""

    kind: TargetKind
    vertex: int
    line: int


@dataclass(slots=True)
class Candidate:
    """Entries of the blame table that are one cause."""

    spot: Spot
    entries: list[int]
    """Rows of the blame table."""
    lost_s: float
    ranks: list[int]
    """Ranks that hold a notable part of it, in order."""


def join_entries(table: BlameTable, timeline: Timeline, psg: PSG) -> list[Candidate]:
    """Join the entries of a blame table, largest candidate first. Every entry is in exactly one candidate."""
    rank = timeline.locations.rank[table.location]
    spots = _spots_by_rank(table, timeline, psg)
    joined: dict[Spot, list[int]] = defaultdict(list)
    for entry, spot in enumerate(spots):
        joined[spot].append(entry)
    candidates = []
    for spot, entries in joined.items():
        seconds = np.bincount(rank[entries], weights=table.seconds[entries])
        notable = np.nonzero(seconds >= NOTABLE * seconds.max())[0]
        candidates.append(Candidate(spot, entries, float(seconds.sum()), [int(r) for r in notable]))
    candidates = _join_contexts(candidates, psg)
    return sorted(candidates, key=lambda candidate: -candidate.lost_s)


def _spots_by_rank(table: BlameTable, timeline: Timeline, psg: PSG) -> list[Spot]:
    """The spot of every entry, decided rank by rank."""
    rank = timeline.locations.rank[table.location]
    leaves: list[Spot] = []
    for target in table.target:
        kind, row = table.numbering.describe(int(target))
        if kind == TargetKind.OWN:
            leaves.append(Spot(kind, int(timeline.activities.vertex[row]), int(timeline.activities.line[row])))
        else:
            leaves.append(Spot(kind, row, -1))
    within: dict[tuple[int, int], dict[Spot, float]] = defaultdict(lambda: defaultdict(float))
    chains: dict[int, list[int]] = {}
    for entry, leaf in enumerate(leaves):
        if leaf.kind != TargetKind.OWN:
            continue
        leaf = leaves[entry] = _outside_comm(leaf, psg)
        chain = chains.setdefault(leaf.vertex, list(containers(leaf.vertex, psg)))
        for container in chain:
            within[int(rank[entry]), container][leaf] += float(table.seconds[entry])
    return [
        leaf if leaf.kind != TargetKind.OWN else promote(leaf, int(rank[entry]), chains[leaf.vertex], within, psg)
        for entry, leaf in enumerate(leaves)
    ]


def _outside_comm(leaf: Spot, psg: PSG) -> Spot:
    return leaf if leaf.vertex < len(psg) else Spot(leaf.kind, 0, leaf.line)


def promote(
    leaf: Spot,
    rank: int,
    chain: list[int],
    within: dict[tuple[int, int], dict[Spot, float]],
    psg: PSG,
) -> Spot:
    """The place that stands for ``leaf`` on ``rank``: itself, the line that holds most of its loop, or a container."""
    place = leaf
    for container in chain:
        lines = within[rank, container]
        total = sum(lines.values())
        is_function = psg[container].kind is VertexKind.FUNCTION
        if is_function:
            held = sum(s for other, s in lines.items() if other == leaf or _under(other.vertex, place, psg))
            if held >= LARGE * total or max(_parts(lines, psg), default=0.0) >= LARGE * total:
                return place
            return Spot(TargetKind.OWN, container, -1)
        by_line: dict[int, float] = defaultdict(float)
        for other, seconds in lines.items():
            by_line[other.line] += seconds
        best = max(lines, key=lambda other: by_line[other.line])
        place = best if by_line[best.line] >= MOST * total else Spot(TargetKind.OWN, container, -1)
        if place.line < 0 or place == best:
            place = _canonical(place, lines)
    return place


def _canonical(place: Spot, lines: dict[Spot, float]) -> Spot:
    """One spot for a line that several vertices share: that of the lowest vertex, so that ranks agree on it."""
    if place.line < 0:
        return place
    return min((other for other in lines if other.line == place.line), key=lambda other: other.vertex)


def _under(vertex: int, place: Spot, psg: PSG) -> bool:
    return place.line < 0 and any(above.index == place.vertex for above in psg.ancestors(vertex))


def _parts(lines: dict[Spot, float], psg: PSG) -> list[float]:
    """Blame of each line, and of each outermost loop, of a function."""
    parts: dict[object, float] = defaultdict(float)
    for spot, seconds in lines.items():
        parts["line", spot.line] += seconds
        loops = [c for c in containers(spot.vertex, psg) if psg[c].kind is VertexKind.LOOP]
        if loops:
            parts["loop", loops[-1]] += seconds
    return list(parts.values())


def containers(vertex: int, psg: PSG) -> Iterator[int]:
    """Loops without communication around a vertex, innermost first, and then its function if that has none either."""
    current = vertex
    while current > 0:
        kind = psg[current].kind
        if kind in (VertexKind.LOOP, VertexKind.FUNCTION) and _communicates(current, psg):
            return
        if kind is VertexKind.LOOP:
            yield current
        elif kind is VertexKind.FUNCTION:
            if psg[current].place.name != "<module>":
                yield current
            return
        current = psg[current].parent


def _communicates(vertex: int, psg: PSG) -> bool:
    return any(inner.kind is VertexKind.COMM for inner in psg.walk(vertex))


def _join_contexts(candidates: list[Candidate], psg: PSG) -> list[Candidate]:
    """Join candidates of one place that was reached by several call paths, where they are about the same ranks."""
    joined: dict[object, list[Candidate]] = defaultdict(list)
    for candidate in sorted(candidates, key=lambda c: -c.lost_s):
        spot = candidate.spot
        if spot.vertex < 0 or spot.vertex >= len(psg):
            joined[spot].append(candidate)
            continue
        place = psg[spot.vertex].place
        line = spot.line if spot.line >= 0 else place.line
        key = (spot.kind, place.file, line, spot.line >= 0)
        for other in joined[key]:
            if set(other.ranks) & set(candidate.ranks) or other.lost_s > 20 * candidate.lost_s:
                other.entries += candidate.entries
                other.lost_s += candidate.lost_s
                break
        else:
            joined[key].append(candidate)
    return [candidate for group in joined.values() for candidate in group]
