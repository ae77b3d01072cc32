"""Pipelines as a run recorded them, in the terms of the diagnosis: actions, what lies between steps, layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.pipeline.measured.layers import Layers
from scalana.detectors.pipeline.measured.reductions import after_backward, after_steps_s, find_reductions
from scalana.detectors.pipeline.measured.replayable import ActionRows, Between
from scalana.detectors.pipeline.model.engines import Engine
from scalana.detectors.thresholds.seconds import SAME_TIME_S
from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.actions import Actions, Pipeline, ScheduleRuns
from scalana.graphs.spans.layer_costs import LayerCosts
from scalana.graphs.spans.nearest import latest, numbered_keys
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline

FORWARDS = "forwards alone"
"""What the schedule of a pipeline is called that computes no backwards."""


@dataclass(frozen=True)
class Recorded:
    """One pipeline of a run."""

    engine: str
    """`torch`, `megatron`, `deepspeed`; `messages` where it was inferred from its communication."""
    schedule: str
    """What the engine calls it; "" if that is not known."""
    ranks: tuple[int, ...]
    """World ranks, in the order of the pipeline."""
    rows: ActionRows
    between: Between
    windows_s: FloatArray
    """When every rank entered and left each run of the schedule, those of the start too; NaN where it did not
    ``[runs, ranks, 2]``."""
    vertex: int
    """Where the program calls the schedule, -1 if that is not known."""
    layers: Layers | None
    """None where layers were not timed."""
    sends: Engine | None = None
    """How it sends and receives, where that was inferred."""
    met_s: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 2)))
    """When every rank met all others right after a step, NaN where they did not ``[runs, ranks, 2]``; empty where that
    was not looked for."""
    loading_s: tuple[FloatArray, ...] = ()
    """When each rank waited for input data, in order ``[waits, 2]``; empty where nothing recorded that."""
    doubtful: bool = False
    """Whether nothing but how much each rank does in all is sure: what is inferred may be several stages a rank."""
    notes: tuple[str, ...] = ()
    """What a reader has to know of it, in words."""
    reductions: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Calls in which its ranks reduce gradients over replicas: rows of the timeline's calls."""
    on_device: bool = False
    """Whether the times in ``rows`` are those of devices; steps then lie one behind the other, from 0."""
    stands_for: int = 0
    """Steps of the run that those in ``rows`` stand for, 0 for as many as these are."""
    numbers: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of the steps on devices, which are counted from 0 in ``rows`` ``[steps]``."""
    hosts_s: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    """Of actions on devices, when hosts launched them: begin and end ``[rows, 2]``."""
    vertices: tuple[int, ...] = ()
    """Where each rank calls the schedule, -1 if that is not known; empty where it is for none."""

    def vertex_of(self, ranks: Sequence[int]) -> int:
        """Where the first of some world ranks calls the schedule, or else where most do."""
        known = dict(zip(self.ranks, self.vertices, strict=False))
        found = known.get(ranks[0], -1) if ranks else -1
        return found if found >= 0 else self.vertex

    @property
    def steps(self) -> int:
        """How many steps of the run it stands for."""
        return self.stands_for or len(np.unique(self.rows.step))

    @property
    def inferred(self) -> bool:
        """Whether stages and microbatches were inferred from messages."""
        return self.engine == "messages"


def read_pipeline(pipeline: Pipeline, spans: Spans, timeline: Timeline) -> Recorded | None:
    """A pipeline with the runs of its schedule that lie in the timeline, which may be of a part of the run.

    None where no step is left in which the ranks train.
    """
    actions, runs = pipeline.training()
    inside = lie_inside(runs.enter_s, runs.leave_s, pipeline.ranks, timeline)
    # The first run of a schedule is no usual one: memory is asked for, shapes are told, kernels are made.
    later = runs.number > pipeline.runs.number.min()
    runs = runs.take(inside & later if (inside & later).any() else inside)
    actions = actions.take(np.isin(actions.step, runs.number))
    if not len(actions) or len(np.unique(actions.rank)) < len(pipeline.ranks):
        return None
    vertex = spans.vertex[actions.span].astype(np.int64)
    vertices = tuple(_most_often(vertex[actions.rank == place]) for place in range(len(pipeline.ranks)))
    every = pipeline.runs
    rows, reductions = after_backward(_rows(actions, pipeline, spans), find_reductions(timeline, pipeline.ranks))
    gradients = after_steps_s(rows, reductions, runs.number, len(pipeline.ranks))
    return Recorded(
        engine=pipeline.engine,
        schedule=pipeline.schedule,
        ranks=pipeline.ranks,
        rows=rows,
        between=Between(runs.enter_s, runs.data_s, np.maximum(runs.gradients_s, gradients), runs.optimizer_s),
        windows_s=_windows(every, pipeline.actions),
        vertex=_most_often(vertex),
        layers=None if pipeline.layers is None else known_layers(pipeline.layers),
        loading_s=loading_windows(spans, pipeline.ranks),
        reductions=reductions.since(float(rows.begin_s.min())),
        vertices=vertices,
    )


def known_layers(costs: LayerCosts) -> Layers:
    """Layers as they were timed, for the diagnosis."""
    return Layers(costs.names, costs.cost_s, costs.cut)


def _most_often(vertex: IntArray) -> int:
    """The vertex that stands there most often, -1 where none is known."""
    known = vertex[vertex >= 0]
    return int(np.bincount(known).argmax()) if len(known) else -1


def loading_windows(spans: Spans, ranks: tuple[int, ...]) -> tuple[FloatArray, ...]:
    """When each rank waited for input data, in order, one beside the other ``[waits, 2]``; empty if none did."""
    rows = spans.rows("data")
    found = []
    for rank in ranks if len(rows) else ():
        mine = rows[spans.rank[rows] == rank]
        found.append(joined(np.stack((spans.start_s(mine), spans.end_s(mine)), axis=1)))
    return tuple(found)


def lie_inside(enter_s: FloatArray, leave_s: FloatArray, ranks: tuple[int, ...], timeline: Timeline) -> BoolArray:
    """Which runs all ranks enter and leave while they are in the timeline ``[runs]``; the moments are ``[runs,
    ranks]``."""
    edges = np.full((2, max(timeline.ranks, *(rank + 1 for rank in ranks))), np.nan)
    main = np.flatnonzero(timeline.locations.is_main)
    edges[:, timeline.locations.rank[main]] = timeline.locations.start_s[main], timeline.locations.end_s[main]
    begin, end = edges[:, list(ranks)]
    outside = (enter_s < begin - SAME_TIME_S) | (leave_s > end + SAME_TIME_S)
    return np.asarray(~outside.any(axis=1))


def _rows(actions: Actions, pipeline: Pipeline, spans: Spans) -> ActionRows:
    return ActionRows(
        actions.step,
        actions.rank,
        actions.kind,
        actions.stage,
        actions.microbatch,
        actions.begin_s,
        actions.end_s,
        actions.wait_begin_s,
        actions.wait_end_s,
        actions.joined,
        actions.send_wait_s,
        _sent(actions, pipeline, spans),
        actions.load_s,
    )


def _sent(actions: Actions, pipeline: Pipeline, spans: Spans) -> FloatArray:
    """When what an action made was handed over, NaN where that was not seen ``[actions]``: at the end of the call that
    posts it; where sending is one call that blocks, at its begin."""
    every = pipeline.actions  # an evaluation sends messages of the same names, and so does another pipeline
    left = pipeline.runs.leave_s[np.searchsorted(pipeline.runs.number, every.step), every.rank]
    left = np.where(np.isnan(left), np.inf, left)
    sent = np.full(len(every), np.nan)
    world = np.asarray(pipeline.ranks)[every.rank]
    backward = np.minimum(every.kind, 1)
    for code, name in enumerate(("SEND_F", "SEND_B")):
        posts = spans.rows("transfer", name)
        rows = posts if len(posts) else spans.rows("wait", name)
        rows = rows[spans.integers("stage")[rows] >= 0]
        mine = np.flatnonzero((backward == code) & (every.kind < 3))
        columns = [world[mine], every.stage[mine], every.microbatch[mine]]
        others = [spans.rank[rows], spans.integers("stage")[rows], np.maximum(spans.integers("microbatch")[rows], 0)]
        key = numbered_keys(*(np.concatenate(pair) for pair in zip(columns, others, strict=True)))
        last = np.rint(every.end_s[mine] * 1e9).astype(np.int64)
        start = spans.table.start_ns[rows].astype(np.int64) + 1000
        of = latest(key[: len(mine)], last, key[len(mine) :], start)
        of = np.where((of >= 0) & (spans.start_s(rows) <= left[mine[of]]), of, -1) if len(mine) else of
        sent[mine[of[of >= 0]]] = (spans.end_s(rows) if len(posts) else spans.start_s(rows))[of >= 0]
    by_span = np.argsort(every.span, kind="stable")
    return np.asarray(sent[by_span[np.searchsorted(every.span[by_span], actions.span)]])


def _windows(runs: ScheduleRuns, actions: Actions) -> FloatArray:
    """When every rank entered and left each run, from its actions where that is not known ``[runs, ranks, 2]``."""
    windows = np.stack([runs.enter_s, runs.leave_s], axis=2)
    row = np.searchsorted(runs.number, actions.step)
    seen = np.full(windows.shape, np.nan)
    np.fmin.at(seen[:, :, 0], (row, actions.rank), actions.begin_s)
    np.fmax.at(seen[:, :, 1], (row, actions.rank), actions.end_s)
    return np.where(np.isnan(windows), seen, windows)
