"""What expressions may stand for.

An abstract evaluation, insensitive to the order of statements: a variable may be anything that is assigned to it
anywhere in its scope. Calls are followed with what their arguments stand for. What is not known stays not known.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Hashable

from scalana.frontend.python.communication import communicates
from scalana.frontend.python.modules import Binding, Module, Modules, bindings_of, parameters
from scalana.frontend.python.nodes import Scope
from scalana.frontend.python.objects import Objects
from scalana.frontend.python.source import statements
from scalana.frontend.python.values import (
    EMPTY,
    WIDTH,
    ClassValue,
    Environment,
    External,
    FunctionValue,
    Instance,
    Interner,
    Items,
    ModuleValue,
    Result,
    Value,
    Values,
    union,
)

NESTING = 24
"""Deepest chain of calls that is followed to find out what one expression stands for."""
RETURNS_SELF = frozenset(
    "to cuda cpu xpu train eval half float double bfloat16 requires_grad_ apply share_memory type compile".split()
)
"""Methods of modules that return the module."""
_BUILTINS = frozenset(dir(builtins))
_PLAIN = frozenset({"print", "len", "isinstance", "range", "int", "float", "str", "repr", "type", "id", "hash", "open"})

Arguments = tuple[list[Values], dict[str, Values]]


class Evaluator:
    """Evaluates expressions. ``modules`` finds the user's files."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.interner = Interner()
        self.objects = Objects(self)
        self._bindings: dict[Scope, dict[str, list[Binding]]] = {}
        self._memo: dict[Hashable, Values] = {}
        self._active: set[Hashable] = set()
        self._nesting = 0

    # expressions

    def evaluate(self, node: ast.AST, module: Module, scope: Scope, environment: Environment) -> Values:
        """What an expression may stand for."""
        method = getattr(self, "_eval_" + type(node).__name__, None)
        if method is None:
            return ()
        return self._guarded(("expression", node, environment), lambda: method(node, module, scope, environment))

    def _guarded(self, key: Hashable, compute: object) -> Values:
        """Remember results; a value that depends on itself is not known, nor is one that is too far away."""
        if key in self._memo:
            return self._memo[key]
        if key in self._active or self._nesting > 8 * NESTING:
            return ()
        self._active.add(key)
        self._nesting += 1
        try:
            values: Values = tuple(dict.fromkeys(compute()))[:WIDTH]  # type: ignore[operator]
        except RecursionError:
            return ()  # too far away for the interpreter's stack, which others may have filled before
        finally:
            self._active.discard(key)
            self._nesting -= 1
        self._memo[key] = values
        return values

    def _eval_Name(self, node: ast.Name, module: Module, scope: Scope, environment: Environment) -> Values:
        return self.lookup(node.id, module, scope, environment)

    def _eval_Attribute(self, node: ast.Attribute, module: Module, scope: Scope, environment: Environment) -> Values:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super":
            return self.objects.inherited(node.attr, module, scope, environment)
        values = self.evaluate(node.value, module, scope, environment)
        return union([self.attribute(value, node.attr) for value in values])

    def _eval_Call(self, node: ast.Call, module: Module, scope: Scope, environment: Environment) -> Values:
        found: list[Values] = []
        func = node.func
        callees = self.evaluate(func, module, scope, environment)
        if isinstance(func, ast.Attribute):
            receivers = self.evaluate(func.value, module, scope, environment)
            if func.attr in RETURNS_SELF:
                found.append(tuple(v for v in receivers if isinstance(v, (Instance, Result, Items))))
            for receiver in receivers:
                if isinstance(receiver, Items):
                    found.append(self._of_items(receiver, func.attr))
        if not callees and found:
            return union(found)
        arguments, keywords = self.arguments(node, module, scope, environment)
        if not callees and any(isinstance(value, Instance) for value in union(arguments)):
            found.append((self.interner.make(Result, "", tuple(arguments)),))
        for callee in callees:
            if isinstance(callee, External) and callee.name == "builtins.getattr" and len(node.args) >= 2:
                name = node.args[1]
                if isinstance(name, ast.Constant) and isinstance(name.value, str) and arguments:
                    found.append(union([self.attribute(value, name.value) for value in arguments[0]]))
                continue
            found.append(self.invoke(callee, arguments, keywords))
        return union(found)

    def _eval_Subscript(self, node: ast.Subscript, module: Module, scope: Scope, environment: Environment) -> Values:
        found: list[Values] = []
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        for value in self.evaluate(node.value, module, scope, environment):
            if isinstance(value, Instance):
                found.append(self._called(value, "__getitem__"))
            elif isinstance(node.slice, ast.Slice):
                found.append((value,))
            elif isinstance(value, Items) and index in value.keys and index is not None:
                found.append(value.items[value.keys.index(index)])
            elif isinstance(index, int) and not (isinstance(value, Items) and value.keys):
                found.append(self._at(value, index))
            else:
                found.append(self.element(value))
        return union(found)

    def _eval_Await(self, node: ast.Await, module: Module, scope: Scope, environment: Environment) -> Values:
        return self.evaluate(node.value, module, scope, environment)

    def _eval_Starred(self, node: ast.Starred, module: Module, scope: Scope, environment: Environment) -> Values:
        return union([self.element(value) for value in self.evaluate(node.value, module, scope, environment)])

    def _eval_NamedExpr(self, node: ast.NamedExpr, module: Module, scope: Scope, environment: Environment) -> Values:
        return self.evaluate(node.value, module, scope, environment)

    def _eval_IfExp(self, node: ast.IfExp, module: Module, scope: Scope, environment: Environment) -> Values:
        return union([self.evaluate(part, module, scope, environment) for part in (node.body, node.orelse)])

    def _eval_BoolOp(self, node: ast.BoolOp, module: Module, scope: Scope, environment: Environment) -> Values:
        return union([self.evaluate(part, module, scope, environment) for part in node.values])

    def _eval_BinOp(self, node: ast.BinOp, module: Module, scope: Scope, environment: Environment) -> Values:
        parts = union([self.evaluate(part, module, scope, environment) for part in (node.left, node.right)])
        return tuple(value for value in parts if isinstance(value, Items))  # lists added, or repeated

    def _eval_Lambda(self, node: ast.Lambda, module: Module, scope: Scope, environment: Environment) -> Values:
        function = module.by_node.get(node)
        if function is None:
            structure = module.structure
            if structure is None or structure.find("<lambda>", node.lineno, node.lineno, node.col_offset) is None:
                return ()
            module.by_node.update((f.source, f) for f in structure.functions if isinstance(f.source, ast.Lambda))
            function = module.by_node.get(node)
            if function is None:
                return ()
        module.outer[node] = scope
        return (self.interner.make(FunctionValue, module, function, environment),)

    def _eval_List(self, node: ast.List, module: Module, scope: Scope, environment: Environment) -> Values:
        items = tuple(self.evaluate(element, module, scope, environment) for element in node.elts[:64])
        return (self.interner.make(Items, items),) if any(items) else ()

    _eval_Tuple = _eval_List
    _eval_Set = _eval_List

    def _eval_Dict(self, node: ast.Dict, module: Module, scope: Scope, environment: Environment) -> Values:
        items = tuple(self.evaluate(value, module, scope, environment) for value in node.values[:64])
        keys = tuple(key.value if isinstance(key, ast.Constant) else None for key in node.keys[:64])
        return (self.interner.make(Items, items, keys),) if any(items) else ()

    def _eval_ListComp(self, node: ast.ListComp, module: Module, scope: Scope, environment: Environment) -> Values:
        values = self.evaluate(node.elt, module, scope, environment)
        return (self.interner.make(Items, (values,)),) if values else ()

    _eval_SetComp = _eval_ListComp
    _eval_GeneratorExp = _eval_ListComp

    def _eval_DictComp(self, node: ast.DictComp, module: Module, scope: Scope, environment: Environment) -> Values:
        values = self.evaluate(node.value, module, scope, environment)
        return (self.interner.make(Items, (values,)),) if values else ()

    def arguments(self, call: ast.Call, module: Module, scope: Scope, environment: Environment) -> Arguments:
        """What the arguments of a call may stand for; ``*args`` and ``**kwargs`` are spread out where known."""
        arguments: list[Values] = []
        for argument in call.args:
            values = self.evaluate(argument, module, scope, environment)
            if isinstance(argument, ast.Starred):
                given = self.evaluate(argument.value, module, scope, environment)
                lists = [value for value in given if isinstance(value, Items) and not value.keys]
                if len(lists) == 1:
                    arguments.extend(lists[0].items)
                    continue
            arguments.append(values)
        keywords: dict[str, Values] = {}
        for keyword in call.keywords:
            values = self.evaluate(keyword.value, module, scope, environment)
            if keyword.arg is not None:
                keywords[keyword.arg] = values
                continue
            for value in values:
                if isinstance(value, Items):
                    keywords.update((k, v) for k, v in zip(value.keys, value.items, strict=False) if isinstance(k, str))
        return arguments, keywords

    # names

    def lookup(self, name: str, module: Module, scope: Scope, environment: Environment) -> Values:
        """What a name stands for in a scope."""
        current: Scope | None = scope
        while current is not None:
            if current is scope or not isinstance(current, ast.ClassDef):
                bindings = self.scope(current).get(name)
                if bindings is not None:
                    known = environment.get(name) if not isinstance(current, ast.Module) else None
                    return union([known or (), *(self.bound(b, module, current, environment, known) for b in bindings)])
            current = module.outer.get(current)
        if not isinstance(scope, ast.Module) and module.tree is not None:
            return self.lookup(name, module, module.tree, EMPTY)
        for binding in self.scope(scope).get("*", ()) if module.tree is scope else ():
            values = self._imported(binding, module, name)
            if values and not isinstance(values[0], External):
                return values
        return (self.interner.make(External, "builtins." + name),) if name in _BUILTINS else ()

    def scope(self, scope: Scope) -> dict[str, list[Binding]]:
        """What the names of one scope are bound to."""
        found = self._bindings.get(scope)
        if found is None:
            found = self._bindings[scope] = bindings_of(scope)
        return found

    def bound(
        self, binding: Binding, module: Module, scope: Scope, environment: Environment, known: Values | None
    ) -> Values:
        """What a name stands for by one of its bindings; ``known`` is what a caller bound it to."""
        node, kind = binding.node, binding.kind
        if isinstance(scope, ast.Module):
            environment = EMPTY
        if kind in ("import", "from", "star"):
            return self._imported(binding, module, binding.name)
        if kind == "function":
            assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            return self._guarded(
                ("decorated", node, environment), lambda: self._decorated(node, module, scope, environment)
            )
        if kind == "class":
            assert isinstance(node, ast.ClassDef)
            return (self.interner.make(ClassValue, module, node, environment),)
        if kind in ("parameter", "annotation"):
            annotation = node.annotation if isinstance(node, ast.arg) else node
            if known or annotation is None:
                return ()
            return self._annotated(annotation, module, scope, environment)
        values = self.evaluate(node, module, scope, environment)
        if kind == "element":
            values = union([self.element(value) for value in values])
        elif kind == "entered":
            values = union([self._entered(value) for value in values])
        elif kind == "appended":
            values = (self.interner.make(Items, (values,)),) if values else ()
        for position in binding.path:
            values = union([self._at(value, position) for value in values])
        return values

    def _annotated(self, annotation: ast.AST, module: Module, scope: Scope, environment: Environment) -> Values:
        """Objects of the class that an annotation names, where that is the user's or of a library that communicates."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except (SyntaxError, ValueError):
                return ()
        if isinstance(annotation, ast.BinOp):
            return union([self._annotated(p, module, scope, environment) for p in (annotation.left, annotation.right)])
        if isinstance(annotation, ast.Subscript):
            return self._annotated(annotation.slice, module, scope, environment)
        if not isinstance(annotation, (ast.Name, ast.Attribute)):
            return ()
        classes = self.evaluate(annotation, module, scope, environment)
        own = (self.interner.make(Instance, c, EMPTY) for c in classes if isinstance(c, ClassValue))
        known = (c.name for c in classes if isinstance(c, External) and communicates(c.name))
        return (*own, *(self.interner.make(Result, name) for name in known))

    def _imported(self, binding: Binding, module: Module, name: str) -> Values:
        node = binding.node
        if isinstance(node, ast.Import):
            found = self.modules.absolute(name)
            if found is not None:
                return (self.interner.make(ModuleValue, found),)
            return (self.interner.make(External, name),)
        assert isinstance(node, ast.ImportFrom)
        source = node.module or ""
        origin = self.modules.relative(module, node.level, source) if node.level else self.modules.absolute(source)
        if origin is None:
            dots = "." * node.level
            return (self.interner.make(External, f"{dots}{source}.{name}" if source else f"{dots}{name}"),)
        return self.attribute(self.interner.make(ModuleValue, origin), name)

    def _decorated(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, module: Module, scope: Scope, environment: Environment
    ) -> Values:
        function = module.by_node.get(node)
        if function is None:
            return ()
        values: Values = (self.interner.make(FunctionValue, module, function, environment),)
        for decorator in reversed(node.decorator_list):
            for callee in self.evaluate(decorator, module, scope, environment):
                if isinstance(callee, (FunctionValue, ClassValue)):
                    # Of a decorator that returns what it was given, or nothing known, the function stays.
                    values = self.invoke(callee, [values], {}) or values
        return values

    # values

    def attribute(self, value: Value, name: str) -> Values:
        """What an attribute of a value may stand for."""
        return self._guarded(("attribute", value, name), lambda: self._attribute(value, name))

    def _attribute(self, value: Value, name: str) -> Values:
        if isinstance(value, ModuleValue):
            tree = value.module.tree
            bindings = self.scope(tree) if tree is not None else {}
            if tree is not None and (name in bindings or "*" in bindings):
                found = self.lookup(name, value.module, tree, EMPTY)
                if found:
                    return found
            submodule = self.modules.submodule(value.module, name)
            return (self.interner.make(ModuleValue, submodule),) if submodule is not None else ()
        if isinstance(value, External):
            return (self.interner.make(External, f"{value.name}.{name}"),)
        if isinstance(value, ClassValue):
            return self.objects.class_attribute(value, name)
        if isinstance(value, Instance):
            return self.objects.instance_attribute(value, name)
        if isinstance(value, Result):
            inside = [v for v in union(value.items) if isinstance(v, (Instance, Result))]
            found = union([self.attribute(v, name) for v in inside])
            if name == "module" and inside and not any(isinstance(v, (FunctionValue, Instance)) for v in found):
                return tuple(inside)
            own = tuple(v for v in found if not isinstance(v, External))
            return own or (self.interner.make(External, f"{value.name}.{name}"),)
        return ()

    def invoke(self, callee: Value, arguments: list[Values], keywords: dict[str, Values]) -> Values:
        """What a call may return."""
        if isinstance(callee, FunctionValue):
            environment = self.bind(callee, arguments, keywords)
            return self._guarded(("returns", callee.function, environment), lambda: self._returns(callee, environment))
        if isinstance(callee, ClassValue):
            return (self.objects.instantiate(callee, arguments, keywords),)
        if isinstance(callee, Instance):
            method = self.objects.method(callee.cls, "__call__", callee) or self.objects.method(
                callee.cls, "forward", callee
            )
            return self.invoke(method, arguments, keywords) if method is not None else ()
        if isinstance(callee, Result):
            inside = [v for v in union(callee.items) if not isinstance(v, (External, Items))]
            found = union([self.invoke(value, arguments, keywords) for value in inside])
            return found or (self.interner.make(Result, callee.name),)
        if isinstance(callee, External):
            return self._external(callee.name, arguments, keywords)
        return ()

    def _external(self, name: str, arguments: list[Values], keywords: dict[str, Values]) -> Values:
        builtin = name.removeprefix("builtins.")
        make = self.interner.make
        if builtin != name:
            if builtin == "enumerate" and arguments:
                elements = union([self.element(value) for value in arguments[0]])
                return (make(Items, ((make(Items, ((), elements)),),)),) if elements else ()
            if builtin == "zip":
                parts = tuple(union([self.element(value) for value in values]) for values in arguments)
                return (make(Items, ((make(Items, parts),),)),) if any(parts) else ()
            if builtin in ("list", "tuple", "set", "reversed", "sorted", "iter", "dict", "frozenset") and arguments:
                return arguments[0]
            if builtin == "next" and arguments:
                return union([self.element(value) for value in arguments[0]])
            if builtin in _PLAIN:
                return ()
        given = (*arguments, *keywords.values())
        items = tuple(tuple(v for v in values if _behaves(v)) for values in given)
        return (make(Result, name, items if any(items) else ()),)

    def _returns(self, callee: FunctionValue, environment: Environment) -> Values:
        source = callee.function.source
        if isinstance(source, ast.Lambda):
            return self.evaluate(source.body, callee.module, source, environment)
        if not isinstance(source, (ast.FunctionDef, ast.AsyncFunctionDef)) or self._nesting > NESTING:
            return ()
        returned: list[Values] = []
        yielded: list[Values] = []
        for statement in statements(source):
            if isinstance(statement, ast.Return) and statement.value is not None:
                returned.append(self.evaluate(statement.value, callee.module, source, environment))
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield) and statement.value.value:
                yielded.append(self.evaluate(statement.value.value, callee.module, source, environment))
        if any(yielded):
            returned.append((self.interner.make(Items, (union(yielded),)),))
        return union(returned)

    def bind(self, callee: FunctionValue, arguments: list[Values], keywords: dict[str, Values]) -> Environment:
        """The environment in which a function runs when it is called with arguments."""
        bound = dict(callee.environment.bindings)
        source = callee.function.source
        if not isinstance(source, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return self.interner.environment(bound)
        if callee.receiver is not None:
            arguments = [(callee.receiver,), *arguments]
        positional = [argument.arg for argument in (*source.args.posonlyargs, *source.args.args)]
        for name, _ in parameters(source):
            bound.pop(name, None)
        bound.update(zip(positional, arguments, strict=False))
        rest = arguments[len(positional) :]
        if source.args.vararg is not None and any(rest):
            bound[source.args.vararg.arg] = (self.interner.make(Items, tuple(rest)),)
        named = {*positional, *(argument.arg for argument in source.args.kwonlyargs)}
        bound.update((name, values) for name, values in keywords.items() if name in named)
        others = {name: values for name, values in keywords.items() if name not in named and values}
        if source.args.kwarg is not None and others:
            bound[source.args.kwarg.arg] = (self.interner.make(Items, tuple(others.values()), tuple(others)),)
        return self.interner.environment(bound)

    def element(self, value: Value) -> Values:
        """What iterating over a value gives."""
        if isinstance(value, Items):
            return union(value.items)
        if isinstance(value, Result):
            # Sequential(*blocks) is iterated over like blocks; a list of requests holds requests.
            inside = union(value.items)
            flat = union([self.element(v) if isinstance(v, Items) else (v,) for v in inside])
            return flat or (value,)
        if isinstance(value, Instance):
            given = union([self._called(value, name) for name in ("__iter__", "__aiter__")])
            own = self._called(value, "__next__") or self._called(value, "__anext__") if value in given else ()
            return union([own, *(self.element(v) for v in given if v is not value)])
        return ()

    def _called(self, value: Instance, name: str) -> Values:
        """What a method without arguments of an object returns; () where its class has none."""
        method = self.objects.method(value.cls, name, value)
        return self.invoke(method, [], {}) if method is not None else ()

    def _at(self, value: Value, index: int) -> Values:
        items = value.items if isinstance(value, (Items, Result)) else ()
        if len(items) > 1 and -len(items) <= index < len(items):
            return items[index]
        return self.element(value)

    def _entered(self, value: Value) -> Values:
        if isinstance(value, Instance):
            return self._called(value, "__enter__") or self._called(value, "__aenter__") or (value,)
        return self.element(value) if isinstance(value, Items) else (value,)

    def _of_items(self, value: Items, method: str) -> Values:
        """What a method of a list or dictionary returns."""
        elements = union(value.items)
        if method in ("values", "copy"):
            return (value,)
        if method == "items" and elements:
            pair = self.interner.make(Items, ((), elements))
            return (self.interner.make(Items, ((pair,),)),)
        return elements if method in ("get", "pop", "popleft", "setdefault", "popitem") else ()


def _behaves(value: Value) -> bool:
    """Whether what a value is given to may behave like it."""
    if isinstance(value, (Instance, FunctionValue, ClassValue)):
        return True
    return isinstance(value, (Items, Result)) and any(_behaves(v) for v in union(value.items))
