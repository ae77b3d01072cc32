"""The code of one scope of Python to nodes: loops, branches, stretches of code and call sites.

What becomes what:

* ``for``, ``while``, ``async for``, comprehensions and generator expressions: loops;
* the arms of ``if``, ``match`` and ``except``, and ``else`` of loops and ``try``: branches, one a sibling of the other
  (the body of ``try`` and ``finally`` always run, and are no branch);
* arms of conditional expressions and of ``and``/``or``: branches, if they hold a call of interest;
* ``with scalana.region("x")``: a region;
* every call: a call site, for the linker to judge; and so is what calls a method without saying so (:class:`Implicit`),
  which is dropped where that is no method of the user's;
* every simple statement: a stretch of code, to be merged with its neighbours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from scalana.graphs.structure.psg import Place, Turn, VertexKind, ends_step
from scalana.graphs.structure.source_tree import Node

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ITERATE = frozenset({"enumerate", "zip", "iter", "reversed", "list", "tuple", "sorted", "set"})
"""Builtins that iterate over what they are given."""
NAME_LENGTH = 72
"""Longest text of a place's name, in characters."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file, as far as its nodes need it."""

    path: str
    lines: list[str]
    imported: frozenset[str]
    """Names of modules: no data flows through them."""


@dataclass(frozen=True, slots=True, eq=False)
class Implicit:
    """A call that the source does not write out: of methods of what an expression stands for."""

    value: ast.expr
    methods: tuple[str, ...]
    """Their names: those that are called, if the value has them."""
    is_property: bool = False
    """Whether the name is that of an attribute, which may be a property."""


def dotted(node: ast.expr) -> str:
    """Short text of what is called: ``self.net``, ``table[...]``, ``DDP(...)``."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append("." + node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            parts.append("(...)")
            node = node.func
        elif isinstance(node, ast.Subscript):
            parts.append("[...]")
            node = node.value
        elif isinstance(node, ast.Await):
            node = node.value
        else:
            parts.append(node.id if isinstance(node, ast.Name) else "(...)")
            return "".join(reversed(parts))


def names_in(*nodes: ast.AST | None) -> tuple[str, ...]:
    """Names of variables that expressions read, without those that are called, each once, in order."""
    found: dict[str, None] = {}
    stack = [node for node in reversed(nodes) if node is not None]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            found[node.id] = None
        elif isinstance(node, ast.Call):
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            stack.extend(reversed([*receiver, *node.args, *(keyword.value for keyword in node.keywords)]))
        else:
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return tuple(found)


def written(target: ast.expr) -> Iterator[str]:
    """Names that an assignment to ``target`` changes; ``x[i]`` and ``x.a`` change ``x``."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from written(element)
    elif isinstance(target, (ast.Starred, ast.Subscript, ast.Attribute)):
        yield from written(target.value)


_DEEPER = (ast.Call, ast.Lambda, ast.IfExp, ast.BoolOp, *COMPREHENSIONS)


