"""Compilations by torch.compile, as the recorder notes them."""

from __future__ import annotations

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.span_kinds import COMPILE


def compilations(spans: Spans, ranks: int) -> IntArray:
    """Rows of the compilations of ranks."""
    rows = spans.rows("other")
    rows = rows[(spans.texts("kind")[rows] == spans.number(COMPILE)) & (spans.number(COMPILE) >= 0)]
    return spans.of_ranks(rows, ranks)


def compiled_before(name: str) -> int:
    """How often torch compiled the same code before, of its number for a compilation, "frame/number"."""
    number = name.rpartition("/")[2].partition("_")[0]
    return int(number) if number.isdigit() else 0
