"""Contraction: the same program with fewer vertices, for display and for the paper's baseline.

As in ScalAna (SC 2020, section III-A): every communication vertex stays, and so does every loop, branch and function
around one; of the rest, loops stay down to a depth of nesting, and everything else is merged into stretches of code.
Calls that are not resolved stay, for they may hide communication. Nothing is lost: the uncontracted graph is still
there, and each of its vertices knows the one that stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind

_KEPT = frozenset({VertexKind.COMM, VertexKind.CALL, VertexKind.OP, VertexKind.REGION})


@dataclass(slots=True)
class Contraction:
    """A contracted graph, and what became of each vertex."""

    psg: PSG
    vertex: npt.NDArray[np.int64]
    """Of each vertex of the original graph the one that stands for it ``[original vertices]``."""


def contract(psg: PSG, *, loop_depth: int = 1) -> Contraction:
    """Contract a graph. O(vertices).

    Args:
        psg: the graph; it is left as it is.
        loop_depth: loops without communication stay if at most so many loops are nested, they included.
    """
    keep = _kept(psg, loop_depth)
    small = PSG(psg[0].place.name)
    small.warnings = psg.warnings
    to = np.zeros(len(psg), dtype=np.int64)
    stack = [(child, 0) for child in reversed(psg[0].children)]
    open_stretch: dict[int, int] = {}  # contracted parent -> its last child, where that is a stretch made here
    while stack:
        index, parent = stack.pop()
        vertex = psg[index]
        if keep[index]:
            recursion = int(to[vertex.recursion]) if vertex.recursion >= 0 else -1
            made = small.add(vertex.kind, vertex.place, parent, vertex.operation, site=vertex.site, recursion=recursion)
            if index in psg.added:
                small.added.add(made)
            to[index] = made
            open_stretch.pop(parent, None)
            stack.extend((child, made) for child in reversed(vertex.children))
            continue
        to[index] = _merge(psg, vertex, small, parent, open_stretch)
        # What is inside has nothing to show but stretches of code: it goes into the same one.
        if any(keep[child] for child in vertex.children):
            stack.extend((child, parent) for child in reversed(vertex.children))
        else:
            for below in psg.walk(index):
                to[below.index] = to[index]
    small.data = sorted({(int(to[a]), int(to[b])) for a, b in psg.data if to[a] != to[b]})
    return Contraction(small, to)


def _kept(psg: PSG, loop_depth: int) -> list[bool]:
    """Whether each vertex stays. Children have greater indices than their parents."""
    depth = [0] * len(psg)
    for vertex in psg.vertices[1:]:
        depth[vertex.index] = depth[vertex.parent] + (vertex.kind is VertexKind.LOOP)
    keep = [
        vertex.kind in _KEPT or (vertex.kind is VertexKind.LOOP and depth[vertex.index] <= loop_depth)
        for vertex in psg.vertices
    ]
    for vertex in reversed(psg.vertices[1:]):
        # Stretches of code go, even where samples put a call below them; that is shown beside them then.
        if keep[vertex.index] and psg[vertex.parent].kind is not VertexKind.COMP:
            keep[vertex.parent] = True
    for vertex in psg.vertices:
        if vertex.kind is VertexKind.FUNCTION and psg[vertex.parent].kind is VertexKind.ROOT:
            keep[vertex.index] = True
    keep[0] = True
    return keep


def _merge(psg: PSG, vertex: Vertex, small: PSG, parent: int, open_stretch: dict[int, int]) -> int:
    """Put a vertex that goes into the stretch of code before it, or into a new one; returns that."""
    place = vertex.site if vertex.site is not None else vertex.place
    last = open_stretch.get(parent, -1)
    if last >= 0 and small[last].place.file == place.file:
        old = small[last].place
        first = old if (old.line, old.column) <= (place.line, place.column) else place
        end = max((old.end_line, old.end_column), (place.end_line, place.end_column))
        small[last].place = Place(place.file, first.line, end[0], first.column, old.name, end[1])
        return last
    made = small.add(VertexKind.COMP, place, parent)
    open_stretch[parent] = made
    return made
