"""The part of a program performance graph that lies in some of the steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.when.advice import HAS_STEPS
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.metrics import add_to, burst_locations, timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import calls_inside, window
from scalana.graphs.timeline import Timeline


class StepError(ValueError):
    """There are no such steps; the message says which there are."""


def part_of(ppg: PPG, steps: Steps | None, first: int, last: int) -> tuple[PPG, Steps]:
    """What was done in the steps from ``first`` to ``last``, both included, and these steps.

    Each rank's part goes from where it begins the first to where it ends the last. Helpers' seconds are not known by
    time, and are 0.

    Raises:
        StepError: the run has no steps, or not these.
    """
    if steps is None:
        raise StepError("this run has no steps: mark them with scalana.step()")
    rows = [np.flatnonzero(steps.number == number) for number in (first, last)]
    there = HAS_STEPS.format(steps.number[0], steps.number[-1])
    for number, found in zip((first, last), rows, strict=True):
        if not len(found):
            raise StepError(f"this run has no step {number}: {there}")
    low, high = int(rows[0][0]), int(rows[1][0])
    if high < low:
        raise StepError(f"step {last} comes before step {first}: give the first step, then the last")
    if np.isnan(steps.start_s[low]).all():
        raise StepError(f"the begin of step {first} is unknown: choose later steps, {there}")
    start, end = steps.on_all_ranks()
    timeline = window(ppg.timeline, start[low], end[high])
    kept = slice(low, high + 1)
    chosen = Steps(steps.source, steps.number[kept], steps.start_s[kept], steps.end_s[kept], ahead=steps.ahead)
    part = PPG(
        ppg.psg,
        timeline,
        _metrics(timeline, len(ppg.psg)),
        _run(ppg, timeline, calls_inside(ppg.timeline, start[low], end[high])),
        ppg.spans,
        ppg.models,
        ppg.host,
        ppg.compiled,
        ppg.servers,
    )
    return part, chosen


def _metrics(timeline: Timeline, vertices: int) -> dict[str, FloatArray]:
    metrics = timeline_metrics(timeline, vertices)
    own, locations = timeline.own, timeline.locations
    rank = locations.rank[burst_locations(timeline)[own.burst]]
    add_to(metrics["samples"], timeline.activities.vertex[own.activity], rank, own.samples.astype(np.float64))
    return metrics


def _run(ppg: PPG, timeline: Timeline, inside: BoolArray) -> RunInfo:
    """The description of the run, with the numbers of the part. What was open at the end of the run is not in it.
    ``inside`` says which calls of the run lie in the part ``[calls]``."""
    run, locations = ppg.run, timeline.locations
    rank = locations.rank[ppg.timeline.calls.location[inside]]
    in_calls = np.bincount(locations.rank[timeline.calls.location], weights=timeline.call_s(), minlength=run.ranks)
    return replace(
        run,
        seconds=float(locations.end_s.max(initial=0.0) - locations.start_s.min(initial=np.inf)),
        calls_of_rank=np.bincount(rank, minlength=run.ranks).tolist(),
        comm_s_of_rank=in_calls.tolist(),
        open_calls=[],
        warnings=list(run.warnings),
    )
