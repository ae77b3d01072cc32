"""The place that is named for some excess: one answer for every kind of finding.

Excess is found at lines. First it goes to the line where it belongs (:mod:`~scalana.detectors.rollup.named_line`): the
call of a small helper, rather than a line in it. Lines of one loop without communication then are one place: the line
that holds most of the loop, else the loop; so are those of a function that is called in such a loop. The lines of any
other function are one place only where no line or loop of it holds a large part. A line that waits for a lock is a
place by itself: what it takes is what others do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.call_sites import called_in_loop
from scalana.detectors.rollup.library_calls import whole_call
from scalana.detectors.rollup.named_line import Excess, roll_up
from scalana.detectors.source_calls import source_call, source_line
from scalana.detectors.thresholds.shares import MAJORITY, SHARE_OF_ITS_OWN
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.timeline import Timeline


class CodeLocation(NamedTuple):
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
    leaves: Sequence[CodeLocation],
    deciders: Sequence[int],
    seconds: Sequence[float],
    timeline: Timeline,
    psg: PSG,
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
        leaf._replace(vertex=whole_call(leaf.vertex, psg)) if leaf.kind == TargetKind.OWN else leaf for leaf in parts
    ]
    within: dict[tuple[int, int], dict[CodeLocation, float]] = defaultdict(lambda: defaultdict(float))
    chains: dict[int, list[Container]] = {}
    joins = [leaf.kind == TargetKind.OWN and not _locks(leaf, psg) for leaf in whole]
    for who, leaf, amount, is_joined in zip(deciders, whole, seconds, joins, strict=True):
        if is_joined:
            if leaf.vertex not in chains:
                chains[leaf.vertex] = list(containers(leaf.vertex, psg))
            for container in chains[leaf.vertex]:
                within[who, container.vertex][leaf] += amount
    held = _Held(within, chains, _of_lines(within), psg)
    found = []
    for who, leaf, part, is_joined in zip(deciders, whole, parts, joins, strict=True):
        at = held.promoted(leaf, who) if is_joined else leaf
        found.append(part if at == leaf else at)
    return found


def _locks(leaf: CodeLocation, psg: PSG) -> bool:
    """Whether a line waits for a lock."""
    call = source_call(source_line(psg[leaf.vertex].place.file, leaf.line), rests=True) if leaf.line > 0 else None
    return call is not None and call.nature == "locking"


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


@dataclass(slots=True)
class _Held:
    """What containers hold of the excess."""

    within: Mapping[tuple[int, int], Mapping[CodeLocation, float]]
    """Seconds of the lines in a container on a rank, by both."""
    chains: Mapping[int, Sequence[Container]]
    """The containers around each vertex that holds excess, innermost first."""
    of_line: Mapping[tuple[int, int], CodeLocation]
    """What :func:`_of_lines` gives."""
    psg: PSG
    _largest_s: dict[tuple[int, int], float] = field(default_factory=dict)

    def promoted(self, leaf: CodeLocation, rank: int) -> CodeLocation:
        """The place that stands for ``leaf`` on ``rank``: itself, the line that holds most of its loop, or a
        container."""
        place = leaf
        for container, repeated in self.chains[leaf.vertex]:
            lines = self.within[rank, container]
            total = sum(lines.values())
            if not repeated:
                held = sum(s for other, s in lines.items() if other == leaf or _under(other.vertex, place, self.psg))
                if max(held, self._largest_part_s(rank, container)) >= SHARE_OF_ITS_OWN * total:
                    return place
                return CodeLocation(TargetKind.OWN, container, -1)
            by_line: dict[int, float] = defaultdict(float)
            for other, seconds in lines.items():
                by_line[other.line] += seconds
            best = max(lines, key=lambda other: by_line[other.line])
            by_itself = by_line[best.line] >= MAJORITY * total
            place = self.of_line[container, best.line] if by_itself else CodeLocation(TargetKind.OWN, container, -1)
        return place

    def _largest_part_s(self, rank: int, container: int) -> float:
        """Seconds of the line, or the outermost loop, of a function that holds most."""
        known = self._largest_s.get((rank, container))
        if known is None:
            parts: dict[object, float] = defaultdict(float)
            for location, seconds in self.within[rank, container].items():
                parts["line", location.line] += seconds
                around = (one.vertex for one in reversed(self.chains[location.vertex]))
                loop = next((vertex for vertex in around if self.psg[vertex].kind is VertexKind.LOOP), None)
                if loop is not None:
                    parts["loop", loop] += seconds
            known = self._largest_s[rank, container] = max(parts.values(), default=0.0)
        return known


def _under(vertex: int, place: CodeLocation, psg: PSG) -> bool:
    return place.line < 0 and any(above.index == place.vertex for above in psg.ancestors(vertex))


def containers(vertex: int, psg: PSG) -> Iterator[Container]:
    """Loops around a vertex that make no steps, innermost first, and then its function if that makes none either: lines
    of a loop that makes steps have each their own cause."""
    current = vertex
    while current > 0:
        kind = psg[current].kind
        if kind in (VertexKind.LOOP, VertexKind.FUNCTION) and psg.makes_steps(current):
            return
        if kind is VertexKind.LOOP:
            yield Container(current, True)
        elif kind is VertexKind.FUNCTION:
            if psg[current].place.name != "<module>":
                yield Container(current, called_in_loop(current, psg))
            return
        current = psg[current].parent
