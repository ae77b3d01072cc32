"""Operators of a ``torch.export.ExportedProgram``: what PyTorch itself captured, with modules, lines and shapes."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from scalana.frontend.models.costs import Cost, Costs, dtype_of, shape_of, tensor_of
from scalana.frontend.models.frames import Frame, class_name, frames_of_text, place_of, sites
from scalana.frontend.models.operators import Operator, Scope
from scalana.graphs.structure.psg import Place, VertexKind

_CHECKS = ("_assert", "sym_constrain_range", "_check", "sym_size", "sym_numel", "sym_stride")
"""Parts of names of what only checks, or works out, sizes."""


def operators(program: Any) -> list[Operator]:
    """The operators of an exported program, in the order in which they run."""
    reader = _Reader(_fake_mode(program.graph_module))
    reader.read(program.graph_module, {}, ())
    return reader.found


class _Reader:
    """Goes through a graph and the graphs inside it."""

    def __init__(self, fake: Any) -> None:
        self.found: list[Operator] = []
        self._costs = Costs(fake)
        self._arms = 0

    def read(self, module: Any, given: dict[int, tuple[int, ...]], within: tuple[Scope, ...]) -> tuple[int, ...]:
        """Read one graph.

        Args:
            module: the ``GraphModule``.
            given: of each of its inputs, by position, the operators that it comes from.
            within: scopes around all of it.

        Returns:
            The operators that its result comes from.
        """
        sources: dict[Any, tuple[int, ...]] = {}
        inputs = 0
        for node in module.graph.nodes:
            read = tuple(dict.fromkeys(number for used in node.all_input_nodes for number in sources.get(used, ())))
            if node.op == "placeholder":
                read = given.get(inputs, ())
                inputs += 1
            elif node.op == "output":
                return read
            elif node.op == "call_function" and node.target is not operator.getitem and not _checks(node.target):
                graphs = _graphs(module, node)
                read = self._inside(node, graphs, sources, within) if graphs else self._add(node, read, within)
            sources[node] = read
        return ()

    def _add(self, node: Any, read: Iterable[int], within: tuple[Scope, ...]) -> tuple[int, ...]:
        from torch.fx.node import map_arg

        name = _name(node.target)
        value = node.meta.get("val")
        if value is not None and tensor_of(value) is None:
            return tuple(read)  # arithmetic of sizes, and numbers taken out of tensors, pass on what they come from
        args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda used: used.meta.get("val"))
        frames = frames_of_text(node.stack_trace)
        cost = self._costs.of(node.target, args, kwargs) if not within or not _repeated(within) else Cost()
        tensor = tensor_of(value)
        self.found.append(
            Operator(
                name,
                within + scopes_of(node, frames),
                _place(frames, name, within),
                None if tensor is None else shape_of(tensor),
                "" if tensor is None else dtype_of(tensor),
                cost.flops,
                cost.bytes,
                tuple(read),
            )
        )
        return (len(self.found) - 1,)

    def _inside(
        self, node: Any, graphs: list[tuple[str, Any]], sources: dict[Any, tuple[int, ...]], within: tuple[Scope, ...]
    ) -> tuple[int, ...]:
        """An operator that runs graphs: those that only switch something on or off are not shown themselves."""
        operands = [argument for argument in _flat(node.args) if not _is_graph(argument, node)]
        tensors = [argument for argument in operands if hasattr(argument, "op")]
        name = _name(node.target)
        results: tuple[int, ...] = ()
        self._arms += 1
        scopes = within + scopes_of(node, frames_of_text(node.stack_trace))
        for arm, graph in graphs:
            wants = sum(inner.op == "placeholder" for inner in graph.graph.nodes)
            given = {number: sources.get(used, ()) for number, used in enumerate(tensors[-wants:] if wants else [])}
            around = within
            if not name.startswith("wrap"):
                frames = frames_of_text(node.stack_trace)
                call = Scope(f"{name} {self._arms}", name, kind=VertexKind.OP, site=place_of(frames, name))
                around = (*scopes, call, Scope(f"{arm} {self._arms}", arm, kind=VertexKind.BRANCH, site=call.site))
            results += self.read(graph, given, around)
        return results


def _place(frames: list[Frame], name: str, within: tuple[Scope, ...]) -> Place:
    """The line of an operator; inside captured control flow, where torch notes none, that of the control flow."""
    site = within[-1].site if within and not frames else None
    return place_of(frames, name) if site is None else replace(site, name=name)


def scopes_of(node: Any, frames: list[Frame]) -> tuple[Scope, ...]:
    """The modules around a node, as torch notes them; the model itself first, if it is noted."""
    stack = [(key, *value) for key, value in (node.meta.get("nn_module_stack") or {}).items()]
    at = sites(frames, len(stack))
    return tuple(
        Scope(str(key), _path(path), kind if isinstance(kind, str) else class_name(kind), site=site)
        for (key, path, kind), site in zip(stack, at, strict=True)
    )


def _path(path: str) -> str:
    """The qualified name of a module: without the number of the call, and without dynamo's word for the model."""
    return path.partition("@")[0].removeprefix("L['self']").lstrip(".")


def _repeated(within: tuple[Scope, ...]) -> bool:
    """Whether something is inside an operator that runs a graph as often as data wants."""
    return any(scope.kind is VertexKind.OP and scope.name.rpartition(".")[2] != "cond" for scope in within)


def _graphs(module: Any, node: Any) -> list[tuple[str, Any]]:
    found = []
    for argument in _flat(node.args):
        if getattr(argument, "op", "") == "get_attr":
            inner = getattr(module, str(argument.target), None)
            if hasattr(inner, "graph"):
                found.append((str(argument.target), inner))
    return found


def _is_graph(argument: Any, node: Any) -> bool:
    if getattr(argument, "op", "") != "get_attr":
        return False
    return hasattr(getattr(node.graph.owning_module, str(argument.target), None), "graph")


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _flat(part)]
    return [value]


def _name(target: Any) -> str:
    return str(target).removesuffix(".default")


def _checks(target: Any) -> bool:
    return any(part in str(target) for part in _CHECKS)


def _fake_mode(module: Any) -> Any:
    """The mode of the fake tensors in a graph; a new one where there are none."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    for node in module.graph.nodes:
        mode = getattr(tensor_of(node.meta.get("val")), "fake_mode", None)
        if mode is not None:
            return mode
    return FakeTensorMode(allow_non_fake_inputs=True)
