"""The Program Structure Graph: one vertex per place where time can be spent or ranks can meet.

Place, structure and measures are three things. A :class:`Place` says where something stands in the source and is its
identity; a :class:`Vertex` says where it stands in the structure; numbers live in arrays beside the graph, indexed by
vertex, and never in a vertex.

The graph is a list of vertices that form a tree (parent to child: control; sibling to next sibling: execution order),
plus data dependences and the back edges of recursion. It is calling-context sensitive: a function that is called from
two places is two vertices. Vertices are only ever appended, so that an index stays valid for good.

>>> psg = PSG()
>>> main = psg.add(VertexKind.FUNCTION, Place("train.py", 1, 9, 0, "main"), 0)
>>> loop = psg.add(VertexKind.LOOP, Place("train.py", 2, 9, 4, "for batch in loader"), main)
>>> psg.function_of(loop)
'main'
>>> [vertex.kind.value for vertex in psg.walk()]
['root', 'function', 'loop']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, Flag
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx


class VertexKind(str, Enum):
    """What a vertex stands for."""

    ROOT = "root"
    """The whole program."""
    FUNCTION = "function"
    """An inlined call; the place is that of the definition, :attr:`Vertex.site` that of the call."""
    LOOP = "loop"
    """A loop, or a comprehension."""
    BRANCH = "branch"
    """One arm of a branch: ``if``, ``elif``, ``else``, ``case``, ``except``."""
    COMM = "comm"
    """A communication call; its operation is in :attr:`Vertex.operation`."""
    COMP = "comp"
    """A stretch of straight-line code."""
    CALL = "call"
    """A call that the front end could not resolve, or that goes back (recursion); samples fill it in."""
    OP = "op"
    """A node of a captured model graph."""
    REGION = "region"
    """Code that the user named."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in the source: its identity."""

    file: str
    """Absolute path, or a name such as ``<string>`` where there is no file."""
    line: int
    """First line, from 1; 0 where unknown."""
    end_line: int
    """Last line, inclusive."""
    column: int
    """Offset of the first byte in its line, from 0 (two loops can share a line); -1 where unknown."""
    name: str
    """Qualified name of a function, text of the head of a loop or branch, name of what is called, ..."""
    end_column: int = -1
    """Offset behind the last byte in the last line; -1 where unknown."""

    def __str__(self) -> str:
        span = str(self.line) if self.end_line <= self.line else f"{self.line}-{self.end_line}"
        return f"{self.file}:{span}"


@dataclass(slots=True)
class Vertex:
    """One vertex of the structure."""

    index: int
    """Its index in :attr:`PSG.vertices`, and in the arrays of measures."""
    kind: VertexKind
    place: Place
    parent: int
    """-1 for the root."""
    position: int
    """Position among its siblings, in order of execution."""
    children: list[int] = field(default_factory=list)
    """In order of execution; what samples added stands after what the source says."""
    operation: int = 0
    """Code in the table of operations (``scalana.runtime.operations``), 0 for anything but communication."""
    recursion: int = -1
    """The enclosing function vertex that this call goes back to, -1 where it is no recursion."""
    site: Place | None = None
    """Of a function: the call that was inlined, where there is one in the source. Of a part of a library's call: the
    place in the library."""


class Turn(Flag):
    """What a stretch of code does for the loop around it."""

    ENDS_STEP = 1
    """It calls a backward pass, the step of an optimizer, or what marks a step."""
    GIVES = 2
    """It hands a value to the loop that iterates over its function: ``yield``."""
    ASKS = 4
    """It asks an iterator for the next value: ``next(batches)``."""


_NO_TURN = Turn(0)
_ENDS_STEP = re.compile(
    r"(?:^|\.)(?:backward|profile_hook_step)$|(?:optim\w*|scaler|engine|\b(?:opt|scalana|prof(?:iler)?))\.step$"
)
NOWHERE = Place("", 0, 0, -1, "")


def ends_step(called: str) -> bool:
    """Whether a call ends a step of a training, by the name of what is called.

    >>> [ends_step(name) for name in ("loss.backward", "self.optimizer.step", "scalana.step", "env.step")]
    [True, True, True, False]
    """
    return _ENDS_STEP.search(called) is not None


