"""The place that is named for some excess: one answer for every kind of finding.

Excess is found at lines. First it goes to the line where it belongs (:mod:`~scalana.detectors.rollup.named_line`): the
call of a small helper, rather than a line in it. Lines of one loop without communication then are one place: the line
that holds most of the loop, else the loop; so are those of a function that is called in such a loop. The lines of any
other function are one place only where no line or loop of it holds a large part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.call_sites import called_in_loop
from scalana.detectors.rollup.library_calls import whole_call
from scalana.detectors.rollup.named_line import Excess, roll_up
from scalana.detectors.thresholds.shares import MAJORITY, SHARE_OF_ITS_OWN
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """Where a candidate stands: a line inside a vertex, or a whole vertex (line -1)."""

    kind: TargetKind
    vertex: int
    line: int

    def lines(self, place: Place) -> tuple[int, int]:
        """First and last line, ``place`` being that of its vertex."""
        return (self.line, self.line) if self.line > 0 else (place.line, place.end_line)


class Container(NamedTuple):
    """What lines without communication lie in."""

    vertex: int
    repeated: bool
    """Whether it is a loop, or a function that is called in one: its lines then are one cause."""


def named_places(
    leaves: Sequence[CodeLocation], deciders: Sequence[int], seconds: Sequence[float], timeline: Timeline, psg: PSG
) -> list[CodeLocation]:
    """The place that is named for each excess.

    Args:
        leaves: Where the excess was found, in the structure ``psg``.
        deciders: Of each, the rank, or whatever else decides together about where its excess belongs.
        seconds: Of each.
        timeline: Of a run with that structure: what functions do where they are called without excess.
        psg: The structure.
    """
    parts = _rolled_up(leaves, deciders, seconds, timeline, psg)
    whole = [
        replace(leaf, vertex=whole_call(leaf.vertex, psg)) if leaf.kind == TargetKind.OWN else leaf for leaf in parts
    ]
    within: dict[tuple[int, int], dict[CodeLocation, float]] = defaultdict(lambda: defaultdict(float))
    chains: dict[int, list[Container]] = {}
    for who, leaf, amount in zip(deciders, whole, seconds, strict=True):
        if leaf.kind == TargetKind.OWN:
            if leaf.vertex not in chains:
                chains[leaf.vertex] = list(containers(leaf.vertex, psg))
            for container in chains[leaf.vertex]:
                within[who, container.vertex][leaf] += amount
    of_line = _of_lines(within)
    found = []
    for who, leaf, part in zip(deciders, whole, parts, strict=True):
        own = leaf.kind == TargetKind.OWN
        at = _promoted(leaf, who, chains[leaf.vertex], within, of_line, psg) if own else leaf
        found.append(part if at == leaf else at)
    return found


def _rolled_up(
    leaves: Sequence[CodeLocation], deciders: Sequence[int], seconds: Sequence[float], timeline: Timeline, psg: PSG
) -> list[CodeLocation]:
    """Own work at the lines where it belongs: the call of a small helper, rather than a line in it."""
    own = [number for number, leaf in enumerate(leaves) if leaf.kind == TargetKind.OWN]
    excess = [Excess(leaves[n].vertex, leaves[n].line, deciders[n], seconds[n]) for n in own]
    result = list(leaves)
    for number, (vertex, line) in zip(own, roll_up(excess, timeline, psg), strict=True):
        result[number] = CodeLocation(TargetKind.OWN, vertex, line)
    return result


def _of_lines(
    within: dict[tuple[int, int], dict[CodeLocation, float]],
) -> dict[tuple[int, int], CodeLocation]:
    """One code location for every (container, line), that of the lowest vertex on any rank: ranks agree on it."""
    result: dict[tuple[int, int], CodeLocation] = {}
    for (_, container), lines in within.items():
        for code_location in lines:
            known = result.setdefault((container, code_location.line), code_location)
            if code_location.vertex < known.vertex:
                result[container, code_location.line] = code_location
    return result


def _promoted(
    leaf: CodeLocation,
    rank: int,
    chain: list[Container],
    within: dict[tuple[int, int], dict[CodeLocation, float]],
    of_line: dict[tuple[int, int], CodeLocation],
    psg: PSG,
) -> CodeLocation:
    """The place that stands for ``leaf`` on ``rank``: itself, the line that holds most of its loop, or a container.

    ``of_line`` is what :func:`_of_lines` gives.
    """
    place = leaf
    for container, repeated in chain:
        lines = within[rank, container]
        total = sum(lines.values())
        if not repeated:
            held = sum(s for other, s in lines.items() if other == leaf or _under(other.vertex, place, psg))
            if held >= SHARE_OF_ITS_OWN * total or max(_parts(lines, psg), default=0.0) >= SHARE_OF_ITS_OWN * total:
                return place
            return CodeLocation(TargetKind.OWN, container, -1)
        by_line: dict[int, float] = defaultdict(float)
        for other, seconds in lines.items():
            by_line[other.line] += seconds
        best = max(lines, key=lambda other: by_line[other.line])
        by_itself = by_line[best.line] >= MAJORITY * total
        place = of_line[container, best.line] if by_itself else CodeLocation(TargetKind.OWN, container, -1)
    return place


def _under(vertex: int, place: CodeLocation, psg: PSG) -> bool:
    return place.line < 0 and any(above.index == place.vertex for above in psg.ancestors(vertex))


def _parts(lines: dict[CodeLocation, float], psg: PSG) -> list[float]:
    """Blame of each line, and of each outermost loop, of a function."""
    parts: dict[object, float] = defaultdict(float)
    for code_location, seconds in lines.items():
        parts["line", code_location.line] += seconds
        loops = [c.vertex for c in containers(code_location.vertex, psg) if psg[c.vertex].kind is VertexKind.LOOP]
        if loops:
            parts["loop", loops[-1]] += seconds
    return list(parts.values())


def containers(vertex: int, psg: PSG) -> Iterator[Container]:
    """Loops without communication around a vertex, innermost first, and then its function if that has none either."""
    current = vertex
    while current > 0:
        kind = psg[current].kind
        if kind in (VertexKind.LOOP, VertexKind.FUNCTION) and psg.communicates(current):
            return
        if kind is VertexKind.LOOP:
            yield Container(current, True)
        elif kind is VertexKind.FUNCTION:
            if psg[current].place.name != "<module>":
                yield Container(current, called_in_loop(current, psg))
            return
        current = psg[current].parent
