"""What all replicas of a pipeline compute in their steps, for replays of the whole job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.detectors.whatif.step_work import StepWork
from scalana.graphs.arrays.columns import concatenate
from scalana.graphs.spans.actions import KINDS, Pipeline
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline

OPTIMIZER = len(KINDS)
"""The kind of an optimizer's step; those before it are actions."""


def job_work(pipelines: Sequence[Pipeline], spans: Spans, timeline: Timeline) -> StepWork | None:
    """The computing of a job; None where its pipelines are no replicas of each other.

    The first run of a schedule is left out: memory is asked for, shapes are exchanged, kernels are compiled.
    """
    ranks = [rank for pipeline in pipelines for rank in pipeline.ranks]
    if not pipelines or len(set(ranks)) < len(ranks) or len({len(pipeline.ranks) for pipeline in pipelines}) > 1:
        return None
    main = np.full(max(*ranks, timeline.ranks) + 1, -1, np.int64)
    mains = np.flatnonzero(timeline.locations.is_main)
    main[timeline.locations.rank[mains]] = mains
    if (main[ranks] < 0).any():
        return None
    parts = [_actions(pipeline, number, main) for number, pipeline in enumerate(pipelines)]
    if len({int(part.stage.max(initial=-1)) for part in parts}) > 1 or not all(len(part) for part in parts):
        return None
    actions = concatenate(parts, StepWork)
    whole = concatenate([actions, _optimizers(actions, spans, main)], StepWork)
    return whole.take(np.lexsort((whole.begin_s, whole.location)))


def _actions(pipeline: Pipeline, replica: int, main: np.ndarray) -> StepWork:
    actions, runs = pipeline.training()
    actions = actions.take(np.isin(actions.step, runs.number[runs.number > 0]))
    world = np.asarray(pipeline.ranks)[actions.rank]
    return StepWork(
        main[world],
        actions.kind,
        actions.step,
        np.full(len(actions), replica),
        actions.stage,
        actions.microbatch,
        actions.begin_s,
        actions.end_s,
    )


def _optimizers(actions: StepWork, spans: Spans, main: np.ndarray) -> StepWork:
    """Steps of optimizers, each of the step whose actions its rank computed before."""
    rows = spans.rows("optimizer")
    location, begin_s, end_s = main[spans.rank[rows]], spans.start_s(rows), spans.end_s(rows)
    order = np.lexsort((actions.begin_s, actions.location))
    horizon = float(max(actions.end_s.max(), end_s.max(initial=0.0))) + 1.0
    key = (actions.location * horizon + actions.begin_s)[order]
    at = np.searchsorted(key, location * horizon + begin_s) - 1
    before = order[np.maximum(at, 0)]
    known = (at >= 0) & (actions.location[before] == location) & (begin_s >= actions.end_s[before] - 0.0)
    before = before[known]
    return StepWork(
        location[known],
        np.full(len(before), OPTIMIZER),
        actions.step[before],
        actions.replica[before],
        actions.stage[before],
        np.full(len(before), -1),
        begin_s[known],
        end_s[known],
    )
