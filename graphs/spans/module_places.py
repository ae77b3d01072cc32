"""The vertices that are calls of modules: what samples inside of a module lie below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.modules import DIRECTIONS, Module, ModuleCalls
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.structure.psg import PSG, Place, VertexKind

Forwards = Mapping[tuple[str, str, str], Place]
"""Where the ``forward`` of a module stands, by the class of its model, its name and its class."""
_BACKWARD = DIRECTIONS.index("backward")


def module_vertices(calls: ModuleCalls, spans: Spans, psg: PSG, forwards: Forwards) -> IntArray:
    """The vertex that each timed call of a module is ``[calls]``.

    Where the source shows whose ``forward`` a line calls, that function; else the vertex that the call is made from:
    a call of a library, through which ``forward`` is called. Of a backward, where it was begun.
    """
    vertex = spans.vertex[calls.row].astype(np.int64)
    line = spans.line[calls.row].astype(np.int64)
    number, first = number_columns(vertex, line, calls.module, calls.direction)
    shown = _Shown(psg, forwards)
    found = vertex[first]
    for row, one in enumerate(first.tolist()):
        if calls.direction[one] != _BACKWARD:
            found[row] = shown.find(int(vertex[one]), int(line[one]), calls.modules[int(calls.module[one])])
    return np.asarray(found[number])


def is_forward(place: Place, module: Module, forwards: Forwards) -> bool:
    """Whether a function is the ``forward`` of a module."""
    forward = forwards.get((module.root, module.name, module.kind))
    if forward is None or place.file != forward.file:
        return False
    return place.line <= forward.line <= max(place.end_line, place.line)


class _Shown:
    """The functions that the source shows to be called, by the line of the call."""

    def __init__(self, psg: PSG, forwards: Forwards) -> None:
        self._psg = psg
        self._forwards = forwards
        self._called: dict[tuple[int, int], list[int]] = defaultdict(list)
        for one in psg.vertices:
            if one.kind is VertexKind.FUNCTION and one.site is not None:
                caller = psg.enclosing(one.parent, VertexKind.FUNCTION)
                for line in range(one.site.line, one.site.end_line + 1):
                    self._called[caller, line].append(one.index)

    def find(self, vertex: int, line: int, module: Module) -> int:
        """The vertex of a module that is called in a line at a vertex."""
        if self._psg[vertex].kind in (VertexKind.CALL, VertexKind.REGION):
            return vertex
        caller = self._psg.enclosing(vertex, VertexKind.FUNCTION)
        for function in self._called.get((caller, line), ()):
            if is_forward(self._psg[function].place, module, self._forwards):
                return function
        return vertex
