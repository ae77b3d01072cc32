"""The user's modules: where a name of an import leads, and what names a scope binds."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scalana.frontend.python.nodes import Scope
from scalana.frontend.python.source import statements
from scalana.graphs.structure.source_tree import FileStructure, FunctionStructure


@dataclass(frozen=True, slots=True)
class Binding:
    """One way in which a name gets its value."""

    kind: str
    """import, from, star, function, class, parameter, annotation, or what the expression is to the name: its value,
    element (of an iterable), entered (by ``with``), appended, extended."""
    node: ast.AST
    """The definition, the expression of the value, or the import."""
    path: tuple[int, ...] = ()
    """Of a value that is unpacked: the position in it, from the outside inwards."""
    name: str = ""
    """Of an import: the name in the module, or the module's."""


@dataclass(slots=True, eq=False)
class Module:
    """One file, or a package without one (a namespace package)."""

    name: str
    folder: str
    """Where its submodules are, "" if it can have none."""
    structure: FileStructure | None
    by_node: dict[ast.AST, FunctionStructure] = field(default_factory=dict)
    """Functions by their definition."""
    outer: dict[ast.AST, Scope] = field(default_factory=dict)
    """The scope around each function, class and lambda that was met."""

    @property
    def file(self) -> str:
        """Its path, or that of its folder."""
        return self.structure.file if self.structure is not None else self.folder

    @property
    def tree(self) -> ast.Module | None:
        """Its source, if it has any."""
        source = self.structure.source if self.structure is not None else None
        return source if isinstance(source, ast.Module) else None


class Modules:
    """Finds and holds modules.

    Args:
        parse: gives the structure of a file, None if it cannot be read.
        roots: folders in which absolute imports are looked up, in order.
        is_own: whether a file belongs to the user; others are known by name only.
    """

    def __init__(
        self, parse: Callable[[str], FileStructure | None], roots: Iterable[str], is_own: Callable[[str], bool]
    ) -> None:
        self.parse = parse
        self.roots = list(roots)
        self.is_own = is_own
        self.by_file: dict[str, Module | None] = {}
        self._by_name: dict[str, Module | None] = {}

    def load(self, file: str) -> Module | None:
        """The module in a file, None if it cannot be read."""
        if file not in self.by_file:
            structure = self.parse(file)
            self.by_file[file] = None if structure is None else _module(structure)
        return self.by_file[file]

    def absolute(self, name: str) -> Module | None:
        """The user's module with a dotted name."""
        if name not in self._by_name:
            self._by_name[name] = None  # circular look-ups end here
            for root in self.roots:
                found = self._under(root, name)
                if found is not None:
                    self._by_name[name] = found
                    break
        return self._by_name[name]

    def relative(self, module: Module, level: int, name: str) -> Module | None:
        """The module that ``from ..name import`` means in ``module``; level is the number of dots."""
        folder = os.path.dirname(module.file) if not module.folder else module.folder
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        if name:
            return self._under(folder, name)
        return self._at(folder, os.path.basename(folder))

    def submodule(self, module: Module, name: str) -> Module | None:
        """The module ``name`` in a package."""
        return self._under(module.folder, name) if module.folder else None

    def _under(self, folder: str, name: str) -> Module | None:
        return self._at(os.path.join(folder, *name.split(".")), name)

    def _at(self, base: str, name: str) -> Module | None:
        for file in (os.path.join(base, "__init__.py"), base + ".py"):
            if os.path.isfile(file):
                return self.load(file) if self.is_own(file) else None
        if os.path.isdir(base) and self.is_own(os.path.join(base, "__init__.py")):
            if base not in self.by_file:
                self.by_file[base] = Module(name, base, None)
            return self.by_file[base]
        return None


def _module(structure: FileStructure) -> Module:
    folder, base = os.path.split(structure.file)
    package = base == "__init__.py"
    name = os.path.basename(folder) if package else base.removesuffix(".py")
    module = Module(name, folder if package else "", structure)
    for function in (structure.module, *structure.functions):
        if isinstance(function.source, ast.AST):
            module.by_node[function.source] = function
    if module.tree is not None:
        _nest(module.tree, module.outer)
    return module


def _nest(scope: Scope, outer: dict[ast.AST, Scope]) -> None:
    for statement in statements(scope):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            outer[statement] = scope
            _nest(statement, outer)


