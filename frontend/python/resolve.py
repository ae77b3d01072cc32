"""Names to definitions: what the call sites of Python source lead to.

``train(DDP(Net().to(device)))`` leads to ``train``, and where ``train`` calls its parameter, to ``Net.forward``. What
is not known stays a call; samples will say.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable

from scalana.frontend.python.communication import operation_of
from scalana.frontend.python.evaluate import Arguments, Evaluator
from scalana.frontend.python.modules import Module, Modules, parameters
from scalana.frontend.python.nodes import Implicit, Scope
from scalana.frontend.python.objects import decorators_of, is_property
from scalana.frontend.python.values import (
    EMPTY,
    WIDTH,
    ClassValue,
    Environment,
    External,
    FunctionValue,
    Instance,
    Items,
    Result,
    Value,
    Values,
    union,
)
from scalana.graphs.structure.psg import VertexKind
from scalana.graphs.structure.source_tree import NOTHING, UNKNOWN, Decision, FunctionStructure, Node, Target

CALLS_ITS_ARGUMENT = frozenset(
    {"checkpoint", "spawn", "start_processes", "map", "starmap", "apply", "filter", "sorted", "min", "max", "reduce"}
)
"""External functions that call a function they are given, before they return."""
CALLS_A_METHOD = {
    "builtins.next": "__next__",
    "builtins.anext": "__anext__",
    "builtins.iter": "__iter__",
    "builtins.len": "__len__",
}
"""Builtins that call a method of their first argument."""


class Resolver:
    """Decides about call sites. ``modules`` finds the user's files."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.values = Evaluator(modules)
        self._known: tuple[int, tuple[frozenset[str], frozenset[str]]] = (-1, (frozenset(), frozenset()))

    def decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision | None:
        """What a call site in a function is, in a context (an :class:`Environment`, None for nothing known)."""
        call = node.call
        if not isinstance(call, (ast.Call, Implicit)):
            return None
        module = self.modules.load(function.place.file)
        if module is None:
            return UNKNOWN
        if isinstance(call, Implicit) and call.is_property and call.methods[0] not in self._names()[1]:
            return NOTHING
        environment = context if isinstance(context, Environment) else EMPTY
        scope = function.source
        assert isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
        if isinstance(call, Implicit):
            values = self.values.evaluate(call.value, module, scope, environment)
            methods = tuple(dict.fromkeys(self._methods(call.methods, values, call.is_property)))
            return Decision(VertexKind.FUNCTION, targets=methods[:WIDTH]) if methods else NOTHING
        callees = self.values.evaluate(call.func, module, scope, environment)
        for callee in callees:
            operation = operation_of(callee.name) if isinstance(callee, External) else 0
            if operation:
                return Decision(VertexKind.COMM, operation)
        targets: dict[Target, None] = {}
        arguments: Arguments | None = None
        for callee in callees:
            if arguments is None:
                arguments = self.values.arguments(call, module, scope, environment)
            targets.update(dict.fromkeys(self.targets(callee, *arguments)))
        if targets:
            return Decision(VertexKind.FUNCTION, targets=tuple(targets)[:WIDTH])
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            return UNKNOWN  # autograd: hooks and backward functions of the user's may follow
        if callees:
            return NOTHING
        return UNKNOWN if self._may_be_own(call.func, module, scope, environment) else NOTHING

    def _methods(self, names: Iterable[str], values: Values, properties: bool = False) -> list[Target]:
        """The methods of the user's with some names that objects among the values have; maybe properties alone."""
        found = [
            self.values.objects.method(value.cls, name, value)
            for value in values
            if isinstance(value, Instance)
            for name in names
        ]
        return [
            Target(method.function, self.values.bind(method, [], {}))
            for method in found
            if method is not None and (not properties or is_property(method.function.source))
        ]

    def entry(self, function: FunctionStructure) -> Environment:
        """The context of a function that is called from outside: a method knows the class it is defined in."""
        module = self.modules.load(function.place.file)
        source = function.source
        if module is None or not isinstance(source, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return EMPTY
        cls = module.outer.get(source)
        names = parameters(source)
        if isinstance(cls, ast.ClassDef) and names and "staticmethod" not in decorators_of(source):
            value = self.values.interner.make(ClassValue, module, cls, EMPTY)
            receiver = (
                value if "classmethod" in decorators_of(source) else self.values.interner.make(Instance, value, EMPTY)
            )
            return self.values.interner.environment({names[0][0]: (receiver,)})
        return EMPTY

    def targets(self, callee: Value, arguments: list[Values], keywords: dict[str, Values]) -> Iterable[Target]:
        """The functions that run when a value is called."""
        if isinstance(callee, FunctionValue):
            yield Target(callee.function, self.values.bind(callee, arguments, keywords))
        elif isinstance(callee, ClassValue):
            instance = self.values.objects.instantiate(callee, arguments, keywords)
            for name in ("__init__", "__post_init__"):
                method = self.values.objects.method(instance.cls, name, instance)
                if method is not None:
                    yield Target(method.function, self.values.bind(method, arguments, keywords))
        elif isinstance(callee, Instance):
            method = self.values.objects.run_by_calling(callee)
            if method is not None:
                yield Target(method.function, self.values.bind(method, arguments, keywords))
        elif isinstance(callee, Result):
            for value in union(callee.items):
                if not isinstance(value, External):
                    yield from self.targets(value, arguments, keywords)
        elif isinstance(callee, Items):
            for value in union(callee.items):
                if isinstance(value, (Instance, Result)):
                    yield from self.targets(value, arguments, keywords)
        elif isinstance(callee, External) and callee.name in CALLS_A_METHOD:
            yield from self._methods((CALLS_A_METHOD[callee.name],), union(arguments[:1]))
        elif isinstance(callee, External) and callee.name.rpartition(".")[2] in CALLS_ITS_ARGUMENT:
            for value in union([*arguments, *keywords.values()]):
                if isinstance(value, (FunctionValue, Instance)):
                    yield from self.targets(value, [], {})

    def _may_be_own(self, callee: ast.expr, module: Module, scope: Scope, environment: Environment) -> bool:
        """Whether a call to something not known could lead to the user's own code."""
        if not isinstance(callee, ast.Attribute):
            return True
        if callee.attr in self._names()[0]:
            return True
        return any(
            isinstance(value, Instance)
            and any(self.values.objects.assignments(cls, callee.attr) for cls in self.values.objects.classes(value.cls))
            for value in self.values.evaluate(callee.value, module, scope, environment)
        )

    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        """Names of the user's methods, special ones left out, and of those of them that are properties."""
        if self._known[0] != len(self.modules.by_file):
            methods = [
                node
                for module in self.modules.by_file.values()
                if module is not None
                for node, outer in module.outer.items()
                if isinstance(outer, ast.ClassDef) and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            ]
            names = frozenset(node.name for node in methods if not node.name.startswith("__"))
            properties = frozenset(node.name for node in methods if is_property(node))
            self._known = len(self.modules.by_file), (names, properties)
        return self._known[1]
