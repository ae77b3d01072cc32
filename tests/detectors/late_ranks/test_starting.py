"""Ranks that another rank starts are late by that: the line that starts them, and no fault of the steps."""

from __future__ import annotations

import pytest

from scalana.detectors import analyze
from scalana.detectors.kinds import kind_of
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.processes.starts import Start
from scalana.graphs.run_info import RunInfo
from scalana.report import text
from scalana.report.findings.order import faults_of
from tests.detectors.jobs import steps, structure
from tests.detectors.simulator import simulate

COUNT, LATE_MS = 40, 4000.0
START = Start(0, "/job/launch.py", 33, "launch")


def analysed(starts, slow_ms=0.0, late=(1, 2)):
    def cost(step, rank):
        return {"compute": 20.0, **({"extra": slow_ms} if rank == 3 and slow_ms else {})}

    begin = [LATE_MS if rank in late else 0.0 for rank in range(4)]
    timeline, names = simulate(steps(4, COUNT, cost), start_ms=begin)
    psg = structure(names)
    run = RunInfo(ranks=4, seconds=float(timeline.locations.end_s.max()), starts=starts)
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run)), names


def test_the_line_that_starts_ranks_is_named_and_is_no_fault() -> None:
    analysis, _ = analysed({1: START, 2: START})
    (finding,) = analysis.findings
    assert (finding.kind, finding.file, finding.line, finding.ranks) == ("started-late", "/job/launch.py", 33, [1, 2])
    assert finding.saving_s == pytest.approx(LATE_MS / 1e3, rel=0.05)
    assert not kind_of(finding.kind).is_fault and faults_of(analysis) == []
    page = " ".join(text.render(analysis).split())
    assert "Rank 0 starts ranks 1, 2 4.00 s after its own start, and waits for them in start-up." in page
    head = page.partition("Where the time goes")[0]
    assert "launch.py:33 launch" in head and "(no place)" not in head


def test_a_fault_in_the_steps_comes_before_it() -> None:
    """Although it costs less."""
    analysis, names = analysed({1: START, 2: START}, slow_ms=15.0)
    first, last = analysis.findings
    assert names[first.line - 1] == "extra" and last.kind == "started-late"
    assert first.lost_s < last.lost_s


@pytest.mark.parametrize("late", [(1,), (1, 2), (1, 2, 3)])
def test_all_that_one_line_starts_is_one_finding(late: tuple[int, ...]) -> None:
    """Most ranks may be started late: then the one that starts them is the odd one, and is still not blamed."""
    analysis, _ = analysed(dict.fromkeys(late, START), late=late)
    (finding,) = analysis.findings
    assert (finding.kind, finding.ranks) == ("started-late", list(late))
    assert finding.lost_s == pytest.approx((4 - len(late)) * LATE_MS / 1e3, rel=0.05)


@pytest.mark.parametrize("starts", [{}, {2: START}], ids=["none", "another"])
def test_a_rank_that_nobody_is_known_to_start_is_late_from_before(starts: dict[int, Start]) -> None:
    analysis, _ = analysed(starts, late=(1,))
    assert [finding.kind for finding in analysis.findings] == ["carried-in"]
