"""Compiling again and again in the steady state of all ranks: named, and a step predicted without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.steps import Steps
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate
from tests.detectors.spans import Span, as_columns

STEPS = 20
WORK_MS = {"forward": 20.0, "optimiser": 5.0}


def spans_of(worked: list[Any], ranks: int, vertex: int) -> Spans:
    """A compilation in each piece of work that compiles."""
    spans = [
        Span(rank, "other", "torch.compile", start_s, end_s, {"kind": "compile", "id": f"0/{number}"})
        for rank in range(ranks)
        for number, (*_, start_s, end_s) in enumerate(row for row in worked if row[:2] == ("compile", rank))
    ]
    return as_columns(spans, range(ranks), vertex)


def job(ranks: int, every: int, compile_ms: float) -> tuple[Analysis, float]:
    """The analysis of a job that compiles in the first step, and then in one of ``every``, for ``compile_ms``; and what
    a step takes after the first."""
    together, worked = ("coll", "allreduce", list(range(ranks)), -1), []
    program = []
    for _ in range(ranks):
        actions: list[Any] = []
        for step in range(STEPS):
            if step == 0 or (every and step % every == 0):
                actions.append(("work", "compile", compile_ms if step else 300.0))
            actions += [*(("work", name, ms) for name, ms in WORK_MS.items()), together]
        program.append(actions)
    timeline, names = simulate(program, worked=worked)
    psg = structure(names)
    end_s = timeline.calls.exit_s.reshape(ranks, STEPS).T
    steps = Steps("trainer", np.arange(STEPS), np.concatenate((np.zeros((1, ranks)), end_s[:-1])), end_s, warm_up=1)
    run = RunInfo(ranks=ranks, seconds=float(timeline.locations.end_s.max()))
    spans = spans_of(worked, ranks, names.index("compile"))
    analysis = analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans), steps)
    return analysis, float(end_s[-1, 0] - end_s[0, 0]) / (STEPS - 1)


@pytest.mark.parametrize("ranks", [1, 3])
def test_compiling_in_each_few_steps_is_what_limits_all(ranks: int) -> None:
    analysis, step_s = job(ranks, every=4, compile_ms=40.0)
    first = analysis.findings[0]
    assert (first.kind, first.ranks, first.vertex) == ("compile-bound", list(range(ranks)), 0)
    limit, told = first.evidence.step_limit, first.evidence.compiling
    assert limit is not None and told is not None and "dynamic" in first.advice
    assert limit.step_s == pytest.approx(step_s, rel=0.01)
    assert (told.compilations, told.again) == (4, 4)
    for part, found_s in ((0.5, limit.half_step_s), (0.0, limit.without_step_s)):
        _, really_s = job(ranks, every=4 if part else 0, compile_ms=40.0 * part)
        assert found_s == pytest.approx(really_s, rel=0.1)


@pytest.mark.parametrize("ranks", [1, 3])
def test_compiling_at_first_alone_is_none(ranks: int) -> None:
    analysis, _ = job(ranks, every=0, compile_ms=0.0)
    assert not [one for one in analysis.findings if one.kind == "compile-bound"]
