"""Which vertex of one structure graph is which of another: by structure, so that lines may have moved.

Two graphs of one program differ in what samples added, and in where things stand if the code was edited between the
runs. The trees are walked together from the root. Children of vertices that match are paired by what they are and
are called (kind, name, operation), equal ones in order; then those of one kind that are left, between the same
neighbours, if their text or their contents are alike. What is left then is looked for at other places
(:mod:`scalana.graphs.structure.moved`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.structure.moved import moved_pairs
from scalana.graphs.structure.psg import PSG, Vertex, VertexKind

MOST_COMPARED = 10_000
"""Pairs of siblings up to which texts are compared; of more, none is taken for edited."""
ROUNDS = 3
"""Times that what is left is looked for at other places: what was found says more about what is around it."""
SIMILAR = 0.6
"""Likeness of two texts from which they count as one text that was edited (as ``difflib`` measures it)."""


def align(reference: PSG, other: PSG) -> IntArray:
    """The vertex of ``reference`` for every vertex of ``other``, -1 where there is none ``[vertices of other]``.

    No two vertices get the same one. Cost: linear in the vertices, but for siblings that were edited.
    """
    result = np.full(len(other), -1, dtype=np.int64)
    contents = _contents(reference), _contents(other)
    taken: set[int] = set()

    def match(mine: int, theirs: int) -> None:
        """Match two vertices, and what is below them."""
        stack = [(mine, theirs)]
        while stack:
            pair = stack.pop()
            result[pair[1]] = pair[0]
            taken.add(pair[0])
            found = _pair_children(reference, pair[0], other, pair[1], contents)
            stack += [(a, b) for a, b in found if a not in taken and result[b] < 0]

    match(_root(reference), _root(other))
    for _ in range(ROUNDS):
        pairs = moved_pairs(reference, other, result, contents, key)
        for mine, theirs in pairs:
            if mine not in taken and result[theirs] < 0:
                match(mine, theirs)
        if not pairs:
            break
    return result


def _root(psg: PSG) -> int:
    return next((vertex.index for vertex in psg.vertices if vertex.parent < 0), 0)


def key(vertex: Vertex) -> Hashable:
    """What a vertex is, whatever its line: kind, name and operation; of a function also the name of its file."""
    file = os.path.basename(vertex.place.file) if vertex.kind is VertexKind.FUNCTION else ""
    return vertex.kind, vertex.place.name, vertex.operation, file


def _contents(psg: PSG) -> list[int]:
    """A number for every subtree; equal ones have equal contents."""
    numbers = [0] * len(psg)
    for vertex in reversed(list(psg.walk(_root(psg)))):
        source = [child for child in vertex.children if child not in psg.added]
        numbers[vertex.index] = hash((key(vertex), tuple(numbers[child] for child in source)))
    return numbers


def _pair_children(
    reference: PSG, mine: int, other: PSG, theirs: int, contents: tuple[list[int], list[int]]
) -> list[tuple[int, int]]:
    """Pairs (vertex of the reference, vertex of the other) among the children of two vertices that match."""
    left: dict[Hashable, list[int]] = defaultdict(list)
    right: dict[Hashable, list[int]] = defaultdict(list)
    for child in reference[mine].children:
        left[key(reference[child])].append(child)
    for child in other[theirs].children:
        right[key(other[child])].append(child)
    pairs: list[tuple[int, int]] = []
    for name, candidates in right.items():
        pairs += _pair_equals(left.get(name, []), candidates, reference, mine, other, theirs, contents)
    taken_left, taken_right = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    rest_left = [child for child in reference[mine].children if child not in taken_left]
    rest_right = [child for child in other[theirs].children if child not in taken_right]
    if 0 < len(rest_left) * len(rest_right) <= MOST_COMPARED:
        pairs += _pair_edited(rest_left, rest_right, pairs, reference, other, contents)
    return pairs


def _pair_equals(
    left: Sequence[int],
    right: Sequence[int],
    reference: PSG,
    mine: int,
    other: PSG,
    theirs: int,
    contents: tuple[list[int], list[int]],
) -> list[tuple[int, int]]:
    """Pair siblings of one key: in order if they are as many, else first by equal contents and place."""
    added = any(child in reference.added for child in left) or any(child in other.added for child in right)
    if len(left) == len(right) and not (added and len(left) > 1):
        return list(zip(left, right, strict=True))
    pairs: list[tuple[int, int]] = []
    rest_left, rest_right = list(left), list(right)

    def mark(psg: PSG, parent: int, child: int, numbers: list[int], step: int) -> Hashable:
        offset = psg[child].place.line - psg[parent].place.line
        return ((numbers[child], offset), offset, numbers[child])[step]

    # What samples added stands in the order in which it was seen: its place says more than its position.
    for step in range(3) if added else (0, 2):
        where: dict[Hashable, list[int]] = defaultdict(list)
        for child in rest_left:
            where[mark(reference, mine, child, contents[0], step)].append(child)
        for child in list(rest_right):
            found = where.get(mark(other, theirs, child, contents[1], step))
            if found:
                match = found.pop(0)
                pairs.append((match, child))
                rest_left.remove(match)
                rest_right.remove(child)
    return [*pairs, *([] if added else zip(rest_left, rest_right, strict=False))]


def _pair_edited(
    left: list[int],
    right: list[int],
    known: list[tuple[int, int]],
    reference: PSG,
    other: PSG,
    contents: tuple[list[int], list[int]],
) -> list[tuple[int, int]]:
    """Pair siblings whose text changed, each with the most alike of its kind between the same neighbours."""
    anchors_left = sorted(reference[pair[0]].position for pair in known if pair[0] not in reference.added)
    anchors_right = sorted(other[pair[1]].position for pair in known if pair[1] not in other.added)
    scores: list[tuple[float, int, int]] = []
    for a in left:
        for b in right:
            first, second = reference[a], other[b]
            if first.kind is not second.kind or first.operation != second.operation:
                continue
            if a in reference.added or b in other.added:
                continue
            between = np.searchsorted(anchors_left, first.position) == np.searchsorted(anchors_right, second.position)
            score = _likeness(first, second, reference, other)
            if score == 0.0:
                continue
            if contents[0][a] == contents[1][b] or (between and score >= SIMILAR / 2) or score >= SIMILAR:
                scores.append((score + (0.5 if between else 0.0), a, b))
    pairs: list[tuple[int, int]] = []
    seen_left: set[int] = set()
    seen_right: set[int] = set()
    for _, a, b in sorted(scores, key=lambda entry: (-entry[0], entry[1], entry[2])):
        if a not in seen_left and b not in seen_right:
            pairs.append((a, b))
            seen_left.add(a)
            seen_right.add(b)
    return pairs


def _likeness(first: Vertex, second: Vertex, reference: PSG, other: PSG) -> float:
    """Between 0 and 1: how alike the texts are, or the names of what is inside, whichever is more; 0 where both have
    loops, calls and the like inside, and none is of the other's sort."""
    text = SequenceMatcher(None, first.place.name, second.place.name, autojunk=False).ratio()
    inside, others = _parts(first, reference), _parts(second, other)
    if not inside or not others:
        return text
    if not {_sort(part) for part in inside} & {_sort(part) for part in others}:
        return 0.0
    names = SequenceMatcher(None, [*map(key, inside)], [*map(key, others)], autojunk=False).ratio()
    shape = SequenceMatcher(None, [*map(_sort, inside)], [*map(_sort, others)], autojunk=False).ratio()
    return max(text, names, 0.5 * shape)


def _parts(vertex: Vertex, psg: PSG) -> list[Vertex]:
    """What a vertex has inside, but for plain code, whose text is easily edited."""
    parts = (psg[child] for child in vertex.children if child not in psg.added)
    return [part for part in parts if part.kind is not VertexKind.COMP]


def _sort(vertex: Vertex) -> Hashable:
    """What a part is whose text may have been edited."""
    return vertex.kind if vertex.kind in (VertexKind.LOOP, VertexKind.BRANCH) else key(vertex)
