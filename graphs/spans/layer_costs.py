"""Seconds of the layers of a pipeline's stages, from the runs in which they were timed."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.nearest import numbered_keys
from scalana.graphs.spans.pipeline_runs import RunTable, containing
from scalana.graphs.spans.span_columns import Spans

_ACTIONS = ("F", "B", "I", "W")


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """What the layers of a pipeline take."""

    names: tuple[str, ...]
    """Within their stages, in the order in which they run ``[layers]``."""
    cost_s: FloatArray
    """Seconds of a microbatch by kind of action (F, B, I, W) and layer, the median; 0 where it was not seen
    ``[4, layers]``."""
    cut: IntArray
    """The first layer of every stage, and the number of layers ``[stages + 1]``."""


@dataclass(frozen=True, slots=True)
class TimedLayers(ColumnTable):
    """Layers of stages that were timed, each time ``[times]`` all."""

    row: IntArray
    """In the spans."""
    run: IntArray
    """In the table of runs."""
    kind: IntArray
    """Action that it is part of: a place in F, B, I, W."""
    stage: IntArray
    microbatch: IntArray


def timed_layers(spans: Spans, runs: RunTable, on_devices: bool = False) -> TimedLayers:
    """All layers that were timed in runs of pipelines: as hosts called them, or as devices did what these launched."""
    rows = _marks(spans) if on_devices else spans.rows("module")
    began = spans.table.start_ns[rows].astype(np.int64)
    if on_devices:
        began -= spans.integers("queued_ns", 0)[rows]  # the host may be steps ahead of what it launches
    action = spans.texts("action")[rows]
    kind = np.full(len(rows), -1, np.int64)
    for code, name in enumerate(_ACTIONS):
        kind[(action >= 0) & (action == spans.number(name))] = code
    run = containing(runs, spans.process[rows], began)
    stage, microbatch = spans.integers("stage")[rows], spans.integers("microbatch")[rows]
    every = TimedLayers(rows, run, kind, stage, microbatch)
    return every.take((kind >= 0) & (stage >= 0) & (microbatch >= 0) & (run >= 0))


def _marks(spans: Spans) -> IntArray:
    """Rows of the spans of devices that are modules."""
    rows, module = spans.rows("device"), spans.number("module")
    return rows[(spans.texts("kind")[rows] == module) & (module >= 0)]


def layer_costs(spans: Spans, timed: TimedLayers, stages: int) -> LayerCosts | None:
    """The layers of a pipeline of so many stages from when they were timed; None unless some of every stage were."""
    rows, run, kind, stage, microbatch = (getattr(timed, column.name) for column in fields(timed))
    if not np.array_equal(np.unique(stage), np.arange(stages)):
        return None
    layer, first = _layers(spans, rows, stage)
    key = numbered_keys(run, microbatch, layer, kind)
    one, where = np.unique(key, return_inverse=True)
    total = np.zeros(len(one))
    np.add.at(total, where.reshape(-1), spans.end_s(rows) - spans.start_s(rows))
    told = np.zeros(len(one), np.int64)
    told[where.reshape(-1)] = layer * len(_ACTIONS) + kind
    cost = np.zeros((len(first), len(_ACTIONS)))
    order = np.argsort(told, kind="stable")
    values, starts = np.unique(told[order], return_index=True)
    for cell, part in zip(values.tolist(), np.split(total[order], starts[1:]), strict=True):
        cost[divmod(cell, len(_ACTIONS))] = np.median(part)
    names = tuple(spans.names[int(spans.table.name[row])] for row in rows[first].tolist())
    cut = np.searchsorted(stage[first], np.arange(int(stage.max()) + 2)).astype(np.int64)
    return LayerCosts(names, np.ascontiguousarray(cost.T), cut)


def _layers(spans: Spans, rows: IntArray, stage: IntArray) -> tuple[IntArray, IntArray]:
    """The number of each row's layer, by stage and the order in which they run; a row of each layer, its first."""
    name = spans.table.name[rows].astype(np.int64)
    start = spans.table.start_ns[rows].astype(np.int64)
    order = np.lexsort((start, name, stage))
    pair = np.column_stack((stage, name))[order]
    new = np.concatenate(([True], (pair[1:] != pair[:-1]).any(axis=1)))
    first = order[new]
    in_order = np.lexsort((start[first], stage[first]))
    place = np.empty(len(first), np.int64)
    place[in_order] = np.arange(len(first))
    layer = np.empty(len(rows), np.int64)
    layer[order] = place[np.cumsum(new) - 1]
    return layer, first[in_order]