Bound = Iterator[tuple[str, Binding]]
"""Names and what they are bound to, in the order of the source."""


def bindings_of(scope: Scope) -> dict[str, list[Binding]]:
    """What the names of one scope are bound to, in the order of the source; nested scopes are not entered."""
    found: dict[str, list[Binding]] = {name: [Binding("parameter", argument)] for name, argument in parameters(scope)}
    for statement in statements(scope):
        binder = _BINDERS.get(type(statement))
        for name, binding in (*(binder(statement) if binder else ()), *_bound_in_expressions(statement)):
            found.setdefault(name, []).append(binding)
    return found


def _assigned(target: ast.expr, kind: str, value: ast.AST, path: tuple[int, ...] = ()) -> Bound:
    if isinstance(target, ast.Name):
        yield target.id, Binding(kind, value, path)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for position, element in enumerate(target.elts):
            yield from _assigned(element, kind, value, (*path, position))
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and not path:
        yield target.value.id, Binding("appended", value)


def _by_import(statement: ast.Import) -> Bound:
    for alias in statement.names:
        first = alias.name if alias.asname else alias.name.partition(".")[0]
        yield alias.asname or first, Binding("import", statement, name=first)


def _by_import_from(statement: ast.ImportFrom) -> Bound:
    for alias in statement.names:
        star = alias.name == "*"
        binding = Binding("star", statement) if star else Binding("from", statement, name=alias.name)
        yield alias.asname or alias.name, binding


def _by_definition(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Bound:
    yield statement.name, Binding("class" if isinstance(statement, ast.ClassDef) else "function", statement)


def _by_assignment(statement: ast.Assign) -> Bound:
    for target in statement.targets:
        yield from _assigned(target, "value", statement.value)


def _by_annotation(statement: ast.AnnAssign) -> Bound:
    if statement.value is not None:
        yield from _assigned(statement.target, "value", statement.value)
    yield from _assigned(statement.target, "annotation", statement.annotation)


def _by_loop(statement: ast.For | ast.AsyncFor) -> Bound:
    yield from _assigned(statement.target, "element", statement.iter)


def _by_with(statement: ast.With | ast.AsyncWith) -> Bound:
    for item in statement.items:
        if item.optional_vars is not None:
            yield from _assigned(item.optional_vars, "entered", item.context_expr)


def _by_call(statement: ast.Expr) -> Bound:
    """A call that puts something into a list, a set or a queue."""
    call = statement.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
        return
    if call.func.attr in ("append", "add", "appendleft", "insert", "extend") and isinstance(call.func.value, ast.Name):
        kind = "extended" if call.func.attr == "extend" else "appended"
        yield call.func.value.id, Binding(kind, call.args[-1])


_BINDERS: dict[type[ast.stmt], Callable[[Any], Bound]] = {
    ast.Import: _by_import,
    ast.ImportFrom: _by_import_from,
    ast.FunctionDef: _by_definition,
    ast.AsyncFunctionDef: _by_definition,
    ast.ClassDef: _by_definition,
    ast.Assign: _by_assignment,
    ast.AnnAssign: _by_annotation,
    ast.AugAssign: lambda statement: _assigned(statement.target, "appended", statement.value),
    ast.For: _by_loop,
    ast.AsyncFor: _by_loop,
    ast.With: _by_with,
    ast.AsyncWith: _by_with,
    ast.Expr: _by_call,
}
"""What each kind of statement binds."""


def _bound_in_expressions(statement: ast.stmt) -> Bound:
    for part in _parts_of_expressions(statement):
        if isinstance(part, ast.NamedExpr):
            yield from _assigned(part.target, "value", part.value)
        elif isinstance(part, ast.comprehension):
            yield from _assigned(part.target, "element", part.iter)


def _parts_of_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Everything in the expressions of one statement, those of statements inside of it left out."""
    for expression in ast.iter_child_nodes(statement):
        if isinstance(expression, (ast.expr, ast.withitem)):
            yield from ast.walk(expression)


def parameters(scope: Scope) -> list[tuple[str, ast.arg]]:
    """Names of a function's parameters, in order; positional ones first."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return []
    arguments = scope.args
    found = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg is not None:
        found.append(arguments.vararg)
    found += arguments.kwonlyargs
    if arguments.kwarg is not None:
        found.append(arguments.kwarg)
    return [(argument.arg, argument) for argument in found]
