"""When ranks were in spans of a kind."""

from __future__ import annotations

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods


def periods_of(spans: Spans, rows: IntArray, ranks: int) -> Periods:
    """When each rank was in some spans; those that overlap are one period."""
    return Periods.joined(spans.rank[rows], spans.start_s(rows), spans.end_s(rows), ranks)
