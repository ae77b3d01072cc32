"""A finding whose work lies in compiling says so, how often its ranks compile, and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.readers.columns.span_reading import Lanes, SpanTable
from scalana.graphs.spans.span_columns import Spans
from scalana.report.findings.sentences import compiling
from scalana.runtime.record.format import ATTRIBUTE_TEXT, SPAN_TYPE
from tests.detectors.when import late_work
from tests.detectors.when.late_work import LATE, RANKS, STEPS

NAMES = ["torch.compile", "kind", "id", "compile", *(f"0/{number}" for number in range(STEPS))]


def spans_of(worked):
    """A compilation in each piece of work of the late rank, and in the first of others; the last in two parts."""
    rows, made = [], [0] * RANKS
    for what, rank, start, end in (row[:4] for row in worked):
        if what == "run" and (rank == LATE or not made[rank]):
            rows.append((rank, made[rank], start, end))
            made[rank] += 1
    rank, number, start, end = rows[-1]
    middle = (start + end) / 2
    rows[-1:] = [(rank, number, start, middle), (rank, number, middle, end)]
    count = len(rows)
    table = SpanTable(
        lane=np.array([rank for rank, *_ in rows]),
        type=np.full(count, SPAN_TYPE["other"]),
        name=np.zeros(count, np.int64),
        start_ns=np.array([round(start * 1e9) for *_, start, _ in rows]),
        end_ns=np.array([round(end * 1e9) for *_, end in rows]),
        first=2 * np.arange(count + 1),
        key=np.tile([1, 2], count),
        tag=np.full(2 * count, ATTRIBUTE_TEXT),
        value=np.array([[3, 4 + number] for _, number, *_ in rows]).reshape(-1),
        step=np.full(count, -1),
        lanes=Lanes(*np.array([[rank, rank, 0, -1, 0] for rank in range(RANKS)]).T),
        names=NAMES,
    )
    return Spans(table, np.zeros(count, np.int64), np.full(count, -1), np.zeros(count, np.int64))


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
