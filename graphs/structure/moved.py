"""Parts of a structure graph that are at another place in another one: in a new loop, function or branch, or taken out.

After a top-down comparison (:mod:`scalana.graphs.structure.align`) has matched what stands at the same place, what is
left on both sides is compared wherever it stands: what has the same kind and name is a pair if it has the same
contents, or mostly the same and the same surroundings. Compare the matching of GumTree (Falleri et al., ASE 2014).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.structure.psg import PSG, Vertex, VertexKind

MOST_PAIRS = 10_000
"""Pairs of one kind and name that are compared; where there are more, nothing tells which is which."""
ALIKE = 0.5
"""Part of the contents of two vertices that must be the same (a Dice coefficient)."""
DISTINCT = 3
"""Vertices from which equal contents say that it is the same code, even in other surroundings."""

Key = Callable[[Vertex], Hashable]


def moved_pairs(
    reference: PSG, other: PSG, result: IntArray, contents: tuple[Sequence[int], Sequence[int]], key: Key
) -> list[tuple[int, int]]:
    """Pairs (vertex of the reference, vertex of the other) of what is left, the most certain first.

    ``result`` is the vertex of the reference for every vertex of the other, -1 where there is none. A vertex may be in
    several pairs: the first one holds.
    """
    taken = set(result.tolist())
    left = [v.index for v in reference.vertices if v.index not in taken and v.parent >= 0]
    right = [v.index for v in other.vertices if result[v.index] < 0 and v.parent >= 0]
    by_name: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, (psg, vertices) in enumerate(((reference, left), (other, right))):
        for vertex in vertices:
            by_name[_name(psg[vertex], key)][side].append(vertex)
    back = {mine: theirs for theirs, mine in enumerate(result.tolist()) if mine >= 0}
    inside: dict[tuple[int, int], Counter[Hashable]] = {}

    def names(side: int, psg: PSG, vertex: int) -> Counter[Hashable]:
        found = inside.get((side, vertex))
        if found is None:
            found = inside[side, vertex] = Counter(_name(below, key) for below in _below(psg, vertex))
        return found

    scored: list[tuple[bool, float, int, int, int]] = []
    for mine, theirs in by_name.values():
        if len(mine) * len(theirs) > MOST_PAIRS:
            continue
        only = len(mine) == len(theirs) == 1
        for a in mine:
            for b in theirs:
                first, second = names(0, reference, a), names(1, other, b)
                size = sum(first.values()) + sum(second.values())
                equal = contents[0][a] == contents[1][b]
                likeness = 1.0 if equal else 2.0 * sum((first & second).values()) / size if size else 0.0
                here = _same_surroundings(reference, a, other, b, back, result)
                if _is_pair(reference[a], equal, likeness, size // 2 + 1, here, only):
                    scored.append((here, likeness, size, a, b))
    scored.sort(key=lambda entry: (not entry[0], -entry[1], -entry[2], entry[3], entry[4]))
    return [(a, b) for *_, a, b in scored]


def _is_pair(vertex: Vertex, equal: bool, likeness: float, size: int, here: bool, only: bool) -> bool:
    if vertex.kind is VertexKind.FUNCTION:
        return equal and (here or only or size >= DISTINCT) or likeness >= ALIKE and (here or only)
    if here:
        return equal or likeness >= ALIKE
    return equal and only and size >= DISTINCT


def _name(vertex: Vertex, key: Key) -> Hashable:
    """What a vertex is called; of a function or method without its class and file, which may have changed."""
    if vertex.kind is VertexKind.FUNCTION:
        return vertex.kind, vertex.place.name.replace("::", ".").rpartition(".")[2]
    return key(vertex)


def _below(psg: PSG, vertex: int) -> list[Vertex]:
    return [below for below in psg.walk(vertex) if below.index != vertex and below.index not in psg.added]


def _same_surroundings(
    reference: PSG, mine: int, other: PSG, theirs: int, back: dict[int, int], result: IntArray
) -> bool:
    """Whether the innermost vertices around both that have partners are partners, or one's partner is around both.

    Straight-line code is nothing around them: it is divided wherever a loop or a branch is put in.
    """
    plain = VertexKind.COMP
    around = next((v.index for v in reference.ancestors(mine) if v.index in back and v.kind is not plain), -1)
    there = next((v.index for v in other.ancestors(theirs) if result[v.index] >= 0 and v.kind is not plain), -1)
    return around >= 0 and there >= 0 and back[around] == there
