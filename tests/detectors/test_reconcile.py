"""Who has the word where detectors speak of the same seconds, and that the order of an analysis knows none by name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors import registry, run
from scalana.detectors.detector import Outcome
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import BY_NAME, KINDS, SCALING_KINDS, kind_of
from scalana.detectors.reconcile import Extent, Verdict, covered, reconciled, weighty
from tests.detectors.jobs import analysed, steps

NONE = np.zeros(0, np.int64)


def program():
    return steps(4, 20, lambda step, rank: {"f": 40.0 if rank == 1 else 10.0, "g": 15.0, "h": 20.0}, noise=0.02)


def finding(ranks: list[int], lost_s: float = 4.0) -> Finding:
    return Finding("late-ranks", 1, "a.py", 1, 1, "f", "comp", ranks, lost_s, 0.5, 1.0)


@pytest.fixture(scope="module")
def timeline():
    return analysed(program()).ppg.timeline


def test_what_no_other_speaks_of_is_not_covered(timeline):
    own = Extent((1,), None, NONE)
    assert covered(own, [], timeline) == 0.0
    assert covered(own, [Extent((2,))], timeline) == 0.0
    assert covered(own, [Extent((1,))], timeline) == 1.0
    assert covered(own, [Extent((1,), NONE, None)], timeline) == 0.0  # its calls are not its work


def test_calls_that_take_no_time_are_counted(timeline):
    calls = replace(timeline.calls, exit_s=timeline.calls.enter_s)
    at_once = replace(timeline, calls=calls)
    mine = Extent((1,), NONE)
    middle_s = float(np.median(calls.enter_s[calls.location == 1])) + 1e-9
    assert covered(mine, [Extent((1,), windows_s=np.array([[0.0, middle_s]]))], at_once) == pytest.approx(0.5, abs=0.06)
    assert covered(mine, [Extent((2,))], at_once) == 0.0


def test_a_finding_is_about_the_long_ones_of_its_waits():
    wait_s = np.array([0.001, 0.3, 0.002, 0.4, 0.3, 0.001])
    assert weighty(wait_s).tolist() == [1, 3, 4]
    assert weighty(np.full(20, 0.1)).tolist() == list(range(19))  # a slight part of those that are alike
    assert weighty(np.zeros(0)).tolist() == []


def test_windows_are_of_time(timeline):
    end_s = float(timeline.locations.end_s.max())
    work = Extent((1,), None, NONE)
    inside = Extent((1,), windows_s=np.array([[0.0, end_s]]))
    before = Extent((1,), windows_s=np.array([[-2.0, -1.0]]))
    assert covered(work, [inside], timeline) == 1.0
    assert covered(work, [before], timeline) == 0.0
    assert covered(work, [Extent((1,), windows_s=np.zeros((0, 2)))], timeline) == 0.0


def test_what_devices_do_is_not_what_their_hosts_do(timeline):
    device = Extent((1,), windows_s=np.array([[1.0, 2.0], [4.0, 5.0]]), on_device=True)
    whole = Extent((1,), windows_s=np.array([[0.0, 9.0]]), on_device=True)
    half = Extent((1,), windows_s=np.array([[0.0, 1.5], [4.5, 9.0]]), on_device=True)
    rest = Extent((1,), windows_s=np.array([[1.5, 4.5]]), on_device=True)
    elsewhere = Extent((2,), windows_s=np.array([[0.0, 9.0]]), on_device=True)
    assert covered(device, [whole], timeline) == 1.0
    assert covered(device, [half], timeline) == pytest.approx(0.5)
    assert covered(device, [half, rest], timeline) == pytest.approx(1.0)
    assert covered(device, [Extent((1,)), elsewhere], timeline) == 0.0
    assert covered(Extent((1,)), [whole], timeline) == 0.0


def test_the_earlier_detector_has_the_word(timeline):
    late, slow = finding([1]), finding([1])
    whole = Extent((1,))
    assert reconciled([([Verdict(late, whole)], []), ([Verdict(slow, whole)], [])], timeline) == [late]
    assert reconciled([([Verdict(slow, whole)], []), ([Verdict(late, whole)], [])], timeline) == [slow]


def test_what_is_explained_without_a_finding_is_no_ones_fault(timeline):
    assert reconciled([([], [Extent((0, 1, 2, 3))]), ([Verdict(finding([1]), Extent((1,)))], [])], timeline) == []


def test_a_finding_that_is_explained_in_part_costs_the_rest(timeline):
    own = timeline.own
    rank = timeline.locations.rank[1]
    seconds = np.bincount(own.activity, weights=own.seconds)
    activities = np.flatnonzero(seconds)
    told = Verdict(finding([int(rank)]), Extent((int(rank),), None, NONE))
    least = min(activities, key=lambda a: covered(told.extent, [Extent((int(rank),), np.array([a]), NONE)], timeline))
    part = covered(told.extent, [Extent((int(rank),), np.array([least]), NONE)], timeline)
    assert 0.0 <= part < 0.5
    (left,) = reconciled([([], [Extent((int(rank),), np.array([least]), NONE)]), ([told], [])], timeline)
    assert left.lost_s == pytest.approx(4.0 * (1.0 - part))


class Silent:
    """A detector that explains everything and finds nothing."""

    kinds = ()
    needs = frozenset()

    def load(self):
        return self

    def detect(self, facts):
        everyone = tuple(range(facts.timeline.ranks))
        return Outcome(explained=[Extent(everyone)], sections={"silent": 1})


def test_an_analysis_asks_whoever_is_registered(monkeypatch):
    loud = analysed(program())
    assert loud.findings
    monkeypatch.setattr(run, "DETECTORS", (Silent(), *registry.DETECTORS))
    quiet = run.analyze(loud.ppg)
    assert quiet.findings == [] and quiet.sections["silent"] == 1


def test_run_knows_no_detector_by_name():
    text = Path(run.__file__).read_text()
    assert not re.search("late.?ranks|slow.?workers|hang", text, re.IGNORECASE)


def test_every_kind_of_a_detector_has_its_row():
    made = [kind for row in registry.DETECTORS for kind in row.load().kinds]
    assert len(made) == len({kind.name for kind in made})
    assert {kind.name for kind in made} == {kind.name for kind in KINDS} == set(BY_NAME)
    for kind in (*KINDS, *SCALING_KINDS):
        assert kind.meaning and kind.rule.endswith(".")
        assert all(not claim.text.endswith(".") for claim in kind.claims)
    for kind in KINDS:
        assert not kind.claims[-1].needs


def test_a_kind_that_is_not_known_says_its_name():
    assert kind_of("odd-thing").rule == "Odd thing."
