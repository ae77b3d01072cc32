"""Which processes others are compared with: those of their role, that do the same."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.rollup.peers import peers_of
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.report.findings.claims import claim
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate


def fan_out(costs, on_cpu=True):
    """Findings of a main process that waits for the results of workers, which take so many ms each."""
    main = [("work", "prepare", 5.0), *(("recv", worker + 1) for worker in range(len(costs)))]
    workers = [[("work", "prepare", 5.0), ("work", "task", ms), ("send", 0)] for ms in costs]
    timeline, names = simulate([main, *workers])
    timeline.role = np.array([0] + [1] * len(costs))
    if not on_cpu:
        timeline.own.cpu_s[:] = 0.0
    psg = structure(names)
    run = RunInfo(ranks=timeline.ranks, seconds=float(timeline.locations.end_s.max()))
    found = analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run)).findings
    return [(names[one.line - 1], one) for one in found]


@pytest.mark.parametrize("slow", range(3))
def test_a_slow_worker_is_compared_with_workers_and_not_with_whom_waits_for_all(slow: int) -> None:
    """Whichever the main process waits for first: that one does more than the main process, and no more than others."""
    costs = [400.0 if worker == slow else 200.0 for worker in range(3)]
    ((name, finding),) = fan_out(costs)
    assert (name, finding.ranks) == ("task", [slow + 1])
    place = finding.evidence.place
    assert place is not None and place.ratio == pytest.approx(2.0, rel=0.01)
    assert finding.lost_s == pytest.approx(0.2, rel=0.05) or finding.lost_s == pytest.approx(0.4, rel=0.05)
    assert finding.saving_s == pytest.approx(0.2, rel=0.05)


def test_workers_that_compute_alike_are_no_finding() -> None:
    assert fan_out([300.0] * 4) == []


def test_workers_that_wait_alike_are_one_finding_on_all_of_them() -> None:
    """As for a server: nobody can say which of them is to blame, and all have to be fixed to save anything."""
    ((name, finding),) = fan_out([300.0, 310.0, 290.0], on_cpu=False)
    assert (name, finding.ranks) == ("task", [1, 2, 3]) and finding.evidence.whole_role
    assert finding.saving_s == pytest.approx(0.3, rel=0.1)
    assert "each as long as the others" in claim(finding, 4)


def test_others_are_those_that_do_it_if_most_do() -> None:
    timeline, _ = simulate([[("work", "task", 1.0)]] * 5)
    here = np.arange(5) == 4
    assert peers_of(here, np.array([0.0, 6.0, 6.0, 5.0, 9.0]), timeline).tolist() == [False, True, True, True, False]
    assert peers_of(here, np.array([0.0, 0.0, 0.0, 5.0, 9.0]), timeline).tolist() == [True, True, True, True, False]
    timeline.role = np.array([0, 0, 1, 1, 1])
    assert peers_of(here, np.array([0.0, 0.0, 0.0, 5.0, 9.0]), timeline).tolist() == [False, False, True, True, False]
