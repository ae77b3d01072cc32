"""Operators of modules that export cannot capture: symbolic tracing, around what cannot be traced.

A module whose control flow depends on values is left whole: its children are traced one by one, with the inputs that
they get where the module runs as far as them.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from scalana.frontend.models.costs import Cost, Costs, dtype_of, shape_of, tensor_of
from scalana.frontend.models.exported import scopes_of
from scalana.frontend.models.frames import Frame, class_name, frames_below, frames_of_text, place_of, raised_in
from scalana.frontend.models.operators import UNKNOWN, Operator, Scope
from scalana.frontend.models.reasons import reason

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


class _Unknown:
    """A value that is not known."""


@dataclass(slots=True)
class Symbolic:
    """Traces the modules of one model."""

    model: Any
    costs: Costs
    operators: list[Operator] = field(default_factory=list)
    whole: dict[str, str] = field(default_factory=dict)
    """Qualified names of the modules that were not looked into, and why."""
    _calls: dict[str, int] = field(default_factory=dict)

    def trace(self, module: Any, path: str, inputs: Inputs | None, around: tuple[Scope, ...]) -> None:
        """Add the operators of a module that is not called by one that was traced."""
        here = (*around, self._scope(path, module, None))
        graph = self._graph(module, path)
        if graph is None:
            self._left_whole(module, path, inputs, here, ())
        else:
            self._run(graph, module, path, inputs, here)

    def _scope(self, path: str, module: Any, site: Any) -> Scope:
        self._calls[path] = self._calls.get(path, 0) + 1
        return Scope(f"{path}@{self._calls[path]}", path, class_name(type(module)), site=site)

    def _graph(self, module: Any, path: str) -> Any:
        """The graph of a module, modules in it left whole until the rest can be traced; None if it is itself one."""
        import torch

        if isinstance(module, torch.fx.GraphModule):
            return module.graph
        names = {id(below): joined(path, name) for name, below in module.named_modules()}
        while path not in self.whole:
            try:
                tracer = _tracer(self, path, sys._getframe())
                graph = tracer.trace(module)
                self._calls = tracer.counts
                return graph
            except Exception as error:
                culprit, frame = raised_in(error, names, path)
                culprit = path if culprit in self.whole else culprit
                self.whole[culprit] = reason(error, frame)
        return None

    def _run(self, graph: Any, module: Any, path: str, inputs: Inputs | None, here: tuple[Scope, ...]) -> None:
        """Add the operators of a graph, run on fake tensors as far as that goes."""
        from torch.fx.node import map_arg

        values: dict[Any, Any] = {}
        sources: dict[Any, tuple[int, ...]] = {}
        given = _placeholders(graph, module, inputs)
        for node in graph.nodes:
            read = tuple(dict.fromkeys(number for used in node.all_input_nodes for number in sources.get(used, ())))
            cost, value = Cost(), _Unknown
            if node.op == "placeholder":
                value = given.get(node.target, _Unknown)
            elif node.op == "get_attr":
                value = operator.attrgetter(node.target)(module)
            elif node.op != "output":
                args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda used: values[used])
                known = all(values[used] is not _Unknown for used in node.all_input_nodes)
                if node.op == "call_module":
                    below = module.get_submodule(node.target)
                    before = len(self.operators)
                    name = joined(path, node.target)
                    value = self._called(node, below, name, (args, kwargs) if known else None, here, read)
                    if len(self.operators) > before:
                        read = (before if name in self.whole else len(self.operators) - 1,)
                else:
                    cost, value = self._call(node, args, kwargs) if known else (cost, value)
                    tensor = None if value is _Unknown else tensor_of(value)
                    if node.target is not operator.getitem and (value is _Unknown or tensor is not None):
                        self._add(node, tensor, cost, here, read)
                        read = (len(self.operators) - 1,)
            values[node], sources[node] = value, read

    def _call(self, node: Any, args: Any, kwargs: Any) -> tuple[Cost, Any]:
        function = node.target
        if node.op == "call_method":
            function, args = getattr(args[0], node.target), args[1:]
        try:
            return self.costs.run(function, args, kwargs)
        except Exception:  # what asks for data
            return Cost(), _Unknown

    def _called(
        self, node: Any, module: Any, path: str, inputs: Inputs | None, here: tuple[Scope, ...], read: tuple[int, ...]
    ) -> Any:
        """A module that the tracer left whole, or that a traced graph calls."""
        scopes = here + _scopes(node)
        if path not in self.whole:  # a graph that was traced before
            self.trace(module, path, inputs, scopes)
            return self._value(module, inputs)[1]
        scope = self._scope(path, module, place_of(_frames(node), ""))
        return self._left_whole(module, path, inputs, (*scopes, scope), read)

    def _left_whole(
        self, module: Any, path: str, inputs: Inputs | None, here: tuple[Scope, ...], read: tuple[int, ...]
    ) -> Any:
        """A module that was not looked into: as one, if it runs without data, else its modules, as they are written.

        Returns:
            What it returns, where that is known.
        """
        cost, value = self._value(module, inputs)
        tensor = None if value is _Unknown else tensor_of(value)
        self.operators.append(Operator("", here, flops=cost.flops, bytes=cost.bytes, inputs=read))
        if tensor is not None:
            self.operators[-1].shape, self.operators[-1].dtype = shape_of(tensor), dtype_of(tensor)
        if cost.flops <= UNKNOWN:
            seen = self._inputs_of_children(module, inputs)
            for name, child in _called_children(module):
                self.trace(child, joined(path, name), seen.get(id(child)), here)
        return value

    def _value(self, module: Any, inputs: Inputs | None) -> tuple[Cost, Any]:
        if inputs is None:
            return Cost(), _Unknown
        try:
            return self.costs.run(module, *inputs)
        except Exception:
            return Cost(), _Unknown

    def _inputs_of_children(self, module: Any, inputs: Inputs | None) -> dict[int, Inputs]:
        """What children are first called with, as far as a module runs without data."""
        seen: dict[int, Inputs] = {}
        if inputs is None:
            return seen

        def note(child: Any, args: Any, kwargs: Any) -> None:
            seen.setdefault(id(child), (args, kwargs))

        hooks = [child.register_forward_pre_hook(note, with_kwargs=True) for _, child in _called_children(module)]
        try:
            self._value(module, inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return seen

    def _add(self, node: Any, tensor: Any, cost: Cost, here: tuple[Scope, ...], read: tuple[int, ...]) -> None:
        name = _name(node)
        shape = None if tensor is None else shape_of(tensor)
        dtype = "" if tensor is None else dtype_of(tensor)
        scopes = here + _scopes(node)
        place = place_of(_frames(node), name)
        self.operators.append(Operator(name, scopes, place, shape, dtype, cost.flops, cost.bytes, read))


def _called_children(module: Any) -> Iterator[tuple[str, Any]]:
    """The modules in one, by name; of lists and dictionaries of modules, which are never called, those in them."""
    import torch

    for name, child in module.named_children():
        if type(child).forward is torch.nn.Module.forward:
            yield from ((joined(name, below), inner) for below, inner in _called_children(child))
        else:
            yield name, child


def joined(path: str, name: str) -> str:
    """The qualified name of a module in a module."""
    return f"{path}.{name}" if path and name else path or name


def _scopes(node: Any) -> tuple[Scope, ...]:
    """Modules around a node, inside the one that was traced: noted by the tracer here, or by whoever made a graph."""
    noted: tuple[Scope, ...] | None = node.meta.get("scalana_scopes")
    if noted is not None:
        return noted
    found = [scope for scope in scopes_of(node, _frames(node)) if scope.name]
    return tuple(scope for scope in found if node.op != "call_module" or scope.name != node.target)


def _frames(node: Any) -> list[Frame]:
    found: list[Frame] | None = node.meta.get("scalana_frames")
    return frames_of_text(node.stack_trace) if found is None else found


def _name(node: Any) -> str:
    """``linear``, ``Tensor.view``, ``operator.add``: as it is written in the source, nearly."""
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    module = str(getattr(node.target, "__module__", None) or "").lstrip("_")
    name = getattr(node.target, "__name__", str(node.target))
    return f"operator.{name}" if module == "operator" else name


def _placeholders(graph: Any, module: Any, inputs: Inputs | None) -> dict[str, Any]:
    """Values of the inputs of a graph by name: those given, and defaults of the others where any are given."""
    if inputs is None:
        return {}
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    found = {node.target: node.args[0] for node in nodes if node.args}
    found.update(zip((node.target for node in nodes), inputs[0], strict=False))
    found.update(inputs[1])
    return found


def _tracer(symbolic: Symbolic, path: str, above: FrameType) -> Any:
    """A tracer that goes into every module but those to leave whole, and notes modules and lines itself: what torch
    notes of them differs between its versions."""
    import torch

    class Tracer(torch.fx.Tracer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scopes: list[Scope] = []
            self.counts = dict(symbolic._calls)

        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return joined(path, module_qualified_name) in symbolic.whole

        def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
            name = self.path_of_module(m)
            if self.is_leaf_module(m, name):
                return super().call_module(m, forward, args, kwargs)
            name = joined(path, name)
            self.counts[name] = self.counts.get(name, 0) + 1
            site = place_of(self._frames(), "")
            self.scopes.append(Scope(f"{name}@{self.counts[name]}", name, class_name(type(m)), site=site))
            try:
                return super().call_module(m, forward, args, kwargs)
            finally:
                self.scopes.pop()

        def create_node(self, *args: Any, **kwargs: Any) -> Any:
            node = super().create_node(*args, **kwargs)
            node.meta["scalana_scopes"] = tuple(self.scopes)
            node.meta["scalana_frames"] = self._frames()
            return node

        def _frames(self) -> list[Frame]:
            found = frames_below(sys._getframe(1), above)
            return [frame for frame in found if frame[0] != __file__]

    return Tracer()
