"""The structure of one source file, in no particular language: what front ends produce and graphs are made of.

A front end describes each function as a tree of :class:`Node`: loops, branches, stretches of code and call sites. It
does not say what the calls lead to. :func:`settle` takes that answer from whoever knows (the linker, which resolves
names across files; or nobody, for a file that is read only because samples landed in it) and makes the body of the
function: uninteresting calls become part of the stretch of code around them. :func:`instantiate` adds one copy of a
body to a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from scalana.graphs.structure.psg import PSG, Place, Turn, VertexKind


@dataclass(slots=True)
class Node:
    """A vertex-to-be of one function."""

    kind: VertexKind
    place: Place
    children: list[Node] = field(default_factory=list)
    operation: int = 0
    """Of a communication call: its code in the table of operations."""
    call: object = None
    """Of a call site: the language's own description of it, for whoever resolves names."""
    whole: bool = False
    """Of a call site: whether the statement does nothing else, so that all of its time belongs to the call."""
    optional: bool = False
    """Dropped where nothing of interest is inside (an arm of a conditional expression)."""
    defines: tuple[str, ...] = ()
    """Names of the function's own variables that this writes."""
    uses: tuple[str, ...] = ()
    """Names that a communication call's buffers or a loop's bound are computed from."""
    targets: tuple[Target, ...] = ()
    """Of a settled call site: what it calls."""
    statement: Place | None = None
    """Of a call site that is :attr:`whole`: its statement, where that is more than the call itself."""
    turn: Turn = Turn(0)
    """Of a stretch of code: what it does for the loop around it."""


@dataclass(slots=True, eq=False)
class FunctionStructure:
    """One function, method, lambda, class body or module body. Compared by identity."""

    place: Place
    """From the first decorator to the last line; its name is the qualified name."""
    build: Callable[[], list[Node]]
    """Makes the nodes; called once, when somebody asks, for most functions of a program are never looked at."""
    source: object = None
    """The language's own description, for whoever resolves names."""
    _nodes: list[Node] | None = None

    @property
    def nodes(self) -> list[Node]:
        """The structure of the body."""
        if self._nodes is None:
            self._nodes = self.build()
        return self._nodes


@dataclass(frozen=True, slots=True)
class Target:
    """What a call leads to: a function, in a context in which its own calls are resolved."""

    function: FunctionStructure
    context: Hashable = None


@dataclass(slots=True)
class FileStructure:
    """The functions of one file."""

    file: str
    """Absolute path."""
    module: FunctionStructure
    """The code outside any function."""
    functions: list[FunctionStructure]
    """All functions of the file, in the order of their first line, without :attr:`module`."""
    source: object = None
    """The language's own description."""
    more: Callable[[], list[FunctionStructure]] | None = None
    """Finds functions without a name, which are listed only when one is looked for."""
    _index: dict[tuple[str, int], list[FunctionStructure]] | None = None

    def find(self, name: str, first_line: int, line: int = 0, column: int = -1) -> FunctionStructure | None:
        """The function with a (qualified or bare) name that begins in a line.

        Where several without a name begin in one line, the one that holds (line, column) is taken.
        """
        bare = name.rpartition(".")[2]
        if bare == "<module>":
            return self.module
        if self._index is None:
            self._index = _index(self.functions)
        found = self._index.get((bare, first_line))
        if found is None and self.more is not None:
            self.functions.extend(self.more())
            self.more = None
            self._index = _index(self.functions)
            found = self._index.get((bare, first_line))
        if not found and line:
            # Debug information may name another line of a declaration that takes several.
            found = [f for f in self.functions if f.place.name == name and holds(f.place, line)]
        if not found:
            return None
        if len(found) > 1:
            for function in found:
                if holds(function.place, line, column):
                    return function
        return found[0]


def _index(functions: list[FunctionStructure]) -> dict[tuple[str, int], list[FunctionStructure]]:
    index: dict[tuple[str, int], list[FunctionStructure]] = {}
    for function in functions:
        key = (function.place.name.rpartition(".")[2], function.place.line)
        index.setdefault(key, []).append(function)
    return index


def holds(place: Place, line: int, column: int = -1) -> bool:
    """Whether a position lies in a place; by lines alone where no column is known (-1)."""
    if not place.line <= line <= place.end_line:
        return False
    if column < 0:
        return True
    if line == place.line and column < place.column:
        return False
    return not (line == place.end_line and 0 <= place.end_column <= column)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a call site is."""

    kind: VertexKind
    """FUNCTION (see targets), COMM (see operation), CALL (not known; targets are candidates, which will stand below the
    call vertex), or COMP: nothing of interest."""
    operation: int = 0
    targets: tuple[Target, ...] = ()


NOTHING = Decision(VertexKind.COMP)
UNKNOWN = Decision(VertexKind.CALL)


def unresolved(node: Node) -> Decision:
    """The decision where nobody resolves names: samples will say what is called."""
    return Decision(VertexKind.COMM, node.operation) if node.operation else NOTHING


@dataclass(slots=True)
class Body:
    """The settled structure of a function."""

    nodes: list[Node]
    data: list[tuple[int, int]]
    """Data dependences as numbers of nodes in the order of :func:`preorder`."""
    size: int
    """How many nodes there are."""


def preorder(nodes: list[Node]) -> Iterator[Node]:
    """All nodes, parents before children, siblings in order."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def settle(nodes: list[Node], decide: Callable[[Node], Decision]) -> Body:
    """Decide about every call site and merge the stretches of code between those that stay."""
    settled = _settle(nodes, decide)
    flat = list(preorder(settled))
    return Body(settled, _dependences(flat), len(flat))


