"""The steps of a graph: its marks, or its communication."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.graphs.ppg import PPG
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.find_steps import find_steps
from scalana.graphs.steps.marked import Marks
from scalana.graphs.steps.steps import Steps, with_warm_up


def steps_of(ppg: PPG) -> Steps | None:
    """The steps of a run; None where it shows none."""
    steps = find_steps(ppg.timeline, ppg.psg, marks_of(ppg.spans))
    if steps is not None and runs_ahead(steps, ppg.spans):
        return with_warm_up(replace(steps, ahead=True))
    return steps


def runs_ahead(steps: Steps, spans: Spans) -> bool:
    """Whether a host ever ended a step before its device began something of the step before."""
    number = spans.table.step.astype(np.int64)
    row = np.searchsorted(steps.number, number)
    after = np.minimum(row + 1, len(steps) - 1)
    known = (row + 1 < len(steps)) & (steps.number[np.minimum(row, len(steps) - 1)] == number)
    rows = np.flatnonzero(known & spans.device_lanes()[spans.table.lane])
    rows = rows[spans.rank[rows] < steps.end_s.shape[1]]
    return bool((spans.start_s(rows) > steps.end_s[after[rows], spans.rank[rows]]).any())


def marks_of(spans: Spans) -> Marks:
    """The spans that are steps."""
    rows = spans.rows("step")
    source = spans.texts("source")[rows]
    return Marks(
        marker=[spans.names[name] if name >= 0 else "" for name in source.tolist()],
        number=spans.table.step[rows].astype("int64"),
        rank=spans.rank[rows],
        start_s=spans.start_s(rows),
        end_s=spans.end_s(rows),
    )
