"""Names to definitions: what the call sites of Python source lead to.

An abstract evaluation of expressions, insensitive to the order of statements: a variable may be anything that is
assigned to it anywhere in its scope. Calls are followed with what their arguments stand for, so that
``train(DDP(Net().to(device)))`` leads to ``Net.forward`` where ``train`` calls its parameter. What is not known stays
not known; samples will say.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Hashable, Iterable

from scalana.frontend.modules import Binding, Module, Modules, bindings_of, parameters
from scalana.frontend.python_source import Scope, statements
from scalana.frontend.values import (
    EMPTY,
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
)
from scalana.graphs.psg import VertexKind
from scalana.graphs.structure import NOTHING, UNKNOWN, Decision, FunctionStructure, Node, Target
from scalana.runtime.operations import BY_TORCH_FUNCTION

WIDTH = 8
"""Most values that an expression is followed with."""
NESTING = 24
"""Deepest chain of calls that is followed to find out what one expression stands for."""
DISTRIBUTED = "torch.distributed"
CALLS_ITS_ARGUMENT = frozenset(
    {"checkpoint", "spawn", "start_processes", "map", "starmap", "apply", "filter", "sorted", "min", "max", "reduce"}
)
"""External functions that call a function they are given, before they return."""
RETURNS_SELF = frozenset(
    "to cuda cpu xpu train eval half float double bfloat16 requires_grad_ apply share_memory type compile".split()
)
"""Methods of modules that return the module."""
_BUILTINS = frozenset(dir(builtins))
_PLAIN = frozenset({"print", "len", "isinstance", "range", "int", "float", "str", "repr", "type", "id", "hash", "open"})

Arguments = tuple[list[Values], dict[str, Values]]


class Resolver:
    """Decides about call sites. ``modules`` finds the user's files."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.interner = Interner()
        self._bindings: dict[Scope, dict[str, list[Binding]]] = {}
        self._memo: dict[Hashable, Values] = {}
        self._active: set[Hashable] = set()
        self._nesting = 0
        self._mro: dict[ClassValue, tuple[Value, ...]] = {}
        self._assigned: dict[ast.ClassDef, dict[str, list[tuple[ast.AST, ast.AST]]]] = {}
        self._methods: tuple[int, frozenset[str]] = (-1, frozenset())

    # the question that is asked

    def decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision:
        """What a call site in a function is, in a context (an :class:`Environment`, None for nothing known)."""
        call = node.call
        module = self.modules.load(function.place.file)
        if module is None or not isinstance(call, ast.Call):
            return UNKNOWN
        environment = context if isinstance(context, Environment) else EMPTY
        scope = function.source
        assert isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
        callees = self.evaluate(call.func, module, scope, environment)
        for callee in callees:
            operation = _operation(callee)
            if operation:
                return Decision(VertexKind.COMM, operation)
        targets: dict[Target, None] = {}
        arguments: Arguments | None = None
        for callee in callees:
            if arguments is None:
                arguments = self._arguments(call, module, scope, environment)
            targets.update(dict.fromkeys(self.targets(callee, *arguments)))
        if targets:
            return Decision(VertexKind.FUNCTION, targets=tuple(targets)[:WIDTH])
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            return UNKNOWN  # autograd: hooks and backward functions of the user's may follow
        if callees:
            return NOTHING
        return UNKNOWN if self._may_be_own(call.func, module, scope, environment) else NOTHING

    def entry(self, function: FunctionStructure) -> Environment:
        """The context of a function that is called from outside: a method knows the class it is defined in."""
        module = self.modules.load(function.place.file)
        source = function.source
        if module is None or not isinstance(source, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return EMPTY
        cls = module.outer.get(source)
        names = parameters(source)
        if isinstance(cls, ast.ClassDef) and names and "staticmethod" not in _decorators(source):
            value = self.interner.make(ClassValue, module, cls, EMPTY)
            receiver = value if "classmethod" in _decorators(source) else self.interner.make(Instance, value, EMPTY)
            return self.interner.environment({names[0][0]: (receiver,)})
        return EMPTY

    def targets(self, callee: Value, arguments: list[Values], keywords: dict[str, Values]) -> Iterable[Target]:
        """The functions that run when a value is called."""
        if isinstance(callee, FunctionValue):
            yield Target(callee.function, self._bind(callee, arguments, keywords))
        elif isinstance(callee, ClassValue):
            instance = self._instantiate(callee, arguments, keywords)
            for name in ("__init__", "__post_init__"):
                method = self._method(instance.cls, name, instance)
                if method is not None:
                    yield Target(method.function, self._bind(method, arguments, keywords))
        elif isinstance(callee, Instance):
            method = self._method(callee.cls, "__call__", callee) or self._method(callee.cls, "forward", callee)
            if method is not None:
                yield Target(method.function, self._bind(method, arguments, keywords))
        elif isinstance(callee, Result):
            for value in _union(callee.items):
                if not isinstance(value, External):
                    yield from self.targets(value, arguments, keywords)
        elif isinstance(callee, Items):
            for value in _union(callee.items):
                if isinstance(value, (Instance, Result)):
                    yield from self.targets(value, arguments, keywords)
        elif isinstance(callee, External) and callee.name.rpartition(".")[2] in CALLS_ITS_ARGUMENT:
            for value in _union([*arguments, *keywords.values()]):
                if isinstance(value, (FunctionValue, Instance)):
                    yield from self.targets(value, [], {})

    def _may_be_own(self, callee: ast.expr, module: Module, scope: Scope, environment: Environment) -> bool:
        """Whether a call to something not known could lead to the user's own code."""
        if not isinstance(callee, ast.Attribute):
            return True
        if callee.attr in self._method_names():
            return True
        return any(
            isinstance(value, Instance) and any(self._assignments(cls, callee.attr) for cls in self._classes(value.cls))
            for value in self.evaluate(callee.value, module, scope, environment)
        )

    def _method_names(self) -> frozenset[str]:
        if self._methods[0] != len(self.modules.by_file):
            names = {
                node.name
                for module in self.modules.by_file.values()
                if module is not None
                for node, outer in module.outer.items()
                if isinstance(outer, ast.ClassDef) and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            }
            self._methods = len(self.modules.by_file), frozenset(n for n in names if not n.startswith("__"))
        return self._methods[1]

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
        finally:
            self._active.discard(key)
            self._nesting -= 1
        self._memo[key] = values
        return values

    def _eval_Name(self, node: ast.Name, module: Module, scope: Scope, environment: Environment) -> Values:
        return self.lookup(node.id, module, scope, environment)

    def _eval_Attribute(self, node: ast.Attribute, module: Module, scope: Scope, environment: Environment) -> Values:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super":
            return self._super(node.attr, module, scope, environment)
        values = self.evaluate(node.value, module, scope, environment)
        return _union([self.attribute(value, node.attr) for value in values])

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
            return _union(found)
        arguments, keywords = self._arguments(node, module, scope, environment)
        if not callees and any(isinstance(value, Instance) for value in _union(arguments)):
            found.append((self.interner.make(Result, "", tuple(arguments)),))
        for callee in callees:
            if isinstance(callee, External) and callee.name == "builtins.getattr" and len(node.args) >= 2:
                name = node.args[1]
                if isinstance(name, ast.Constant) and isinstance(name.value, str) and arguments:
                    found.append(_union([self.attribute(value, name.value) for value in arguments[0]]))
                continue
            found.append(self.invoke(callee, arguments, keywords))
        return _union(found)

    def _eval_Subscript(self, node: ast.Subscript, module: Module, scope: Scope, environment: Environment) -> Values:
        found: list[Values] = []
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        for value in self.evaluate(node.value, module, scope, environment):
            if isinstance(node.slice, ast.Slice):
                found.append((value,))
            elif isinstance(value, Items) and index in value.keys and index is not None:
                found.append(value.items[value.keys.index(index)])
            elif isinstance(index, int) and not (isinstance(value, Items) and value.keys):
                found.append(self._at(value, index))
            else:
                found.append(self.element(value))
        return _union(found)

    def _eval_Await(self, node: ast.Await, module: Module, scope: Scope, environment: Environment) -> Values:
        return self.evaluate(node.value, module, scope, environment)

    def _eval_Starred(self, node: ast.Starred, module: Module, scope: Scope, environment: Environment) -> Values:
        return _union([self.element(value) for value in self.evaluate(node.value, module, scope, environment)])

    def _eval_NamedExpr(self, node: ast.NamedExpr, module: Module, scope: Scope, environment: Environment) -> Values:
        return self.evaluate(node.value, module, scope, environment)

    def _eval_IfExp(self, node: ast.IfExp, module: Module, scope: Scope, environment: Environment) -> Values:
        return _union([self.evaluate(part, module, scope, environment) for part in (node.body, node.orelse)])

    def _eval_BoolOp(self, node: ast.BoolOp, module: Module, scope: Scope, environment: Environment) -> Values:
        return _union([self.evaluate(part, module, scope, environment) for part in node.values])

    def _eval_BinOp(self, node: ast.BinOp, module: Module, scope: Scope, environment: Environment) -> Values:
        parts = _union([self.evaluate(part, module, scope, environment) for part in (node.left, node.right)])
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

    def _arguments(self, call: ast.Call, module: Module, scope: Scope, environment: Environment) -> Arguments:
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
                bindings = self._scope(current).get(name)
                if bindings is not None:
                    known = environment.get(name) if not isinstance(current, ast.Module) else None
                    return _union(
                        [known or (), *(self._bound(b, module, current, environment, known) for b in bindings)]
                    )
            current = module.outer.get(current)
        if not isinstance(scope, ast.Module) and module.tree is not None:
            return self.lookup(name, module, module.tree, EMPTY)
        for binding in self._scope(scope).get("*", ()) if module.tree is scope else ():
            values = self._imported(binding, module, name)
            if values and not isinstance(values[0], External):
                return values
        return (self.interner.make(External, "builtins." + name),) if name in _BUILTINS else ()

    def _scope(self, scope: Scope) -> dict[str, list[Binding]]:
        found = self._bindings.get(scope)
        if found is None:
            found = self._bindings[scope] = bindings_of(scope)
        return found

    def _bound(
        self, binding: Binding, module: Module, scope: Scope, environment: Environment, known: Values | None
    ) -> Values:
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
            values = _union([self.element(value) for value in values])
        elif kind == "entered":
            values = _union([self._entered(value) for value in values])
        elif kind == "appended":
            values = (self.interner.make(Items, (values,)),) if values else ()
        for position in binding.path:
            values = _union([self._at(value, position) for value in values])
        return values

    def _annotated(self, annotation: ast.AST, module: Module, scope: Scope, environment: Environment) -> Values:
        """Objects of the class that an annotation names, where that is the user's."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except (SyntaxError, ValueError):
                return ()
        if isinstance(annotation, ast.BinOp):
            return _union([self._annotated(p, module, scope, environment) for p in (annotation.left, annotation.right)])
        if isinstance(annotation, ast.Subscript):
            return self._annotated(annotation.slice, module, scope, environment)
        if not isinstance(annotation, (ast.Name, ast.Attribute)):
            return ()
        classes = self.evaluate(annotation, module, scope, environment)
        return tuple(self.interner.make(Instance, c, EMPTY) for c in classes if isinstance(c, ClassValue))

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
            bindings = self._scope(tree) if tree is not None else {}
            if tree is not None and (name in bindings or "*" in bindings):
                found = self.lookup(name, value.module, tree, EMPTY)
                if found:
                    return found
            submodule = self.modules.submodule(value.module, name)
            return (self.interner.make(ModuleValue, submodule),) if submodule is not None else ()
        if isinstance(value, External):
            return (self.interner.make(External, f"{value.name}.{name}"),)
        if isinstance(value, ClassValue):
            return self._class_attribute(value, name)
        if isinstance(value, Instance):
            return self._instance_attribute(value, name)
        if isinstance(value, Result):
            inside = [v for v in _union(value.items) if isinstance(v, (Instance, Result))]
            found = _union([self.attribute(v, name) for v in inside])
            if name == "module" and inside and not any(isinstance(v, (FunctionValue, Instance)) for v in found):
                return tuple(inside)
            own = tuple(v for v in found if not isinstance(v, External))
            return own or (self.interner.make(External, f"{value.name}.{name}"),)
        return ()

    def _class_attribute(self, cls: ClassValue, name: str) -> Values:
        method = self._method(cls, name, None)
        if method is not None:
            return (method,)
        if name == "apply" and any(isinstance(b, External) and b.name.endswith("Function") for b in self.mro(cls)):
            forward = self._method(cls, "forward", None)  # torch.autograd.Function; backward is called by autograd
            return (forward,) if forward is not None else ()
        for ancestor in self._classes(cls):
            bindings = self._scope(ancestor.node).get(name)
            if bindings:
                return _union(
                    [self._bound(b, ancestor.module, ancestor.node, ancestor.environment, None) for b in bindings]
                )
        return ()

    def _instance_attribute(self, instance: Instance, name: str) -> Values:
        method = self._method(instance.cls, name, instance)
        if method is not None:
            source = method.function.source
            if isinstance(source, ast.FunctionDef) and any("property" in d for d in _decorators(source)):
                return self.invoke(method, [], {})
            return (method,)
        found: list[Values] = []
        for cls in self._classes(instance.cls):
            for method_node, value in self._assignments(cls, name):
                assert isinstance(method_node, (ast.FunctionDef, ast.AsyncFunctionDef))
                bound: dict[str, Values] = dict(cls.environment.bindings)
                if method_node.name == "__init__":
                    bound.update(instance.environment.bindings)
                receiver = parameters(method_node)
                if receiver:
                    bound[receiver[0][0]] = (instance,)
                environment = self.interner.environment(bound)
                found.append(self.evaluate(value, cls.module, method_node, environment))
        if not any(found):
            found.append(self._class_attribute(instance.cls, name))
        if not any(found):
            found.append(instance.environment.get(name) or ())  # a field of a dataclass
        return _union(found)

    def _assignments(self, cls: ClassValue, name: str) -> list[tuple[ast.AST, ast.AST]]:
        """Values assigned to ``self.name`` in the methods of a class, with the method of each."""
        known = self._assigned.get(cls.node)
        if known is None:
            known = self._assigned[cls.node] = _assigned_attributes(cls.node)
        return known.get(name, [])

    def _method(self, cls: ClassValue, name: str, receiver: Instance | None) -> FunctionValue | None:
        for ancestor in self._classes(cls):
            method = self._own_method(ancestor, name, receiver or cls)
            if method is not None:
                return method
        return None

    def _own_method(self, cls: ClassValue, name: str, receiver: Instance | ClassValue) -> FunctionValue | None:
        for binding in reversed(self._scope(cls.node).get(name, ())):
            node = binding.node
            if binding.kind != "function" or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            decorators = _decorators(node)
            bound: Instance | ClassValue | None = receiver
            if "classmethod" in decorators:
                bound = receiver.cls if isinstance(receiver, Instance) else receiver
            elif "staticmethod" in decorators or isinstance(receiver, ClassValue):
                bound = None
            for value in self._bound(binding, cls.module, cls.node, cls.environment, None):
                if isinstance(value, FunctionValue):
                    return self.interner.make(FunctionValue, value.module, value.function, value.environment, bound)
        return None

    def mro(self, cls: ClassValue) -> tuple[Value, ...]:
        """A class and its bases, nearest first; bases that are not the user's by name."""
        if cls not in self._mro:
            self._mro[cls] = (cls,)  # circular bases end here
            found: list[Value] = [cls]
            for base in cls.node.bases:
                outer = cls.module.outer.get(cls.node, cls.module.tree)
                assert outer is not None
                for value in self.evaluate(base, cls.module, outer, cls.environment):
                    found.extend(self.mro(value) if isinstance(value, ClassValue) else [value])
            # Of a base that is reached twice the last one counts, as in Python's own order.
            self._mro[cls] = tuple(reversed(dict.fromkeys(reversed(found))))
        return self._mro[cls]

    def _classes(self, cls: ClassValue) -> list[ClassValue]:
        return [value for value in self.mro(cls) if isinstance(value, ClassValue)]

    def _super(self, name: str, module: Module, scope: Scope, environment: Environment) -> Values:
        method: Scope | None = scope
        while method is not None and not isinstance(module.outer.get(method), ast.ClassDef):
            method = module.outer.get(method)
        names = parameters(method) if method is not None else []
        if method is None or not names:
            return ()
        node = module.outer[method]
        assert isinstance(node, ast.ClassDef)
        receivers = [v for v in environment.get(names[0][0]) or () if isinstance(v, (Instance, ClassValue))]
        defining = self.interner.make(ClassValue, module, node, EMPTY)
        receiver: Instance | ClassValue = receivers[0] if receivers else self.interner.make(Instance, defining, EMPTY)
        cls = receiver.cls if isinstance(receiver, Instance) else receiver
        order = self.mro(cls)
        start = next((i for i, v in enumerate(order) if isinstance(v, ClassValue) and v.node is node), -1)
        if start < 0:
            order, start = self.mro(defining), 0
        for ancestor in order[start + 1 :]:
            if isinstance(ancestor, ClassValue):
                found = self._own_method(ancestor, name, receiver)
                if found is not None:
                    return (found,)
        return tuple(self.interner.make(External, f"{v.name}.{name}") for v in order if isinstance(v, External))[:1]

    def invoke(self, callee: Value, arguments: list[Values], keywords: dict[str, Values]) -> Values:
        """What a call may return."""
        if isinstance(callee, FunctionValue):
            environment = self._bind(callee, arguments, keywords)
            return self._guarded(("returns", callee.function, environment), lambda: self._returns(callee, environment))
        if isinstance(callee, ClassValue):
            return (self._instantiate(callee, arguments, keywords),)
        if isinstance(callee, Instance):
            method = self._method(callee.cls, "__call__", callee) or self._method(callee.cls, "forward", callee)
            return self.invoke(method, arguments, keywords) if method is not None else ()
        if isinstance(callee, Result):
            inside = [v for v in _union(callee.items) if not isinstance(v, (External, Items))]
            found = _union([self.invoke(value, arguments, keywords) for value in inside])
            return found or (self.interner.make(Result, callee.name),)
        if isinstance(callee, External):
            return self._external(callee.name, arguments, keywords)
        return ()

    def _external(self, name: str, arguments: list[Values], keywords: dict[str, Values]) -> Values:
        builtin = name.removeprefix("builtins.")
        make = self.interner.make
        if builtin != name:
            if builtin == "enumerate" and arguments:
                elements = _union([self.element(value) for value in arguments[0]])
                return (make(Items, ((make(Items, ((), elements)),),)),) if elements else ()
            if builtin == "zip":
                parts = tuple(_union([self.element(value) for value in values]) for values in arguments)
                return (make(Items, ((make(Items, parts),),)),) if any(parts) else ()
            if builtin in ("list", "tuple", "set", "reversed", "sorted", "iter", "dict", "frozenset") and arguments:
                return arguments[0]
            if builtin == "next" and arguments:
                return _union([self.element(value) for value in arguments[0]])
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
            returned.append((self.interner.make(Items, (_union(yielded),)),))
        return _union(returned)

    def _instantiate(self, cls: ClassValue, arguments: list[Values], keywords: dict[str, Values]) -> Instance:
        method = self._method(cls, "__init__", self.interner.make(Instance, cls, EMPTY))
        if method is not None:
            names = [name for name, _ in parameters(method.function.source)][1:]  # type: ignore[arg-type]
        else:
            names = [
                s.target.id
                for ancestor in reversed(self._classes(cls))
                for s in ancestor.node.body
                if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
            ]
        bound = dict(zip(names, arguments, strict=False))
        bound.update(keywords)
        return self.interner.make(Instance, cls, self.interner.environment(bound))

    def _bind(self, callee: FunctionValue, arguments: list[Values], keywords: dict[str, Values]) -> Environment:
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
            return _union(value.items)
        if isinstance(value, Result):
            # Sequential(*blocks) is iterated over like blocks; a list of requests holds requests.
            inside = _union(value.items)
            flat = _union([self.element(v) if isinstance(v, Items) else (v,) for v in inside])
            return flat or (value,)
        return ()

    def _at(self, value: Value, index: int) -> Values:
        items = value.items if isinstance(value, (Items, Result)) else ()
        if len(items) > 1 and -len(items) <= index < len(items):
            return items[index]
        return self.element(value)

    def _entered(self, value: Value) -> Values:
        if isinstance(value, Instance):
            method = self._method(value.cls, "__enter__", value)
            return self.invoke(method, [], {}) if method is not None else (value,)
        return self.element(value) if isinstance(value, Items) else (value,)

    def _of_items(self, value: Items, method: str) -> Values:
        """What a method of a list or dictionary returns."""
        elements = _union(value.items)
        if method in ("values", "copy"):
            return (value,)
        if method == "items" and elements:
            pair = self.interner.make(Items, ((), elements))
            return (self.interner.make(Items, ((pair,),)),)
        return elements if method in ("get", "pop", "popleft", "setdefault", "popitem") else ()


def _operation(callee: Value) -> int:
    """The code of the communication operation that an external function is, 0 if it is none."""
    if not isinstance(callee, External) or not callee.name.startswith(DISTRIBUTED + "."):
        return 0
    *path, last = callee.name.removeprefix(DISTRIBUTED + ".").split(".")
    if last == "wait":  # of a request, not of a store
        return BY_TORCH_FUNCTION[last].code if any(part in BY_TORCH_FUNCTION for part in path) else 0
    for suffix in ("", "_autograd", "_tensor"):
        row = BY_TORCH_FUNCTION.get(last.removesuffix(suffix))
        if row is not None:
            return row.code
    return 0


def _behaves(value: Value) -> bool:
    """Whether what a value is given to may behave like it."""
    if isinstance(value, (Instance, FunctionValue, ClassValue)):
        return True
    return isinstance(value, (Items, Result)) and any(_behaves(v) for v in _union(value.items))


def _union(parts: Iterable[Values]) -> Values:
    return tuple(dict.fromkeys(value for part in parts for value in part))[:WIDTH]


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
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
