"""What the source shows at a position: the innermost vertex of a function's own code there, and the calls of a line.

Vertices that samples added are not of the source, and left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.structure.source_tree import holds

_STRUCTURAL = (VertexKind.LOOP, VertexKind.BRANCH, VertexKind.REGION)
_LINES_OF_A_CALL = 1000
"""A call is found by no more of its lines than this."""


class SourceView:
    """Positions in the functions of a graph; remembers what was asked. The graph may grow meanwhile."""

    def __init__(self, psg: PSG) -> None:
        self._psg = psg
        self._located: dict[tuple[int, int, int, bool], int] = {}
        self._called: dict[int, dict[int, list[int]]] = {}  # function vertex -> line -> calls

    def site(self, call: int) -> Place:
        """Where a call is made, which is not where the function that it enters stands."""
        vertex = self._psg[call]
        return vertex.site if vertex.site is not None else vertex.place

    def calls_at(self, function: int, line: int) -> Sequence[int]:
        """Calls in a function's own code that the source shows in a line: function, comm and call vertices."""
        index = self._called.get(function)
        if index is None:
            index = self._called[function] = self._index(function)
        return index.get(line, ())

    def column_of_call_around(self, function: int, line: int, column: int) -> int:
        """Where the innermost call around a position begins, -1 if the source shows none there."""
        sites = [self.site(call) for call in self.calls_at(function, line)]
        around = [site for site in sites if holds(site, line, column)]
        return max(around, key=lambda site: (site.line, site.column)).column if around else -1

    def innermost(self, function: int, line: int, column: int, inner: bool) -> int:
        """The innermost vertex of a function's own code that holds a position.

        Args:
            function: its vertex, which it is if nothing in it does.
            line: of the position.
            column: of the position, -1 where unknown.
            inner: whether the frame is that of a comprehension in the function.
        """
        key = (function, line, column, inner)
        found = self._located.get(key)
        if found is None:
            found = function
            while True:
                deeper = self._choose(found, line, column, inner)
                if deeper < 0:
                    break
                found = deeper
                if self._psg[found].kind not in _STRUCTURAL:
                    break
            self._located[key] = found
        return found

    def _index(self, function: int) -> dict[int, list[int]]:
        index: dict[int, list[int]] = {}
        stack = list(reversed(self._psg[function].children))
        while stack:
            number = stack.pop()
            vertex = self._psg[number]
            if number in self._psg.added:
                continue
            if vertex.kind in _STRUCTURAL:
                stack.extend(reversed(vertex.children))
                continue
            if vertex.kind in (VertexKind.FUNCTION, VertexKind.COMM, VertexKind.CALL):
                site = self.site(number)
                for covered in range(site.line, min(site.end_line, site.line + _LINES_OF_A_CALL) + 1):
                    index.setdefault(covered, []).append(number)
        return index

    def _choose(self, parent: int, line: int, column: int, inner: bool) -> int:
        structural = stretch = call = -1
        exact = False
        for number in self._psg[parent].children:
            vertex = self._psg[number]
            added = number in self._psg.added
            if vertex.kind is VertexKind.FUNCTION or added or not holds(vertex.place, line, column):
                continue
            if vertex.kind in _STRUCTURAL:
                structural = number  # of several in one line, the last one that begins before the position
            elif vertex.kind is VertexKind.COMP:
                stretch = number if stretch < 0 or column >= 0 else stretch
            else:
                starts = vertex.place.line == line and vertex.place.column == column
                if call < 0 or starts:
                    call = number  # of several that begin there, the outermost is evaluated last
                    exact = exact or starts
        if exact:
            return call
        if structural >= 0 and (column >= 0 or inner or stretch < 0):
            return structural
        if stretch >= 0:
            return stretch
        return call
