"""The models of a recorded run in its graph: modules and operators as vertices, with what was measured of them.

A call of a module becomes a ``region`` where the source does not show whose ``forward`` it leads to, and is noted in
:attr:`~scalana.graphs.structure.psg.PSG.modules` in any case. Below it, lines that call operators become ``op``
vertices, which take over the time of their lines. Backward passes have no code of their own: their modules are regions
below the call that runs them. Graphs that were compiled in the job stand below the call of what was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from scalana.frontend.models.build import build
from scalana.frontend.models.graft import graft
from scalana.frontend.models.operators import Captured, Operator, Scope
from scalana.frontend.models.source_operators import operators_by_line
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import add_to, burst_locations, timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.folder.models import Frame, Kernel, Node, module_path
from scalana.graphs.spans.module_places import module_vertices
from scalana.graphs.spans.modules import DIRECTIONS, Module, ModuleCalls, module_calls
from scalana.graphs.structure.psg import NOWHERE, Place, Vertex, VertexKind
from scalana.graphs.timeline import Timeline

Source = Callable[[str], str]
"""Gives the text of a source file, "" where there is none."""
_BACKWARD = DIRECTIONS.index("backward")
_MOST_NAMES = 3
"""Modules that one line calls whose names a vertex has."""
_COMPILED = "OptimizedModule"


def read_source(file: str) -> str:
    """The text of a source file, "" where there is none."""
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except (OSError, ValueError):
        return ""


def with_models(ppg: PPG, source: Source = read_source) -> PPG | None:
    """A graph with the models of its run in it, and the time of modules and operators on their vertices; None where
    there are none.

    Nothing but this is different: no seconds are added or lost, and indices of vertices stay.
    """
    calls, models = module_calls(ppg.spans), ppg.models
    if not len(calls) and not models.graphs and not len(ppg.compiled):
        return None
    graph = _Graph(replace(ppg, psg=ppg.psg.copy()), calls)
    graph.add_calls()
    graph.add_backwards()
    ops = graph.add_operators(cache(lambda file: operators_by_line(source(file))))
    graph.add_kernels(ops)
    for nodes in models.graphs:
        graph.add_compiled(nodes)
    return _measured(graph.ppg, graph.vertex_of_span, ops)


class _Graph:
    """Adds to the graph of one run."""

    def __init__(self, ppg: PPG, calls: ModuleCalls) -> None:
        self.ppg, self.psg, self.calls, self.models = ppg, ppg.psg, calls, ppg.models
        self.vertex_of_span = ppg.spans.vertex.astype(np.int64)

    def _place(self, module: Module) -> Place:
        """Where the ``forward`` of a module stands."""
        return self.models.forwards.get((module.root, module.name, module.kind), NOWHERE)

    def add_calls(self) -> None:
        """Note the vertices that are calls of modules."""
        chosen = np.flatnonzero(self.calls.direction != _BACKWARD)
        row = self.calls.row[chosen]
        vertex = module_vertices(self.calls, self.ppg.spans, self.psg, self.models.forwards)[chosen]
        self.vertex_of_span[row] = vertex
        keys = np.unique(np.stack([vertex, self.calls.module[chosen]], axis=1), axis=0)
        for at in np.unique(keys[:, 0]).tolist():
            modules = [self.calls.modules[module] for module in keys[keys[:, 0] == at, 1].tolist()]
            self._note(at, modules, row[vertex == at])

    def _note(self, vertex: int, modules: list[Module], spans: IntArray) -> None:
        """Note one call of modules: where the source shows it, else it is made a region."""
        label = _label(modules)
        here = self.psg[vertex]
        if here.kind in (VertexKind.CALL, VertexKind.REGION):
            here.kind = VertexKind.REGION
            here.place, here.site = replace(here.site or here.place, name=label), None
        elif here.kind is not VertexKind.FUNCTION:
            vertex = self.psg.add(VertexKind.REGION, replace(self._place(modules[0]), name=label), vertex)
            self.vertex_of_span[spans] = vertex
        self.psg.modules[vertex] = label

    def add_backwards(self) -> None:
        """Modules as regions below the calls that run their backward."""
        chosen = np.flatnonzero(self.calls.direction == _BACKWARD)
        known: dict[tuple[int, str, str, str], int] = {}
        order = chosen[np.argsort(self.calls.module[chosen], kind="stable")]  # parents first
        for number in order.tolist():
            module, row = self.calls.modules[int(self.calls.module[number])], int(self.calls.row[number])
            top = int(self.ppg.spans.vertex[row])
            key = (top, module.root, module.position, module.kind)
            if key not in known:
                place = replace(self._place(module), name=f"{module.position}, backward")
                known[key] = self.psg.add(VertexKind.REGION, place, self._above(top, module, known))
                self.psg.modules[known[key]] = module.position
            self.vertex_of_span[row] = known[key]

    def _above(self, top: int, module: Module, known: Mapping[tuple[int, str, str, str], int]) -> int:
        while module.parent >= 0:
            module = self.calls.modules[module.parent]
            found = known.get((top, module.root, module.position, module.kind))
            if found is not None:
                return found
        return top

    def add_operators(self, operators: Callable[[str], Mapping[int, tuple[str, ...]]]) -> IntArray:
        """Operators in the code of modules; returns the vertex of every activity from here on ``[activities]``."""
        ops: dict[tuple[int, int], int] = {}
        inside = np.zeros(len(self.psg), np.bool_)
        for one in list(self.psg.vertices):  # parents come before their children
            inside[one.index] = one.index in self.psg.modules or (one.parent >= 0 and inside[one.parent])
            if inside[one.index] and one.kind is VertexKind.COMP:
                for line in range(one.place.line, one.place.end_line + 1):
                    names = operators(one.place.file).get(line)
                    if names:
                        ops[one.index, line] = self._operator(one.index, line, names)
        activities = self.ppg.timeline.activities
        result = activities.vertex.astype(np.int64)
        for row, (vertex, line) in enumerate(zip(result.tolist(), activities.line.tolist(), strict=True)):
            if not inside[vertex]:
                continue
            here = self.psg[vertex]
            if here.site is not None and here.kind is VertexKind.CALL:  # a line of a model's in a library
                result[row] = self._line_of_model(here, operators)
                continue
            names = operators(here.place.file).get(line, ())
            if (vertex, line) in ops:
                result[row] = ops[vertex, line]
            elif here.kind is VertexKind.CALL:
                if here.place.name.rpartition(".")[2] in names:
                    here.kind = VertexKind.OP
            elif names and here.kind in (VertexKind.FUNCTION, VertexKind.LOOP, VertexKind.BRANCH):
                result[row] = ops[vertex, line] = self._operator(vertex, line, names)
        return result

    def _line_of_model(self, here: Vertex, operators: Callable[[str], Mapping[int, tuple[str, ...]]]) -> int:
        """The vertex of a line of a library's: the operators that it calls, and no more at the line of the user's that
        led to it; the module around what is but Python."""
        assert here.site is not None
        names = operators(here.site.file).get(here.site.line, ())
        if not names:
            return next((above.index for above in self.psg.ancestors(here.index) if above.index in self.psg.modules), 0)
        here.kind = VertexKind.OP
        here.place, here.site = replace(here.site, name=", ".join(names)), None
        return here.index

    def _operator(self, vertex: int, line: int, names: tuple[str, ...]) -> int:
        place = Place(self.psg[vertex].place.file, line, line, -1, ", ".join(names))
        return self.psg.add(VertexKind.OP, place, vertex)

    def add_kernels(self, vertex_of_activity: IntArray) -> None:
        """Operators in compiled code, at the lines that most of a kernel came from; what ``vertex_of_activity`` says of
        these follows."""
        times, activities = self.ppg.compiled, self.ppg.timeline.activities
        made: dict[tuple[int, int], list[Kernel]] = {}
        keys = np.unique(np.stack([times.vertex, times.line, times.kernel], axis=1), axis=0)
        for vertex, line, kernel in keys.tolist():
            made.setdefault((vertex, line), []).append(times.kernels[kernel])
        ops: dict[tuple[int, int], int] = {}
        for row, at in enumerate(zip(activities.vertex.tolist(), activities.line.tolist(), strict=True)):
            mains = [main for kernel in made.get(at, ()) if (main := kernel.main()) is not None]
            if not mains:
                continue
            if at not in ops:
                ops[at] = self._operator(*at, _operators_of(made[at]))
                path = mains[0].modules[-1][0] if mains[0].modules else ""
                if path and all(main.modules[-1:] == mains[0].modules[-1:] for main in mains):
                    self.psg.modules[ops[at]] = module_path(path)
            vertex_of_activity[row] = ops[at]

    def add_compiled(self, nodes: tuple[Node, ...]) -> None:
        """A graph that was compiled, below the call of what was compiled."""
        operators = [_operator(node) for node in nodes]
        classes = {place.name: place for place in self.models.forwards.values()}
        model = build(Captured(operators, "dynamo"), None, "compiled", classes)
        graft(self.psg, self._compiled(nodes), model)

    def _compiled(self, nodes: tuple[Node, ...]) -> int:
        """The vertex of the call of what was compiled: that of the module around its operators, 0 where unknown."""
        outer = {node.modules[0][1].rpartition(".")[2] for node in nodes if node.modules}
        best = 0
        for number, module in enumerate(self.calls.modules):
            if module.kind in outer or module.kind == _COMPILED:
                rows = self.calls.row[(self.calls.module == number) & (self.calls.direction != _BACKWARD)]
                if len(rows):
                    best = int(self.vertex_of_span[rows[0]])
                    if module.kind in outer:
                        break
        return best


def _operators_of(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """The operators of the line that kernels do most of, those first that do most of it."""
    work: dict[str, int] = {}
    for kernel in kernels:
        main = kernel.main()
        for source in kernel.does():
            if main is not None and source.frames[-1:] == main.frames[-1:]:
                work[source.name] = work.get(source.name, 0) + source.work
    return tuple(sorted(work, key=lambda name: -work[name]))


def _label(modules: Iterable[Module]) -> str:
    names = list(dict.fromkeys(module.position for module in modules))
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def _operator(node: Node) -> Operator:
    frames = [frame for frame in node.frames if not _is_machinery(frame)]
    file, line, _ = frames[-1] if frames else ("", 0, "")
    scopes = tuple(
        Scope(f"{number} {path}", module_path(path), kind) for number, (path, kind) in enumerate(node.modules)
    )
    return Operator(node.name, scopes, Place(file, line, line, -1, node.name), node.shape, node.dtype)


def _is_machinery(frame: Frame) -> bool:
    """Whether a frame is of torch, and of none of its modules."""
    file = frame[0].replace("\\", "/")
    if file.startswith("<"):
        return True
    inside = file.partition("/site-packages/torch/")[2]
    return bool(inside) and (not inside.startswith("nn/modules/") or inside == "nn/modules/module.py")


def _measured(ppg: PPG, vertex_of_span: IntArray, vertex_of_activity: IntArray) -> PPG:
    """A graph whose metrics follow where spans and own work have gone; all of them get rows for the new vertices."""
    count, ranks, spans = len(ppg.psg), ppg.timeline.ranks, ppg.spans
    metrics = {name: _longer(values, count) for name, values in ppg.metrics.items()}
    moved = np.flatnonzero(vertex_of_span != spans.vertex)
    rank, seconds = spans.rank[moved], spans.end_s(moved) - spans.start_s(moved)
    for sign, vertex in ((-1.0, spans.vertex[moved].astype(np.int64)), (1.0, vertex_of_span[moved])):
        add_to(metrics["span_s"], vertex, rank, sign * seconds)
        add_to(metrics["spans"], vertex, rank, np.full(len(moved), sign))
    before = ppg.timeline
    timeline = replace(before, activities=replace(before.activities, vertex=vertex_of_activity))
    was = timeline_metrics(before, count)
    for name, values in timeline_metrics(timeline, count).items():
        metrics[name] = metrics[name] + (values - was[name])
    samples = metrics["samples"] + _samples(timeline, count, ranks) - _samples(before, count, ranks)
    metrics["samples"] = np.maximum(samples, 0.0)
    return replace(ppg, metrics=metrics, spans=replace(spans, vertex=vertex_of_span), timeline=timeline)


def _longer(values: FloatArray, count: int) -> FloatArray:
    return np.concatenate([values, np.zeros((count - len(values), values.shape[1]))])


def _samples(timeline: Timeline, count: int, ranks: int) -> FloatArray:
    """Samples of own work ``[vertices, ranks]``."""
    result = np.zeros((count, ranks))
    own = timeline.own
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst]]
    add_to(result, timeline.activities.vertex[own.activity], rank, own.samples.astype(np.float64))
    return result
