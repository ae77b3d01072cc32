"""A finding whose work lies in waiting for data says so, and of which loader it is."""

from __future__ import annotations

import numpy as np

from scalana.graphs.readers.columns.span_reading import Lanes, SpanTable
from scalana.graphs.spans.span_columns import Spans
from scalana.report.findings.sentences import loading
from scalana.runtime.record.format import ATTRIBUTE_TEXT, SPAN_TYPE
from tests.detectors.when import late_work
from tests.detectors.when.late_work import RANKS


def spans_of(worked, workers):
    """A span for each loading, of a loader of Pages with so many workers."""
    rows = [row for row in worked if row[0] == "load"]
    count = len(rows)
    table = SpanTable(
        lane=np.array([rank for _, rank, *_ in rows]),
        type=np.full(count, SPAN_TYPE["data"]),
        name=np.zeros(count, np.int64),
        start_ns=np.array([round(start * 1e9) for *_, start, _ in rows]),
        end_ns=np.array([round(end * 1e9) for *_, end in rows]),
        first=2 * np.arange(count + 1),
        key=np.tile([1, 2], count),
        tag=np.tile([ATTRIBUTE_TEXT, 0], count),
        value=np.tile([3, workers], count),
        step=np.full(count, -1),
        lanes=Lanes(*np.array([[rank, rank, 0, -1, 0] for rank in range(RANKS)]).T),
        names=["DataLoader", "dataset", "workers", "Pages"],
    )
    return Spans(table, np.zeros(count, np.int64), np.full(count, -1))


def first_finding(late, workers=0):
    """Of a job whose rank 2 takes longer for one of two things."""
    return late_work.first_finding({"load": 5.0, "compute": 10.0}, late, lambda worked: spans_of(worked, workers))


def test_a_late_loader_is_told_with_what_loaders_offer() -> None:
    found = first_finding("load")
    assert found.evidence.as_dict()["loading"] == {"dataset": "Pages", "workers": 0}
    assert "num_workers" in found.advice
    assert loading(found) == "This time is spent waiting for the DataLoader of `Pages` (no workers)."
    assert "prefetch_factor" in first_finding("load", workers=2).advice


def test_computing_beside_a_loader_is_not_loading() -> None:
    found = first_finding("compute")
    assert "loading" not in found.evidence.as_dict() and loading(found) == "" and "num_workers" not in found.advice
