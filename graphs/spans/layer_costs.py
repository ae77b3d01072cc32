"""Seconds of the layers of a pipeline's stages, from the runs in which they were timed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.columns import Spans
from scalana.graphs.spans.nearest import numbered_keys
from scalana.graphs.spans.pipeline_runs import RunTable, containing

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


def layer_costs(spans: Spans, runs: RunTable, chosen: IntArray, stages: IntArray) -> LayerCosts | None:
    """The layers of a pipeline; None unless some of every stage were timed.

    Args:
        spans: all spans.
        runs: all runs.
        chosen: those of the pipeline.
        stages: stages that it has, any number of times.
    """
    rows = spans.rows("module")
    action = spans.texts("action")[rows]
    kind = np.full(len(rows), -1, np.int64)
    for code, name in enumerate(_ACTIONS):
        kind[(action >= 0) & (action == spans.number(name))] = code
    stage, microbatch = spans.integers("stage")[rows], spans.integers("microbatch")[rows]
    run = containing(runs, spans.process[rows], spans.table.start_ns[rows].astype(np.int64))
    known = (kind >= 0) & (stage >= 0) & (microbatch >= 0) & np.isin(run, chosen)
    rows, kind, stage, microbatch, run = (c[known] for c in (rows, kind, stage, microbatch, run))
    if not np.array_equal(np.unique(stage), np.arange(int(stages.max(initial=0)) + 1)):
        return None
    layer, first = _layers(spans, rows, stage)
    key = numbered_keys(run, microbatch, layer, kind)
    one, where = np.unique(key, return_inverse=True)
    total = np.zeros(len(one))
    np.add.at(
        total, where.reshape(-1), to_seconds(spans.table.end_ns[rows].astype(np.int64) - spans.table.start_ns[rows])
    )
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