class Builder:
    """Makes the nodes of one scope."""

    def __init__(self, file: SourceText) -> None:
        self.file = file.path
        self.lines = file.lines
        self.imported = file.imported

    def build(self, scope: Scope) -> list[Node]:
        try:
            if isinstance(scope, ast.Lambda):
                return [self.stretch(scope.body), *self.calls(scope.body)]
            return self.block(scope.body)
        except RecursionError:  # generated code; its samples stay at the function
            return []

    # places

    def place(self, node: ast.expr | ast.stmt, name: str = "", end: ast.AST | None = None) -> Place:
        last = node if end is None else end
        end_line = getattr(last, "end_lineno", None) or node.lineno
        return Place(
            self.file, node.lineno, end_line, node.col_offset, name, getattr(last, "end_col_offset", None) or -1
        )

    def text(self, line: int, column: int, end_line: int = 0, end_column: int = 0) -> str:
        """Source text from a position to the end of its line, or to another one in that line."""
        if not 0 < line <= len(self.lines):
            return ""
        raw = self.lines[line - 1].encode()
        text = raw[column:end_column] if end_line == line and end_column > 0 else raw[column:]
        short = text.decode("utf-8", "replace").strip().rstrip(":").rstrip()
        return short if len(short) <= NAME_LENGTH else short[: NAME_LENGTH - 3] + "..."

    def stretch(self, node: ast.expr | ast.stmt, end: ast.AST | None = None, defines: tuple[str, ...] = ()) -> Node:
        name = self.text(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        return Node(VertexKind.COMP, self.place(node, name, end), defines=defines)

    # statements

    def block(self, body: list[ast.stmt]) -> list[Node]:
        nodes: list[Node] = []
        for statement in body:
            method = getattr(self, "on_" + type(statement).__name__, None)
            nodes.extend(method(statement) if method is not None else self.simple(statement))
        return nodes

    def simple(self, statement: ast.stmt) -> list[Node]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return []  # a docstring
        defines, value = _effects(statement)
        nodes = [node for expression in _expressions(statement) for node in self.calls(expression)]
        call = value.value if isinstance(value, ast.Await) else value
        if isinstance(call, ast.Call) and nodes and nodes[-1].call is call:
            last = nodes[-1]
            last.defines = tuple(dict.fromkeys((*defines, *last.defines)))
            # Only this one call, with nothing to compute before it: its time is all of the statement's.
            written_out = [node for node in nodes if not isinstance(node.call, Implicit)]
            if len(written_out) == 1 and not any(_computes(part) for part in (*call.args, *call.keywords)):
                last.whole = True
                last.statement = self.place(statement, last.place.name)
        stretch = self.stretch(statement, defines=defines)
        stretch.turn = _turn(value, nodes)
        return [stretch, *nodes]

    def on_FunctionDef(self, statement: FunctionNode | ast.ClassDef) -> list[Node]:
        first = min([statement.lineno, *(d.lineno for d in statement.decorator_list)])
        end = max(statement.lineno, statement.body[0].lineno - 1)
        place = Place(self.file, first, end, statement.col_offset, self.text(statement.lineno, statement.col_offset))
        parts: list[ast.expr] = list(statement.decorator_list)
        if isinstance(statement, ast.ClassDef):
            parts += [*statement.bases, *(keyword.value for keyword in statement.keywords)]
        else:
            parts += [*statement.args.defaults, *(d for d in statement.args.kw_defaults if d is not None)]
        calls = [node for part in parts for node in self.calls(part)]
        return [Node(VertexKind.COMP, place, defines=(statement.name,)), *calls]

    on_AsyncFunctionDef = on_FunctionDef
    on_ClassDef = on_FunctionDef

    def on_For(self, statement: ast.For | ast.AsyncFor) -> list[Node]:
        waits = isinstance(statement, ast.AsyncFor)
        loop = Node(
            VertexKind.LOOP,
            self.place(statement, self.text(statement.lineno, statement.col_offset), statement.body[-1]),
            [*self.calls(statement.iter), *self.iterated(statement.iter, waits), *self.block(statement.body)],
            defines=tuple(written(statement.target)),
            uses=names_in(statement.iter),
        )
        return [loop, *self.otherwise(statement.orelse)]

    on_AsyncFor = on_For

    def on_While(self, statement: ast.While) -> list[Node]:
        loop = Node(
            VertexKind.LOOP,
            self.place(statement, self.text(statement.lineno, statement.col_offset), statement.body[-1]),
            [*self.calls(statement.test), *self.block(statement.body)],
            uses=names_in(statement.test),
        )
        return [loop, *self.otherwise(statement.orelse)]

    def on_If(self, statement: ast.If) -> list[Node]:
        nodes: list[Node] = []
        arm: ast.If | None = statement
        while arm is not None:
            name = self.text(arm.lineno, arm.col_offset)
            place = self.place(arm, name, arm.body[-1])
            nodes.append(Node(VertexKind.BRANCH, place, [*self.calls(arm.test), *self.block(arm.body)]))
            if len(arm.orelse) == 1 and isinstance(arm.orelse[0], ast.If) and self.is_elif(arm.orelse[0]):
                arm = arm.orelse[0]
            else:
                nodes.extend(self.otherwise(arm.orelse))
                arm = None
        return nodes

    def is_elif(self, statement: ast.If) -> bool:
        return self.text(statement.lineno, statement.col_offset).startswith("elif")

    def otherwise(self, body: list[ast.stmt]) -> list[Node]:
        if not body:
            return []
        return [Node(VertexKind.BRANCH, self.place(body[0], "else", body[-1]), self.block(body))]

    def on_Match(self, statement: ast.Match) -> list[Node]:
        head = self.place(statement, self.text(statement.lineno, statement.col_offset), statement.subject)
        nodes = [Node(VertexKind.COMP, head), *self.calls(statement.subject)]
        for case in statement.cases:
            start = case.pattern
            name = "case " + self.text(start.lineno, start.col_offset)
            last = case.body[-1]
            place = Place(
                self.file,
                start.lineno,
                last.end_lineno or last.lineno,
                statement.col_offset,
                name,
                last.end_col_offset or -1,
            )
            guard = self.calls(case.guard) if case.guard is not None else []
            nodes.append(Node(VertexKind.BRANCH, place, [*guard, *self.block(case.body)]))
        return nodes

    def on_Try(self, statement: ast.Try) -> list[Node]:
        nodes = self.block(statement.body)
        for handler in statement.handlers:
            name = self.text(handler.lineno, handler.col_offset)
            place = Place(
                self.file,
                handler.lineno,
                handler.end_lineno or handler.lineno,
                handler.col_offset,
                name,
                handler.end_col_offset or -1,
            )
            caught = self.calls(handler.type) if handler.type is not None else []
            nodes.append(Node(VertexKind.BRANCH, place, [*caught, *self.block(handler.body)]))
        return [*nodes, *self.otherwise(statement.orelse), *self.block(statement.finalbody)]

    on_TryStar = on_Try

    def on_With(self, statement: ast.With | ast.AsyncWith) -> list[Node]:
        last = statement.items[-1]
        names = tuple(name for item in statement.items if item.optional_vars for name in written(item.optional_vars))
        head = self.stretch(statement, last.optional_vars or last.context_expr, names)
        calls = [node for item in statement.items for node in self.calls(item.context_expr)]
        prefix = "__a" if isinstance(statement, ast.AsyncWith) else "__"
        managers = [item.context_expr for item in statement.items]
        calls += [self.implicit(manager, f"{prefix}enter__") for manager in managers]
        body = self.block(statement.body)
        body += [self.implicit(manager, f"{prefix}exit__") for manager in reversed(managers)]
        for item in statement.items:
            region = _region(item.context_expr)
            if region is not None:
                calls = [node for node in calls if node.call is not item.context_expr]
                return [Node(VertexKind.REGION, self.place(statement, region), [*calls, *body])]
        return [head, *calls, *body]

    on_AsyncWith = on_With

    # expressions

    def calls(self, node: ast.AST) -> list[Node]:
        """The call sites and loops in an expression, in order of evaluation."""
        nodes: list[Node] = []
        self._calls(node, nodes)
        return nodes

    def _calls(self, node: ast.AST, out: list[Node]) -> None:
        if isinstance(node, ast.Call):
            self._calls(node.func.value if isinstance(node.func, ast.Attribute) else node.func, out)
            for argument in node.args:
                self._calls(argument, out)
            for keyword in node.keywords:
                self._calls(keyword.value, out)
            out.append(self.call_site(node))
        elif isinstance(node, COMPREHENSIONS):
            self._comprehension(node, out)
        elif isinstance(node, ast.IfExp):
            self._calls(node.test, out)
            out.append(self.arm(node.body, "if"))
            out.append(self.arm(node.orelse, "else"))
        elif isinstance(node, ast.BoolOp):
            self._calls(node.values[0], out)
            word = "and" if isinstance(node.op, ast.And) else "or"
            out.extend(self.arm(value, word) for value in node.values[1:])
        elif isinstance(node, ast.BinOp):
            right: list[ast.expr] = []
            left: ast.expr = node
            while isinstance(left, ast.BinOp):  # a + b + c + ...: as long as you like
                right.append(left.right)
                left = left.left
            self._calls(left, out)
            for part in reversed(right):
                self._calls(part, out)
        elif isinstance(node, (ast.Lambda, ast.Name, ast.Constant)):
            pass  # the body of a lambda runs elsewhere
        elif isinstance(node, ast.Attribute):
            self._calls(node.value, out)
            if isinstance(node.ctx, ast.Load):
                out.append(self.implicit(node.value, node.attr, site=node, is_property=True))
        elif isinstance(node, ast.Subscript):
            self._calls(node.value, out)
            self._calls(node.slice, out)
            if not isinstance(node.ctx, ast.Del):
                item = "__getitem__" if isinstance(node.ctx, ast.Load) else "__setitem__"
                out.append(self.implicit(node.value, item, site=node))
        else:
            for child in ast.iter_child_nodes(node):
                self._calls(child, out)

    def implicit(self, value: ast.expr, *methods: str, site: ast.expr | None = None, is_property: bool = False) -> Node:
        """A call site for methods of what an expression stands for, at the expression or where a larger one is."""
        place = self.place(value if site is None else site, methods[0])
        return Node(VertexKind.CALL, place, call=Implicit(value, methods, is_property))

    def iterated(self, iterable: ast.expr, waits: bool = False) -> list[Node]:
        """Call sites for what a loop over an expression calls, also through builtins that iterate over it."""
        found, rest = [], [iterable]
        while rest:
            value = rest.pop(0)
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _ITERATE:
                rest.extend(value.args)
            else:
                found.append(value)
        return [self.implicit(v, *(("__aiter__", "__anext__") if waits else ("__iter__", "__next__"))) for v in found]

    def arm(self, node: ast.expr, word: str) -> Node:
        name = f"{word} {self.text(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)}"
        return Node(VertexKind.BRANCH, self.place(node, name), self.calls(node), optional=True)

    def call_site(self, node: ast.Call) -> Node:
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        used = names_in(*values, node.func.value if isinstance(node.func, ast.Attribute) else None)
        # In-place operations and collectives write what they are given; x.add_(y) writes x.
        changed: tuple[str, ...] = ()
        if node.args:
            changed = tuple(written(node.args[0]))
        return Node(
            VertexKind.CALL,
            self.place(node, dotted(node.func)),
            call=node,
            defines=changed,
            uses=tuple(name for name in used if name not in self.imported),
        )

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, out: list[Node]
    ) -> None:
        first, *others = node.generators
        self._calls(first.iter, out)
        inside: list[Node] = self.iterated(first.iter, bool(first.is_async))
        for generator in node.generators:
            if generator is not first:
                self._calls(generator.iter, inside)
                inside += self.iterated(generator.iter, bool(generator.is_async))
            for condition in generator.ifs:
                self._calls(condition, inside)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._calls(part, inside)
        name = self.text(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        if len(name) < 2:  # a bracket, with the rest in lines of its own
            name = f"for {self.text(first.target.lineno, first.target.col_offset)}"
        uses = names_in(first.iter, *(generator.iter for generator in others))
        out.append(Node(VertexKind.LOOP, self.place(node, name), inside, uses=uses))


def _effects(statement: ast.stmt) -> tuple[tuple[str, ...], ast.expr | None]:
    """The names that a simple statement writes, and the expression whose value it is about."""
    if isinstance(statement, ast.Assign):
        names = tuple(name for target in statement.targets for name in written(target))
        return names, statement.value
    if isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        return tuple(written(statement.target)), statement.value
    if isinstance(statement, ast.Expr):
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            return tuple(written(call.func.value)), call  # x.add_(y), list.append: may change x
        return (), call
    if isinstance(statement, ast.Return):
        return (), statement.value
    return (), None


def _turn(value: ast.expr | None, calls: list[Node]) -> Turn:
    """What a statement does for the loop around it, by its value and by what it calls."""
    turn = Turn.GIVES if isinstance(value, (ast.Yield, ast.YieldFrom)) else Turn(0)
    for node in calls:
        name = node.place.name
        if name in ("next", "anext"):
            turn |= Turn.ASKS
        elif ends_step(name):
            turn |= Turn.ENDS_STEP
    return turn


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(statement, ast.Assign):  # the value is computed before the targets
        yield statement.value
        yield from statement.targets
    else:
        yield from ast.iter_child_nodes(statement)


def _computes(node: ast.AST) -> bool:
    """Whether an argument takes time to evaluate: anything but names, attributes and constants."""
    return any(isinstance(part, (*_DEEPER, ast.BinOp, ast.Subscript, ast.Await)) for part in ast.walk(node))


def _region(node: ast.expr) -> str | None:
    """The name in ``scalana.region("name")``, None for any other expression."""
    if isinstance(node, ast.Call) and dotted(node.func) in ("scalana.region", "region") and node.args:
        name = node.args[0]
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else dotted(name)
    return None
