"""Jobs on emulated devices that scalana records by marks on their streams: each planted cause must come out.

The device's times are exact, the host's are not: the causes are far longer than what a loaded machine adds.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import scalana
from tests.attempts import attempts
from tests.long import in_short
from tests.runtime.jobs import ROOT, environment
from tests.tools.emulated_device import Device

PROGRAM = Path(__file__).parent / "programs" / "emulated_job.py"
RANKS = 3
STEPS = 6


def report_of(fault, folder, *options):
    """Run the job with a fault of rank 1, and analyse what it recorded."""
    board = Device.make_board(folder / "board", RANKS)
    ranks = [
        subprocess.Popen(
            [sys.executable, PROGRAM, folder / "run", board, str(rank), str(RANKS), fault, *options],
            env=environment(None, {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "PYTHONPATH": str(ROOT)}),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    for process in ranks:
        assert process.communicate(timeout=60)[1] == "" and process.returncode == 0
    return scalana.analyze(folder / "run")


OTHERS = RANKS - 1
CASES = {
    "late host": ("launch-gap", "prepare", OTHERS * STEPS * 0.060),
    "late stream": ("device-late", "sort", OTHERS * STEPS * 0.060),
    "slow device": ("device-late", "", OTHERS * STEPS * 8 * 0.006),
    "launch-bound": ("launch-gap", "launch_slowly", OTHERS * STEPS * (8 * 0.010 + 0.003 - 8 * 0.003)),
    "shared helper": ("launch-gap", "load", OTHERS * STEPS * 15 * 0.004),
}
"""Kind, function and rank-seconds of waiting of each fault."""
SHORT = ("late host", "slow device")


@pytest.mark.slow
@pytest.mark.parametrize("fault", in_short(CASES, SHORT))
def test_planted(fault, tmp_path):
    kind, function, lost_s = CASES[fault]
    for attempt in attempts(2):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        report = report_of(fault, folder)
        found = [f for f in report.findings if f.kind in ("launch-gap", "device-late", "initial-skew")]
        first = [(f.kind, f.ranks, f.function) for f in found[:1]]
        if first == [(kind, [1], function)] and 0.5 * lost_s < found[0].lost_s < 2 * lost_s:
            break
    assert found, report.to_text()
    assert (found[0].kind, found[0].ranks, found[0].function) == (kind, [1], function), report.to_text()
    assert 0.5 * lost_s < found[0].lost_s < 4 * lost_s  # a sleep may take far longer where cores are short
    if fault == "shared helper":
        assert "<- the helper" in PROGRAM.read_text().splitlines()[found[0].line - 1]
    if fault == "slow device":
        assert found[0].evidence.as_dict()["slowdown"] == pytest.approx(3.0, rel=0.15)


@pytest.mark.slow
@pytest.mark.measured
def test_who_begins_late_is_not_slow(tmp_path):
    """How much later a rank's record begins than those of others is what the region of all of it says."""
    report = report_of("initial skew", tmp_path)
    found = next(f for f in report.findings if f.kind in ("launch-gap", "device-late", "initial-skew"))
    assert found.kind == "initial-skew" and 1 in found.ranks, report.to_text()  # others may begin late as well
    spans = report.ppg.spans
    rows = spans.rows("region", "profile")
    begun = dict(zip(spans.rank[rows].tolist(), spans.start_s(rows).tolist(), strict=True))
    late_s = sum(max(begun.values()) - start for start in begun.values())
    assert late_s > 0.3 and begun[1] == max(begun.values())
    assert found.lost_s == pytest.approx(late_s, rel=0.3)


def test_waiting_that_the_device_computes_through_costs_nothing(tmp_path):
    """Rank 1 comes 60 ms late to the first collective of every step, while the others compute for 71 ms."""
    for attempt in attempts(2):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        report = report_of("hidden", folder)
        account = report.analysis.sections["device"]
        if account.waiting_s < 0.3 * OTHERS * STEPS * 0.060 < 0.3 * account.hidden_s:
            break
    assert account.waiting_s < 0.3 * OTHERS * STEPS * 0.060
    assert account.hidden_s > OTHERS * STEPS * 0.060
    parts = account.busy_s + account.waiting_s + account.transfer_s + account.gap_s
    assert parts == pytest.approx(account.total_s)


@pytest.mark.measured
def test_marks_lie_on_the_axis_of_the_host(tmp_path):
    """A step's marks come after the host recorded them, and before the host has waited for them."""
    report = report_of("none", tmp_path)
    spans = report.ppg.spans
    rows = np.flatnonzero(spans.device_lanes()[spans.table.lane])
    assert len(rows) == RANKS * STEPS * (8 + 2)
    assert set(spans.table.step[rows].tolist()) == set(range(STEPS))
    seconds = (spans.end_s(rows) - spans.start_s(rows))[spans.texts("collective")[rows] < 0]
    assert np.median(seconds) == pytest.approx(0.003, rel=0.02)
    queued = spans.integers("queued_ns")[rows]
    assert (queued >= 0).all()
    calls = spans.call[rows]
    assert (calls >= 0).sum() == RANKS * STEPS * 2
    steps = spans.rows("step")
    starts = dict(zip(zip(spans.rank[steps], spans.table.step[steps], strict=True), spans.start_s(steps), strict=True))
    for row in rows.tolist():
        assert spans.start_s(row) >= starts[spans.rank[row], spans.table.step[row]] - 1e-4


@pytest.mark.slow
@pytest.mark.measured
def test_kernels_of_some_steps_say_what_ran_in_a_module(tmp_path):
    report = report_of("late stream", tmp_path, "kernels")
    spans = report.ppg.spans
    rows = spans.rows("kernel")
    rows = rows[spans.texts("collective")[rows] < 0]
    steps = set(spans.table.step[rows].tolist())
    assert steps and max(steps) < STEPS
    sorts = [row for row in rows.tolist() if spans.names[spans.table.name[row]] == "radix_sort"]
    assert len(sorts) == len(steps) and set(spans.rank[sorts].tolist()) == {1}
    assert {report.ppg.psg.function_of(int(spans.vertex[row])) for row in sorts} == {"sort"}
    assert len(rows) == len(steps) * RANKS * 8 + len(sorts)
    finding = next(f for f in report.findings if f.kind == "device-late")
    assert (finding.ranks, finding.function) == ([1], "sort")
    assert "radix_sort" in finding.evidence.as_dict()["kernels"]


@pytest.mark.measured
def test_what_a_host_does_before_a_step_is_marked_is_no_initial_skew(tmp_path):
    """Only steps 2 and 4 are looked at; what makes rank 1 late lies before their first marks."""
    report = report_of("late host", tmp_path, "few steps")
    assert set(report.ppg.spans.table.step[report.ppg.spans.rows("device")].tolist()) == {2, 4}
    finding = next(f for f in report.findings if f.kind in ("launch-gap", "initial-skew"))
    assert (finding.kind, finding.ranks, finding.function) == ("launch-gap", [1], "prepare")
