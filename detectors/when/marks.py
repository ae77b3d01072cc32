"""The steps of a graph: its marks, or its communication."""

from __future__ import annotations

from scalana.graphs.ppg import PPG
from scalana.graphs.spans.columns import Spans
from scalana.graphs.steps.find import find_steps
from scalana.graphs.steps.marked import Marks
from scalana.graphs.steps.steps import Steps


def steps_of(ppg: PPG) -> Steps | None:
    """The steps of a run; None where it shows none."""
    return find_steps(ppg.timeline, ppg.psg, marks_of(ppg.spans))


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
