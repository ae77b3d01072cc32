"""The body of one C or C++ function to its nodes.

What becomes what:

* ``for``, ``while``, ``do``, range ``for``, what a ``goto`` jumps back over and parallel regions of OpenMP: loops;
* the arms of ``if`` and ``switch``, and ``catch``: branches, one a sibling of the other;
* arms of ``?:``, ``&&`` and ``||``: branches, if they hold a call of interest;
* calls of functions, methods, constructors, destructors, operators and lambdas: call sites, for the linker to judge;
* every other simple statement: a stretch of code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scalana.frontend.cpp.source import pragmas
from scalana.frontend.cpp.source.calls import Calls
from scalana.frontend.cpp.source.clang import children_of, constant, end_of, kind_of, parts_of, start_of
from scalana.frontend.cpp.source.declarations import Declarations
from scalana.frontend.cpp.source.jumps import Spans, jumps_back
from scalana.graphs.structure.psg import Place, VertexKind
from scalana.graphs.structure.source_tree import Node

if TYPE_CHECKING:
    from clang.cindex import Cursor


class Builder:
    """Makes the nodes of functions."""

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self.texts = declarations.texts
        self.expressions = Calls(declarations, self.statement)
        self._jumps: dict[Cursor, Spans] = {}
        self._methods: dict[str, Any] = {
            "COMPOUND_STMT": self.compound,
            "DECL_STMT": self.declaration,
            "FOR_STMT": self.loop,
            "WHILE_STMT": self.loop,
            "CXX_FOR_RANGE_STMT": self.loop,
            "DO_STMT": self.do_loop,
            "IF_STMT": self.branch,
            "SWITCH_STMT": self.switch,
            "CXX_TRY_STMT": self.try_block,
            "CASE_STMT": self.inside,
            "DEFAULT_STMT": self.inside,
            "LABEL_STMT": self.inside,
            "UNEXPOSED_STMT": self.wrapped,
            "NULL_STMT": lambda cursor: [],
            "BREAK_STMT": lambda cursor: [],
            "CONTINUE_STMT": lambda cursor: [],
        }

    def function(self, cursor: Cursor) -> list[Node]:
        """The nodes of a function, its member initializers included."""
        self._jumps = jumps_back(cursor)
        nodes: list[Node] = []
        for child in parts_of(cursor):
            kind = kind_of(child)
            if kind in ("COMPOUND_STMT", "CXX_TRY_STMT", "UNEXPOSED_STMT"):
                nodes += self.statement(child)
            elif kind == "CALL_EXPR" or child.kind.is_expression():
                if kind_of(cursor) == "CONSTRUCTOR" or self._constructor_template(cursor):
                    nodes += self._stretch_and(child, self.expressions.of(child))
        if kind_of(cursor) == "DESTRUCTOR":
            end = end_of(cursor)
            for destroyed in self.declarations.members_destroyed(cursor.semantic_parent):
                nodes += self._destroy(destroyed, end.line, end.column - 1, cursor)
        return nodes

    def _constructor_template(self, cursor: Cursor) -> bool:
        parent = cursor.semantic_parent
        name = cursor.spelling.partition("<")[0]
        return kind_of(cursor) == "FUNCTION_TEMPLATE" and parent is not None and parent.spelling == name

    def lambda_body(self, cursor: Cursor) -> list[Node]:
        """The nodes of a lambda that is known only by its expression."""
        self._jumps = jumps_back(cursor)
        children = [child for child in children_of(cursor) if kind_of(child) == "COMPOUND_STMT"]
        return self.statement(children[-1]) if children else []

    # statements

    def statement(self, cursor: Cursor) -> list[Node]:
        """The nodes of one statement."""
        method = self._methods.get(kind_of(cursor))
        nodes: list[Node] = self.simple(cursor) if method is None else method(cursor)
        return nodes

    def body(self, cursor: Cursor, after_line: int) -> list[Node]:
        """A statement below the head of a loop or branch that ends in a line."""
        return self._below(self.texts.before(cursor, after_line), cursor)

    def compound(self, cursor: Cursor) -> list[Node]:
        """A block: its statements, and the destructors of its variables."""
        children = children_of(cursor)
        nodes = self._sequence(children, start_of(cursor).line, self._jumps.get(cursor, {}))
        variables = [
            part
            for child in children
            if kind_of(child) == "DECL_STMT"
            for part in children_of(child)
            if kind_of(part) == "VAR_DECL"
        ]
        end = end_of(cursor)
        for variable in reversed(variables):
            for destroyed in self.declarations.destroyed(variable.type):
                nodes += self._destroy(destroyed, end.line, max(end.column - 2, 0), cursor)
        return nodes

    def _sequence(self, children: Sequence[Cursor], line: int, spans: Spans) -> list[Node]:
        """Statements of a block, the first of them behind a line; those that a jump goes back over are a loop."""
        nodes: list[Node] = []
        number = 0
        while number < len(children):
            child, last = children[number], spans.get(number)
            if last is None:
                last = number
                found = self._below(self.texts.before(child, line), child)
            else:
                inside = {first - number: end - number for first, end in spans.items() if number < first <= last}
                body = self._sequence(children[number : last + 1], line, inside)
                parts = children_of(child)
                place = self.texts.named(child, end=children[last], head=parts[-1] if parts else None)
                found = [Node(VertexKind.LOOP, place, body)]
            nodes += _joined(nodes, found)
            line = end_of(children[last]).line
            number = last + 1
        return nodes

    def _destroy(self, function: str, line: int, column: int, inside: Cursor) -> list[Node]:
        file = self.texts.place(inside).file
        name = self.declarations.name_of(function)
        place = Place(file, line, line, column, name, column + 1)
        return [Node(VertexKind.CALL, place, call=self.declarations.direct(function, name))]

    def _below(self, directives: list[pragmas.Pragma], cursor: Cursor) -> list[Node]:
        """A statement with the directives of OpenMP that stand before it."""
        nodes = self.statement(cursor)
        for directive in reversed(directives):
            first = nodes[0] if nodes else None
            loop = directive.words & pragmas.LOOPS
            if loop and len(nodes) == 1 and first is not None and first.kind is VertexKind.LOOP:
                old = first.place
                first.place = Place(
                    old.file, directive.line, old.end_line, directive.column, directive.text, old.end_column
                )
                continue
            kind = VertexKind.LOOP if loop or directive.words & pragmas.REGIONS else VertexKind.BRANCH
            span = self.texts.place(cursor)
            place = Place(span.file, directive.line, span.end_line, directive.column, directive.text, span.end_column)
            nodes = [Node(kind, place, nodes)]
        return nodes

    def inside(self, cursor: Cursor) -> list[Node]:
        """A label or case that stands by itself: what it labels."""
        children = list(children_of(cursor))
        return self.statement(children[-1]) if children else []

    def wrapped(self, cursor: Cursor) -> list[Node]:
        """A statement with attributes, or the body of a coroutine, behind which the compiler's own calls stand."""
        for child in children_of(cursor):
            if child.kind.is_statement():
                return self.statement(child)
        return self.simple(cursor)

    def declaration(self, cursor: Cursor) -> list[Node]:
        """Variables, with what computes their first values; local classes hold functions of their own."""
        calls: list[Node] = []
        defines: list[str] = []
        for child in children_of(cursor):
            if kind_of(child) == "VAR_DECL":
                found = self.expressions.initializer(child)
                if found or any(True for _ in children_of(child)):
                    defines.append(child.spelling)
                calls += found
            elif child.kind.is_declaration():
                self.declarations.declare(child)
        if calls:
            calls[-1].defines = (*calls[-1].defines, *defines)
        return self._stretch_and(cursor, calls, tuple(defines))

    def simple(self, cursor: Cursor) -> list[Node]:
        """An expression, ``return``, ``throw`` ..."""
        calls = self.expressions.of(cursor)
        nodes = self._stretch_and(cursor, calls, self.expressions.written(cursor))
        core = self.expressions.core(cursor)
        if len(calls) == 1 and core is not None and kind_of(core) == "CALL_EXPR":
            calls[0].whole = not any(self.expressions.computes(argument) for argument in core.get_arguments())
        return nodes

    def _stretch_and(self, cursor: Cursor, calls: list[Node], defines: tuple[str, ...] = ()) -> list[Node]:
        names = tuple(dict.fromkeys((*defines, *(name for call in calls for name in call.defines))))
        return [Node(VertexKind.COMP, self.texts.named(cursor), defines=names), *calls]

    def loop(self, cursor: Cursor) -> list[Node]:
        """``for``, ``while`` and range ``for``: the body stands last."""
        children = list(children_of(cursor))
        if not children:
            return []
        *head, body = children
        nodes: list[Node] = []
        defines: list[str] = []
        for part in head:
            if kind_of(part) in ("DECL_STMT", "VAR_DECL"):
                variables = children_of(part) if kind_of(part) == "DECL_STMT" else [part]
                for variable in variables:
                    defines.append(variable.spelling)
                    nodes += self.expressions.initializer(variable)
            else:
                nodes += self.expressions.of(part)
                if kind_of(cursor) == "CXX_FOR_RANGE_STMT":
                    nodes += self.expressions.held_by(part)
        uses = self.expressions.names(head)
        head_end = end_of(head[-1]).line if head else start_of(cursor).line
        nodes += self.body(body, head_end)
        place = self.texts.named(cursor, head=body)
        return [
            Node(
                VertexKind.LOOP,
                place,
                nodes,
                defines=tuple(defines),
                uses=tuple(name for name in uses if name not in defines),
            )
        ]

    def do_loop(self, cursor: Cursor) -> list[Node]:
        """``do ... while``: the body stands first."""
        children = list(children_of(cursor))
        if not children:
            return []
        body, *condition = children
        nodes = self.body(body, start_of(cursor).line)
        if len(condition) == 1 and constant(condition[0]) == 0:
            return nodes  # not a loop: how macros make one statement of several
        for part in condition:
            nodes += self.expressions.of(part)
        place = self.texts.named(cursor, head=body)
        return [Node(VertexKind.LOOP, place, nodes, uses=self.expressions.names(condition))]

    def branch(self, cursor: Cursor) -> list[Node]:
        """``if``, ``else if`` and ``else``, one a sibling of the other."""
        nodes: list[Node] = []
        arm: Cursor | None = cursor
        prefix = ""
        while arm is not None:
            head, then, otherwise = self._parts(arm)
            inside: list[Node] = []
            for part in head:
                inside += self.statement(part) if part.kind.is_statement() else self.expressions.of(part)
            line = end_of(head[-1]).line if head else start_of(arm).line
            if then is None:
                nodes += inside
                break
            inside += self.body(then, line)
            place = self.texts.named(arm, end=then, head=then)
            place = Place(place.file, place.line, place.end_line, place.column, prefix + place.name, place.end_column)
            nodes.append(Node(VertexKind.BRANCH, place, inside))
            prefix = "else "
            arm = None
            if otherwise is not None:
                if kind_of(otherwise) == "IF_STMT":
                    arm = otherwise
                else:
                    place = self.texts.place(otherwise, "else")
                    nodes.append(Node(VertexKind.BRANCH, place, self.body(otherwise, end_of(then).line)))
        return nodes

    def _parts(self, cursor: Cursor) -> tuple[list[Cursor], Cursor | None, Cursor | None]:
        """Head, statement and ``else`` of an ``if``; a head has up to three parts, and an arm can be left out."""
        children = list(children_of(cursor))
        if len(children) < 2:
            return children, None, None
        declared = sum(1 for child in children[:2] if kind_of(child) in ("VAR_DECL", "DECL_STMT"))
        arms = children[min(declared + 1, len(children) - 1) :]
        if len(arms) >= 2:
            between = self.texts.gap(arms[-2], arms[-1])
            if len(arms) == 2 and (b"else" in between or arms[-2].kind.is_statement()):
                return children[: -len(arms)], arms[-2], arms[-1]
            if b"else" in between:
                return children[:-2], arms[-2], arms[-1]
        return children[:-1], children[-1], None

    def switch(self, cursor: Cursor) -> list[Node]:
        """``switch``: an arm begins with each group of labels."""
        *head, body = list(children_of(cursor)) or [None]
        nodes: list[Node] = []
        for part in head:
            if part is not None:
                nodes += self.statement(part) if part.kind.is_statement() else self.expressions.of(part)
        if head and head[0] is not None:
            nodes.insert(0, Node(VertexKind.COMP, self.texts.named(cursor, end=head[-1], head=body)))
        if body is None:
            return nodes
        if kind_of(body) != "COMPOUND_STMT":
            return nodes + self.statement(body)
        children = children_of(body)
        spans = self._jumps.get(body, {})
        starts = [number for number, child in enumerate(children) if kind_of(child) in ("CASE_STMT", "DEFAULT_STMT")]
        nodes += self._sequence(children[: starts[0]] if starts else children, start_of(body).line, {})
        for start, end in zip(starts, [*starts[1:], len(children)], strict=True):
            inner = children[start]
            while kind_of(inner) in ("CASE_STMT", "DEFAULT_STMT"):
                inner = children_of(inner)[-1]
            inside = {first - start: last - start for first, last in spans.items() if start <= first and last < end}
            found = self._sequence([inner, *children[start + 1 : end]], start_of(children[start]).line, inside)
            place = self.texts.named(children[start], end=children[end - 1], head=inner)
            nodes.append(Node(VertexKind.BRANCH, place, found))
        return nodes

    def try_block(self, cursor: Cursor) -> list[Node]:
        """``try``: its body always runs; each ``catch`` is a branch."""
        nodes: list[Node] = []
        for child in children_of(cursor):
            if kind_of(child) == "CXX_CATCH_STMT":
                parts = [part for part in children_of(child) if kind_of(part) == "COMPOUND_STMT"]
                place = self.texts.named(child, head=parts[-1] if parts else None)
                nodes.append(Node(VertexKind.BRANCH, place, self.statement(parts[-1]) if parts else []))
            else:
                nodes += self.statement(child)
        return nodes


def _joined(before: list[Node], found: list[Node]) -> list[Node]:
    """What is to be appended to ``before``: a stretch of code that continues one before it is merged into that."""
    if not before or not found or before[-1].kind is not VertexKind.COMP or found[0].kind is not VertexKind.COMP:
        return found
    if len(found) > 1 and found[1].whole:
        return found  # dropped if the call stays, so it must stay apart
    first, second = before[-1].place, found[0].place
    if first.file != second.file:
        return found
    end_line = max(second.end_line, first.end_line)
    before[-1] = Node(
        VertexKind.COMP,
        Place(first.file, first.line, end_line, first.column, first.name, second.end_column),
        defines=tuple(dict.fromkeys((*before[-1].defines, *found[0].defines))),
    )
    return found[1:]
