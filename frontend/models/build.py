"""Operators to a graph: modules as regions around them, in the order in which they run, with sums."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.frontend.models.capture import capture
from scalana.frontend.models.frames import class_place
from scalana.frontend.models.load import load
from scalana.frontend.models.operators import UNKNOWN, Captured, Operator, Scope
from scalana.graphs.structure.psg import NOWHERE, PSG, Place, VertexKind


@dataclass(slots=True)
class ModelGraph:
    """A model as a graph, and what is known of each vertex. Arrays are ``[vertices]``."""

    psg: PSG
    """Below its root the model: regions are modules, ops are operators, branches are arms of captured control flow."""
    way: str
    """How it was captured: ``export``, ``fx``, or ``modules`` where the model itself could not be looked into."""
    classes: list[str]
    """Of a module its class, else ""."""
    shapes: list[tuple[int | str, ...] | None]
    """Of the output of an operator, None where unknown; a size that depends on data is a name."""
    dtypes: list[str]
    """Of the same."""
    flops: npt.NDArray[np.int64]
    """Of a forward pass; of everything but an operator the sum of what is known inside; -1 where nothing is."""
    bytes: npt.NDArray[np.int64]
    """What operators read and write, likewise."""
    uncounted: npt.NDArray[np.int64]
    """Operators at and below whose FLOPs are not known."""
    parameters: npt.NDArray[np.int64]
    """Of modules, all that is inside included; a parameter that modules share counts once. 0 for an operator."""


def model_graph(spec: str, inputs: Sequence[str] = ()) -> ModelGraph:
    """The graph of the model that ``MODULE:FACTORY`` names (see :func:`.load.load`).

    Raises:
        ModelError: there is no such model, or it cannot be called with these inputs.
    """
    loaded = load(spec, inputs)
    return build(capture(loaded), loaded.model, spec)


def build(captured: Captured, model: Any, name: str, places: Mapping[str, Place] | None = None) -> ModelGraph:
    """Operators, in the order in which they run, to a graph.

    Args:
        captured: what was captured of a model.
        model: the module, or the exported program, that it was captured of, for its classes and parameters; None where
            it was in another process.
        name: of the whole.
        places: where classes are defined, by qualified name, where they are not asked themselves.
    """
    graph = _Builder(model, PSG(name), places)
    for operator in captured.operators:
        graph.add(operator)
    graph.psg.warnings += captured.warnings
    return graph.finished(captured.way)


class _Builder:
    """Adds operators; modules are opened and closed as they need."""

    def __init__(self, model: Any, psg: PSG, places: Mapping[str, Place] | None) -> None:
        self.psg = psg
        self._model = model
        self._places = places
        self._sizes = _parameters(model) if model is not None else {}
        self._open: list[tuple[str, int]] = []
        self._vertex_of: list[int] = []
        self._rows: dict[int, Operator] = {}
        self._classes: dict[int, str] = {}

    def add(self, operator: Operator) -> None:
        """Add one operator inside its scopes."""
        keys = [scope.key for scope in operator.scopes]
        same = 0
        while same < min(len(keys), len(self._open)) and self._open[same][0] == keys[same]:
            same += 1
        del self._open[same:]
        for scope in operator.scopes[same:]:
            vertex = self.psg.add(scope.kind, self._place(scope), self._innermost(), site=_site(scope))
            if scope.kind is VertexKind.REGION:
                self._classes[vertex] = scope.class_name
            self._open.append((scope.key, vertex))
        vertex = self._innermost()
        if operator.name:
            vertex = self.psg.add(VertexKind.OP, operator.place, vertex)
        self._rows[vertex] = operator
        self._vertex_of.append(vertex)
        self.psg.data += [(self._vertex_of[number], vertex) for number in operator.inputs]

    def _innermost(self) -> int:
        return self._open[-1][1] if self._open else 0

    def _place(self, scope: Scope) -> Place:
        if scope.kind is not VertexKind.REGION:
            site = scope.site or NOWHERE
            return Place(site.file, site.line, site.end_line, -1, scope.name)
        name = scope.name or scope.class_name.rpartition(".")[2]
        if self._places is not None:
            return replace(self._places.get(scope.class_name, NOWHERE), name=name)
        kind = _class(self._model, scope)
        return class_place(kind, name) if kind is not None else Place("", 0, 0, -1, name)

    def finished(self, way: str) -> ModelGraph:
        """The graph with its sums."""
        count = len(self.psg)
        rows = [self._rows.get(vertex) for vertex in range(count)]
        flops, moved, uncounted = (np.zeros(count, dtype=np.int64) for _ in range(3))
        known = np.zeros((2, count), dtype=bool)
        for vertex, row in enumerate(rows):
            if row is not None and (row.name or row.flops > UNKNOWN):
                known[:, vertex] = row.flops > UNKNOWN, row.bytes > UNKNOWN
                flops[vertex], moved[vertex] = max(row.flops, 0), max(row.bytes, 0)
                uncounted[vertex] = row.flops <= UNKNOWN
        for vertex in range(count - 1, 0, -1):  # children come after their parents
            parent = self.psg[vertex].parent
            for sums in (flops, moved):  # one arm of several runs: as torch, the dearest
                is_arm = self.psg[vertex].kind is VertexKind.BRANCH
                sums[parent] = max(sums[parent], sums[vertex]) if is_arm else sums[parent] + sums[vertex]
            uncounted[parent] += uncounted[vertex]
            known[:, parent] |= known[:, vertex]
        return ModelGraph(
            self.psg,
            way,
            [self._classes.get(vertex, "") for vertex in range(count)],
            [None if row is None else row.shape for row in rows],
            ["" if row is None else row.dtype for row in rows],
            np.where(known[0], flops, UNKNOWN),
            np.where(known[1], moved, UNKNOWN),
            uncounted,
            np.array([self._parameters_of(vertex) for vertex in range(count)], dtype=np.int64),
        )

    def _parameters_of(self, vertex: int) -> int:
        if vertex and vertex not in self._classes:
            return 0
        is_whole = not vertex or self.psg[vertex].parent == 0
        return self._sizes.get("" if is_whole else self.psg[vertex].place.name, 0)


def _site(scope: Scope) -> Place | None:
    return scope.site if scope.kind is VertexKind.REGION else None


def _class(model: Any, scope: Scope) -> type[Any] | None:
    """The class of a module: that of the object, or the one that its name means among what is loaded."""
    try:
        found = type(model.get_submodule(scope.name))
        if f"{found.__module__}.{found.__qualname__}" == scope.class_name:
            return found
    except AttributeError:
        pass
    module = scope.class_name
    while "." in module:
        module = module.rpartition(".")[0]
        if module in sys.modules:
            value: Any = sys.modules[module]
            for part in scope.class_name[len(module) + 1 :].split("."):
                value = getattr(value, part, None)
            return value if isinstance(value, type) else None
    return None


def _parameters(model: Any) -> dict[str, int]:
    """How many numbers the parameters at and below each module hold, by its qualified name."""
    if hasattr(model, "named_modules"):
        named = model.named_parameters(remove_duplicate=False)
    else:
        named = ((name, model.state_dict[name]) for name in model.graph_signature.parameters)
    inside: dict[str, dict[int, int]] = {}
    for path, parameter in named:
        while path:  # its module, and those around it
            path = path.rpartition(".")[0]
            inside.setdefault(path, {})[id(parameter)] = int(parameter.numel())
    return {path: sum(sizes.values()) for path, sizes in inside.items()}
