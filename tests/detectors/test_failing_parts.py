"""A part of the analysis that fails costs its own part of the report, and no more."""

from __future__ import annotations

import pytest

from scalana.detectors import run
from scalana.detectors.annotator import Annotated
from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Outside
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from tests.detectors.jobs import steps, structure
from tests.detectors.simulator import simulate


class Failing:
    kinds = ()
    needs = frozenset()

    def load(self) -> Failing:
        return self

    def detect(self, facts) -> Outcome:
        raise ZeroDivisionError("of nothing")

    def annotate(self, findings, facts) -> Annotated:
        raise IndexError("at the end")


def graph() -> PPG:
    timeline, names = simulate(steps(3, 30, lambda step, rank: {"forward": 20.0 if rank == 1 else 10.0}))
    psg = structure(names)
    run_s = float(timeline.locations.end_s.max())
    return PPG(psg, timeline, timeline_metrics(timeline, len(psg)), RunInfo(ranks=3, seconds=run_s))


def test_the_rest_is_reported_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run.analyze(graph())
    monkeypatch.setattr(run, "DETECTORS", (Failing(), *run.DETECTORS))
    monkeypatch.setattr(run, "ANNOTATORS", (Failing(), *run.ANNOTATORS))
    rest = run.analyze(graph(), outside=Outside(strict=False))
    assert [(one.kind, one.ranks, one.lost_s) for one in rest.findings] == [
        (one.kind, one.ranks, one.lost_s) for one in whole.findings
    ]
    assert rest.findings and set(rest.sections) == set(whole.sections)
    failed = [warning for warning in rest.warnings if "Failing failed" in warning]
    assert len(failed) == 2 and "ZeroDivisionError: of nothing" in failed[0] and "IndexError: at the end" in failed[1]
    with pytest.raises(ZeroDivisionError):
        run.analyze(graph())