class PSG:
    """A Program Structure Graph. Vertex 0 is the root."""

    def __init__(self, name: str = "") -> None:
        self.vertices: list[Vertex] = [Vertex(0, VertexKind.ROOT, Place("", 0, 0, -1, name), -1, 0)]
        self.data: list[tuple[int, int]] = []
        """Data dependences: (vertex that computes something, vertex that uses it)."""
        self.added: set[int] = set()
        """Calls and functions that samples added: they are in no source that was read."""
        self.modules: dict[int, str] = {}
        """Vertices that are calls of a model's modules, with their places in the model: ``layers.*.mlp``."""
        self.turns: dict[int, Turn] = {}
        """What vertices do for the loops around them, of those that do something."""
        self.warnings: list[str] = []
        """What could not be read or was cut off, one sentence each."""
        self._communicating = bytearray()
        self._stepping = bytearray()

    def __len__(self) -> int:
        return len(self.vertices)

    def __getitem__(self, index: int) -> Vertex:
        return self.vertices[index]

    def add(
        self,
        kind: VertexKind,
        place: Place,
        parent: int,
        operation: int = 0,
        *,
        site: Place | None = None,
        recursion: int = -1,
    ) -> int:
        """Append a vertex as the last child of ``parent`` and return its index."""
        index = len(self.vertices)
        siblings = self.vertices[parent].children
        self.vertices.append(Vertex(index, kind, place, parent, len(siblings), [], operation, recursion, site))
        siblings.append(index)
        return index

    def copy(self) -> PSG:
        """A graph that may grow without this one."""
        result = PSG()
        result.vertices = [replace(vertex, children=list(vertex.children)) for vertex in self.vertices]
        result.data, result.added = list(self.data), set(self.added)
        result.modules, result.warnings = dict(self.modules), list(self.warnings)
        result.turns = dict(self.turns)
        return result

    def ancestors(self, index: int) -> Iterator[Vertex]:
        """The vertices above ``index``, its parent first and the root last."""
        parent = self.vertices[index].parent
        while parent >= 0:
            vertex = self.vertices[parent]
            yield vertex
            parent = vertex.parent

    def enclosing(self, index: int, kind: VertexKind) -> int:
        """The innermost vertex of a kind at or above ``index``, -1 if there is none."""
        while index >= 0 and self.vertices[index].kind is not kind:
            index = self.vertices[index].parent
        return index

    def function_of(self, index: int) -> str:
        """Qualified name of the function that contains vertex ``index`` (or that it is); "" outside any."""
        found = self.enclosing(index, VertexKind.FUNCTION)
        return self.vertices[found].place.name if found >= 0 else ""

    def module_of(self, index: int) -> str:
        """Place in its model of the innermost module at or above ``index``; "" outside any."""
        while index >= 0 and index not in self.modules:
            index = self.vertices[index].parent
        return self.modules.get(index, "")

    def walk(self, start: int = 0) -> Iterator[Vertex]:
        """Vertices at and below ``start``, parents before children, siblings in order. O(vertices walked)."""
        stack = [start]
        while stack:
            vertex = self.vertices[stack.pop()]
            yield vertex
            stack.extend(reversed(vertex.children))

    def communicates(self, index: int) -> bool:
        """Whether there is communication at or below a vertex. O(vertices) the first time, and after one was added."""
        if len(self._communicating) != len(self.vertices):
            self._communicating = self._at_or_below(lambda vertex: vertex.kind is VertexKind.COMM)
        return bool(self._communicating[index])

    def makes_steps(self, index: int) -> bool:
        """Whether a turn of a vertex is a step of the program, or holds steps. O(vertices) the first time, and after
        one was added.

        That is where ranks communicate, or a step ends, at or below it; where a generator gives its values to a loop
        that makes steps; and in a program without any of these, for its outermost loops.
        """
        if len(self._stepping) != len(self.vertices):
            self._stepping = self._that_make_steps()
        return bool(self._stepping[index])

    def _that_make_steps(self) -> bytearray:
        """Whether each vertex makes steps ``[vertices]``."""
        found = self._at_or_below(
            lambda vertex: (
                vertex.kind is VertexKind.COMM
                or Turn.ENDS_STEP in self.turns.get(vertex.index, _NO_TURN)
                or ends_step(vertex.place.name)
            )
        )
        loops = [vertex.index for vertex in self.vertices if vertex.kind is VertexKind.LOOP]
        if not any(found[loop] for loop in loops) and not self._exchanges():
            for loop in loops:
                around = list(self.ancestors(loop))
                if not any(above.kind is VertexKind.LOOP for above in around):
                    found[loop] = True
                    for above in around:
                        found[above.index] = True
        for vertex in sorted(self.turns):  # a generator comes after what iterates over it
            function = self.enclosing(vertex, VertexKind.FUNCTION)
            consumer = self._consumer(function) if Turn.GIVES in self.turns[vertex] and function > 0 else 0
            if consumer and found[consumer]:
                while vertex != self.vertices[function].parent:
                    found[vertex], vertex = True, self.vertices[vertex].parent
        return found

    def _exchanges(self) -> bool:
        """Whether processes communicate for more than to set up their communication."""
        from scalana.runtime.operations import SETUP

        return any(one.kind is VertexKind.COMM and one.operation not in SETUP for one in self.vertices)

    def _consumer(self, function: int) -> int:
        """The loop that iterates over what a generator gives; the root where none is known to."""
        site, call = self.vertices[function].site, self.vertices[function].parent
        while call > 0 and self.vertices[call].kind is VertexKind.CALL:
            site = site or self.vertices[call].place
            call = self.vertices[call].parent
        if site is None:
            return 0
        near = [one for one in (call, *self.vertices[call].children) if Turn.ASKS in self.turns.get(one, _NO_TURN)]
        places = [self.vertices[one].place for one in near]
        asks = any(place.line <= site.line <= place.end_line for place in places)
        loop = call
        while loop > 0 and self.vertices[loop].kind not in (VertexKind.LOOP, VertexKind.FUNCTION):
            loop = self.vertices[loop].parent
        here = self.vertices[loop]
        return loop if here.kind is VertexKind.LOOP and (asks or site.line == here.place.line) else 0

    def _at_or_below(self, chosen: Callable[[Vertex], bool]) -> bytearray:
        """Whether something holds of each vertex, or of one below it ``[vertices]``."""
        found = bytearray(len(self.vertices))
        for vertex in reversed(self.vertices):  # children come after their parents
            found[vertex.index] |= chosen(vertex)
            if vertex.parent >= 0:
                found[vertex.parent] |= found[vertex.index]
        return found

    def edges(self) -> Iterator[tuple[int, int, str]]:
        """All edges as (from, to, type); type is control, order, data or recursion."""
        for vertex in self.vertices:
            previous = -1
            for child in vertex.children:
                yield vertex.index, child, "control"
                if previous >= 0:
                    yield previous, child, "order"
                previous = child
            if vertex.recursion >= 0:
                yield vertex.index, vertex.recursion, "recursion"
        for source, target in self.data:
            yield source, target, "data"

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The graph for networkx: nodes are vertex indices, an edge's key and attribute ``type`` say what it is.

        Node attributes: ``kind``, ``file``, ``line``, ``end_line``, ``column``, ``name``, ``operation`` (its name, ""
        for anything but communication). It is a multigraph, for two vertices may be joined by order and by data.
        """
        import networkx

        graph = networkx.MultiDiGraph(name=self.vertices[0].place.name)
        graph.add_nodes_from((vertex.index, attributes(vertex)) for vertex in self.vertices)
        graph.add_edges_from((source, target, kind, {"type": kind}) for source, target, kind in self.edges())
        return graph


def attributes(vertex: Vertex) -> dict[str, Any]:
    """A vertex as plain values, for networkx and for JSON."""
    from scalana.runtime.operations import BY_CODE

    place = vertex.place
    operation = BY_CODE[vertex.operation].name if vertex.operation in BY_CODE and vertex.operation else ""
    return {
        "kind": vertex.kind.value,
        "file": place.file,
        "line": place.line,
        "end_line": place.end_line,
        "column": place.column,
        "name": place.name,
        "operation": operation,
    }


class Visitor:
    """Walks a graph; override ``visit_<kind>`` for the kinds of interest.

    A method that is overridden decides whether its children are visited, by calling :meth:`visit_children`.

    >>> class Operations(Visitor):
    ...     def __init__(self, psg):
    ...         super().__init__(psg)
    ...         self.codes = []
    ...     def visit_comm(self, vertex):
    ...         self.codes.append(vertex.operation)
    """

    def __init__(self, psg: PSG) -> None:
        self.psg = psg

    def visit(self, index: int = 0) -> None:
        """Visit one vertex by the method for its kind."""
        vertex = self.psg.vertices[index]
        method = getattr(self, "visit_" + vertex.kind.value, None)
        if method is None:
            self.visit_children(vertex)
        else:
            method(vertex)

    def visit_children(self, vertex: Vertex) -> None:
        """Visit the children of a vertex in order."""
        for child in vertex.children:
            self.visit(child)
