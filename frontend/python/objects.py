"""The user's classes and objects: bases, methods, and what attributes are assigned."""

from __future__ import annotations

import ast
from typing import Protocol

from scalana.frontend.python.modules import Binding, Module, parameters
from scalana.frontend.python.nodes import Scope
from scalana.frontend.python.source import statements
from scalana.frontend.python.values import (
    EMPTY,
    ClassValue,
    Environment,
    External,
    FunctionValue,
    Instance,
    Interner,
    Value,
    Values,
    union,
)


class Expressions(Protocol):
    """Whoever evaluates the expressions that stand in classes: an :class:`~.evaluate.Evaluator`."""

    interner: Interner

    def evaluate(self, node: ast.AST, module: Module, scope: Scope, environment: Environment) -> Values:
        """What an expression may stand for."""

    def scope(self, scope: Scope) -> dict[str, list[Binding]]:
        """What the names of one scope are bound to."""

    def bound(
        self, binding: Binding, module: Module, scope: Scope, environment: Environment, known: Values | None
    ) -> Values:
        """What a name stands for by one of its bindings."""

    def invoke(self, callee: Value, arguments: list[Values], keywords: dict[str, Values]) -> Values:
        """What a call may return."""


class Objects:
    """Looks things up in classes, as Python does. ``values`` evaluates what is found there."""

    def __init__(self, values: Expressions) -> None:
        self.values = values
        self._mro: dict[ClassValue, tuple[Value, ...]] = {}
        self._assigned: dict[ast.ClassDef, dict[str, list[tuple[ast.AST, ast.AST]]]] = {}

    def class_attribute(self, cls: ClassValue, name: str) -> Values:
        """What an attribute of a class may stand for."""
        method = self.method(cls, name, None)
        if method is not None:
            return (method,)
        if name == "apply" and any(isinstance(b, External) and b.name.endswith("Function") for b in self.mro(cls)):
            forward = self.method(cls, "forward", None)  # torch.autograd.Function; backward is called by autograd
            return (forward,) if forward is not None else ()
        for ancestor in self.classes(cls):
            bindings = self.values.scope(ancestor.node).get(name)
            if bindings:
                return union(
                    [self.values.bound(b, ancestor.module, ancestor.node, ancestor.environment, None) for b in bindings]
                )
        return ()

    def instance_attribute(self, instance: Instance, name: str) -> Values:
        """What an attribute of an object may stand for: a method, or what methods of its class assign to it."""
        method = self.method(instance.cls, name, instance)
        if method is not None:
            source = method.function.source
            if is_property(source):
                return self.values.invoke(method, [], {})
            return (method,)
        found: list[Values] = []
        for cls in self.classes(instance.cls):
            for method_node, value in self.assignments(cls, name):
                assert isinstance(method_node, (ast.FunctionDef, ast.AsyncFunctionDef))
                bound: dict[str, Values] = dict(cls.environment.bindings)
                if method_node.name == "__init__":
                    bound.update(instance.environment.bindings)
                receiver = parameters(method_node)
                if receiver:
                    bound[receiver[0][0]] = (instance,)
                environment = self.values.interner.environment(bound)
                found.append(self.values.evaluate(value, cls.module, method_node, environment))
        if not any(found):
            found.append(self.class_attribute(instance.cls, name))
        if not any(found):
            found.append(instance.environment.get(name) or ())  # a field of a dataclass
        return union(found)

    def assignments(self, cls: ClassValue, name: str) -> list[tuple[ast.AST, ast.AST]]:
        """Values assigned to ``self.name`` in the methods of a class, with the method of each."""
        known = self._assigned.get(cls.node)
        if known is None:
            known = self._assigned[cls.node] = _assigned_attributes(cls.node)
        return known.get(name, [])

    def method(self, cls: ClassValue, name: str, receiver: Instance | None) -> FunctionValue | None:
        """The method of a class or its bases with a name, bound to an object if one is given."""
        for ancestor in self.classes(cls):
            method = self.own_method(ancestor, name, receiver or cls)
            if method is not None:
                return method
        return None

    def run_by_calling(self, instance: Instance) -> FunctionValue | None:
        """The method that runs when an object is called; of a torch module that is ``forward``."""
        return self.method(instance.cls, "__call__", instance) or self.method(instance.cls, "forward", instance)

    def own_method(self, cls: ClassValue, name: str, receiver: Instance | ClassValue) -> FunctionValue | None:
        """The method that a class itself defines, bound to what it is called on."""
        for binding in reversed(self.values.scope(cls.node).get(name, ())):
            node = binding.node
            if binding.kind != "function" or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            decorators = decorators_of(node)
            bound: Instance | ClassValue | None = receiver
            if "classmethod" in decorators:
                bound = receiver.cls if isinstance(receiver, Instance) else receiver
            elif "staticmethod" in decorators or isinstance(receiver, ClassValue):
                bound = None
            for value in self.values.bound(binding, cls.module, cls.node, cls.environment, None):
                if isinstance(value, FunctionValue):
                    return self.values.interner.make(
                        FunctionValue, value.module, value.function, value.environment, bound
                    )
        return None

    def mro(self, cls: ClassValue) -> tuple[Value, ...]:
        """A class and its bases, nearest first; bases that are not the user's by name."""
        if cls not in self._mro:
            self._mro[cls] = (cls,)  # circular bases end here
            found: list[Value] = [cls]
            for base in cls.node.bases:
                outer = cls.module.outer.get(cls.node, cls.module.tree)
                assert outer is not None
                for value in self.values.evaluate(base, cls.module, outer, cls.environment):
                    found.extend(self.mro(value) if isinstance(value, ClassValue) else [value])
            # Of a base that is reached twice the last one counts, as in Python's own order.
            self._mro[cls] = tuple(reversed(dict.fromkeys(reversed(found))))
        return self._mro[cls]

    def classes(self, cls: ClassValue) -> list[ClassValue]:
        """A class and those of its bases that are the user's, nearest first."""
        return [value for value in self.mro(cls) if isinstance(value, ClassValue)]

    def inherited(self, name: str, module: Module, scope: Scope, environment: Environment) -> Values:
        """What ``super().name`` stands for in a method."""
        method: Scope | None = scope
        while method is not None and not isinstance(module.outer.get(method), ast.ClassDef):
            method = module.outer.get(method)
        names = parameters(method) if method is not None else []
        if method is None or not names:
            return ()
        node = module.outer[method]
        assert isinstance(node, ast.ClassDef)
        receivers = [v for v in environment.get(names[0][0]) or () if isinstance(v, (Instance, ClassValue))]
        defining = self.values.interner.make(ClassValue, module, node, EMPTY)
        receiver: Instance | ClassValue = (
            receivers[0] if receivers else self.values.interner.make(Instance, defining, EMPTY)
        )
        cls = receiver.cls if isinstance(receiver, Instance) else receiver
        order = self.mro(cls)
        start = next((i for i, v in enumerate(order) if isinstance(v, ClassValue) and v.node is node), -1)
        if start < 0:
            order, start = self.mro(defining), 0
        for ancestor in order[start + 1 :]:
            if isinstance(ancestor, ClassValue):
                found = self.own_method(ancestor, name, receiver)
                if found is not None:
                    return (found,)
        return tuple(self.values.interner.make(External, f"{v.name}.{name}") for v in order if isinstance(v, External))[
            :1
        ]

    def instantiate(self, cls: ClassValue, arguments: list[Values], keywords: dict[str, Values]) -> Instance:
        """The object that calling a class makes."""
        method = self.method(cls, "__init__", self.values.interner.make(Instance, cls, EMPTY))
        if method is not None:
            names = [name for name, _ in parameters(method.function.source)][1:]  # type: ignore[arg-type]
        else:
            names = [
                s.target.id
                for ancestor in reversed(self.classes(cls))
                for s in ancestor.node.body
                if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
            ]
        bound = dict(zip(names, arguments, strict=False))
        bound.update(keywords)
        return self.values.interner.make(Instance, cls, self.values.interner.environment(bound))


def is_property(source: object) -> bool:
    """Whether a definition is that of a property, cached or not, or something by a name like it."""
    return isinstance(source, ast.FunctionDef) and any("property" in name for name in decorators_of(source))


def decorators_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Last parts of the names of decorators: ``staticmethod``, ``cached_property`` ..."""
    return [d.id if isinstance(d, ast.Name) else getattr(d, "attr", "") for d in node.decorator_list]


def _assigned_attributes(cls: ast.ClassDef) -> dict[str, list[tuple[ast.AST, ast.AST]]]:
    found: dict[str, list[tuple[ast.AST, ast.AST]]] = {}
    for method in cls.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) or not method.args.args:
            continue
        receiver = method.args.args[0].arg
        for statement in statements(method):
            if isinstance(statement, ast.Assign):
                targets, value = statement.targets, statement.value
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets, value = [statement.target], statement.value
            else:
                continue
            for target in targets:
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == receiver
                ):
                    found.setdefault(target.attr, []).append((method, value))
    return found
