"""What an analysis does with annotators, and evidence as they add to it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from scalana.detectors import registry, run
from scalana.detectors.annotator import Annotated
from scalana.detectors.evidence import CpuSplit, Evidence, InSteps, Leaf, LoopWait, PlaceTime
from scalana.detectors.facts import Need, Outside
from scalana.detectors.section_name import SectionName
from tests.detectors.jobs import analysed
from tests.detectors.test_reconcile import program

TIDE: SectionName[list[int]] = SectionName("tide")


class Tides:
    """Puts all findings into one region."""

    def __init__(self, *needs: Need) -> None:
        self.needs = frozenset(needs)

    def annotate(self, findings, facts):
        found = [replace(one, evidence=replace(one.evidence, region="tide")) for one in findings]
        return Annotated(found, {TIDE.name: [len(findings)]}, ("The tide is high.",))


def test_an_analysis_asks_all_annotators_that_the_run_has_something_for(monkeypatch):
    before = analysed(program())
    monkeypatch.setattr(run, "ANNOTATORS", (*registry.ANNOTATORS, Tides(Need.CALLS)))
    after = run.analyze(before.ppg)
    assert before.findings and {one.evidence.region for one in before.findings} == {None}
    assert {one.evidence.region for one in after.findings} == {"tide"}
    assert after.section(TIDE) == [len(before.findings)] and before.section(TIDE) is None
    assert after.warnings == [*before.warnings, "The tide is high."]
    monkeypatch.setattr(run, "ANNOTATORS", (Tides(Need.PHASES),))
    assert run.analyze(before.ppg).section(TIDE) is None


def test_models_are_put_in_once_and_the_graph_of_the_findings_stays():
    ppg, asked = analysed(program()).ppg, []

    def models(graph):
        asked.append(graph)
        return replace(graph, psg=graph.psg.copy())

    analysis = run.analyze(ppg, outside=Outside(models=models))
    assert asked == [ppg] and analysis.ppg is not ppg and analysis.ppg.psg is not ppg.psg


def test_keys_of_evidence_stand_in_the_order_in_which_they_became_known():
    known = Evidence(callers=["a.py:1 main"])
    known = replace(known, place=PlaceTime(2.0, 1.0, ratio=float("nan")), leaf=Leaf("a.py", 3, "f", 1))
    assert list(known.as_dict()) == ["callers", "seconds_here", "seconds_others", "ratio", "leaf"]
    again = replace(known, callers=["b.py:2 f"], drifts=True)
    assert list(again.as_dict()) == [*known.as_dict(), "drifts"] and again.as_dict()["callers"] == ["b.py:2 f"]
    assert again.as_dict()["leaf"] == {"file": "a.py", "line": 3, "function": "f", "calls": 1}
    with pytest.raises(FrozenInstanceError):
        known.callers = []  # type: ignore[misc]


def test_what_is_not_known_has_no_key():
    known = Evidence(cpu=CpuSplit(core_wait_share=0.5), in_steps=InSteps(2, 9), drifts=False)
    assert known.as_dict() == {"core_wait_share": 0.5, "in_steps": {"steps": 2, "of": 9}}
    told = LoopWait(
        phase="generation", in_steps=1, of_steps=2, phase_s_here=3.0, phase_s_others=1.0, unit="tokens",
        lost_s_a_step=1.0, recurrence="rank 1", lambda_=0.25, not_the_cause=[],
    )  # fmt: skip
    assert Evidence(loop=told).as_dict()["lambda"] == 0.25 and "in_turns" not in Evidence(loop=told).as_dict()


def test_more_evidence_keeps_what_only_the_first_knows():
    first = Evidence(place=PlaceTime(2.0, 1.0, runs_here=4.0, runs_others=2.0), steady_share=0.9)
    more = first.updated(Evidence(place=PlaceTime(3.0, 1.5)))
    assert more.place == PlaceTime(3.0, 1.5, runs_here=4.0, runs_others=2.0) and more.steady_share == 0.9
