"""A finding whose work lies in compiling says so, how often its ranks compile, and for how long."""

from __future__ import annotations

import pytest

from scalana.report.findings.sentences import compiling
from tests.detectors.spans import Span, as_columns
from tests.detectors.when import late_work
from tests.detectors.when.late_work import LATE, RANKS, STEPS


def spans_of(worked):
    """A compilation in each piece of work of the late rank, and in the first of others; the last in two parts."""
    spans, made = [], [0] * RANKS
    for what, rank, start_s, end_s in (row[:4] for row in worked):
        if what == "run" and (rank == LATE or not made[rank]):
            says = {"kind": "compile", "id": f"0/{made[rank]}"}
            spans.append(Span(rank, "other", "torch.compile", start_s, end_s, says))
            made[rank] += 1
    middle_s = (spans[-1].start_s + spans[-1].end_s) / 2
    spans[-1:] = [spans[-1]._replace(end_s=middle_s), spans[-1]._replace(start_s=middle_s)]
    return as_columns(spans, range(RANKS))


def first_finding(late):
    """Of a job whose rank 2 takes longer for one of two things."""
    return late_work.first_finding({"run": 5.0, "other": 10.0}, late, spans_of)


def test_compiling_is_told_with_how_often_and_how_long() -> None:
    found = first_finding("run")
    seconds = pytest.approx(STEPS * late_work.LATE_S, rel=1e-6)
    assert found.evidence.as_dict()["compiling"] == {
        "seconds": seconds,
        "compilations": STEPS,
        "again": STEPS - 1,
        "compilations_others": 1,
    }
    assert "mark_dynamic" in found.advice
    assert compiling(found) == (
        f"This time is spent compiling (torch.compile): 1.20 s in {STEPS} compilations, "
        f"{STEPS - 1} of them recompilations; other ranks: 1."
    )


def test_computing_beside_compiling_is_not_compiling() -> None:
    found = first_finding("other")
    assert "compiling" not in found.evidence.as_dict() and compiling(found) == "" and "mark_dynamic" not in found.advice