def _settle(nodes: list[Node], decide: Callable[[Node], Decision]) -> list[Node]:
    result: list[Node] = []
    decisions = [decide(node) if node.call is not None else None for node in nodes]
    for number, (node, decision) in enumerate(zip(nodes, decisions, strict=True)):
        if node.kind is VertexKind.COMP:
            following = number + 1
            while following < len(nodes) and decisions[following] == NOTHING:
                following += 1
            kept = decisions[following] if following < len(nodes) and nodes[following].whole else None
            if kept is not None and kept.kind in (VertexKind.COMM, VertexKind.CALL):
                continue  # all of the statement's time is the call's
            if result and result[-1].kind is VertexKind.COMP:
                result[-1] = _merged(result[-1], node)
            else:
                result.append(node)
        elif decision is not None:
            if decision.kind is not VertexKind.COMP:
                inlined = decision.kind is VertexKind.FUNCTION
                result.append(
                    Node(
                        decision.kind,
                        node.place if inlined or node.statement is None else node.statement,
                        operation=decision.operation,
                        defines=node.defines,
                        uses=node.uses,
                        targets=decision.targets,
                    )
                )
        else:
            children = _settle(node.children, decide)
            if children or not node.optional:
                result.append(Node(node.kind, node.place, children, defines=node.defines, uses=node.uses))
    return result


def _merged(first: Node, second: Node) -> Node:
    a, b = first.place, second.place
    last = b if b.end_line >= a.end_line else a
    place = Place(a.file, a.line, last.end_line, a.column, a.name, last.end_column)
    return Node(VertexKind.COMP, place, defines=first.defines + second.defines, turn=first.turn | second.turn)


def _dependences(flat: list[Node]) -> list[tuple[int, int]]:
    """Reaching definitions, nearly: the last one before the use, else the last one later in an enclosing loop."""
    writers: dict[str, list[int]] = {}
    for number, node in enumerate(flat):
        for name in node.defines:
            writers.setdefault(name, []).append(number)
    result: list[tuple[int, int]] = []
    loops: list[tuple[int, int]] = []
    if any(node.uses for node in flat):
        sizes = _sizes(flat)
        loops = [(n, n + sizes[n]) for n, node in enumerate(flat) if node.kind is VertexKind.LOOP]
    for number, node in enumerate(flat):
        if node.kind is not VertexKind.COMM and node.kind is not VertexKind.LOOP:
            continue
        found: set[int] = set()
        for name in node.uses:
            before = [w for w in writers.get(name, ()) if w < number]
            if before:
                found.add(before[-1])
                continue
            around = [end for start, end in loops if start < number < end]
            if around:
                after = [w for w in writers.get(name, ()) if number < w < max(around)]
                if after:
                    found.add(after[-1])
        result.extend((source, number) for source in sorted(found))
    return result


def _sizes(flat: list[Node]) -> list[int]:
    sizes = [1] * len(flat)
    numbers = {id(node): number for number, node in enumerate(flat)}
    for number in range(len(flat) - 1, -1, -1):
        sizes[number] += sum(sizes[numbers[id(child)]] for child in flat[number].children)
    return sizes


Enter = Callable[[PSG, Node, Target, int], int]


def instantiate(psg: PSG, function: int, body: Body, enter: Enter | None = None) -> None:
    """Add the vertices of a body below a function vertex.

    ``enter`` adds the vertex for a resolved call (graph, node, target, parent) and returns its index; without it,
    a resolved call is a call vertex.
    """
    numbers: list[int] = []
    stack: list[tuple[Node, int]] = [(node, function) for node in reversed(body.nodes)]
    while stack:
        node, parent = stack.pop()
        if node.targets and enter is not None and node.kind is VertexKind.CALL:
            index = psg.add(node.kind, node.place, parent)
            for target in node.targets:  # candidates; samples tell which it is
                enter(psg, node, target, index)
        elif node.targets and enter is not None:
            entered = [enter(psg, node, target, parent) for target in node.targets]
            index = entered[-1]
        else:
            kind = VertexKind.CALL if node.targets else node.kind
            index = psg.add(kind, node.place, parent, node.operation)
        if node.turn:
            psg.turns[index] = node.turn
        numbers.append(index)
        stack.extend((child, index) for child in reversed(node.children))
    psg.data.extend((numbers[source], numbers[target]) for source, target in body.data)
