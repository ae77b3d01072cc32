"""A finding whose work lies in waiting for data says so, and of which loader it is."""

from __future__ import annotations

from scalana.report.findings.sentences import loading
from tests.detectors.spans import Span, as_columns
from tests.detectors.when import late_work
from tests.detectors.when.late_work import RANKS


def spans_of(worked, workers):
    """A span for each loading, of a loader of Pages with so many workers."""
    says = {"dataset": "Pages", "workers": workers}
    spans = [Span(rank, "data", "DataLoader", *when, says) for what, rank, *when in worked if what == "load"]
    return as_columns(spans, range(RANKS))


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
