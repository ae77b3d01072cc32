"""Jobs of torch on emulated devices whose collectives are timed as NCCL times them: who waited, how long, and why.

The emulated devices tell when kernels of collectives really began and ended; that is the truth.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import scalana
from tests.attempts import attempts
from tests.long import in_short
from tests.needs import torch_or_skip
from tests.runtime.jobs import ROOT, forked
from tests.tools.emulated_device import Device

torch_or_skip()
pytestmark = [pytest.mark.slow, pytest.mark.measured]

PROGRAM = Path(__file__).parent / "programs" / "emulated_ddp.py"
RANKS = 2
MARKED = (1, 2, 3, 4)
"""Steps that are looked at."""
KINDS = ("launch-gap", "device-late", "initial-skew")


def job(folder, fault, way="timed"):
    """Run the job with a fault of rank 1; its report, and begins and ends of collectives in s ``[ranks, calls, 2]``."""
    folder.mkdir(exist_ok=True)
    Device.make_board(folder / "board", RANKS)
    extra = {"PYTHONPATH": str(ROOT), "SCALANA_OPERATORS": "0"}  # in steps that count operators nothing is marked
    done = forked(RANKS, str(PROGRAM), folder, fault, way, record=folder / "run", extra=extra)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    truth = [json.loads((folder / f"truth{rank}").read_text()) for rank in range(RANKS)]
    report = scalana.analyze(folder / "run")
    assert not [warning for warning in report.ppg.run.warnings if "device:" in warning]
    return report, np.array(truth) * 1e-9


def marked_calls(truth):
    """Those of the steps that are looked at: each step has two."""
    return truth[:, 2 * MARKED[0] : 2 * (MARKED[-1] + 1)]


def findings(report):
    return [finding for finding in report.findings if finding.kind in KINDS]


CASES = {
    "late host": ("launch-gap", "prepare", 0.080),
    "late stream": ("device-late", "sort", 0.060),
    "slow device": ("device-late", "", 8 * 0.005),
    "launch-bound": ("launch-gap", "launch_slowly", 8 * (0.015 - 0.005) + 0.005),
}
"""Kind, function, and seconds that the other rank waits in a step."""
SHORT = ("late host", "slow device")


@pytest.mark.parametrize("fault", in_short(CASES, SHORT))
def test_planted(fault, tmp_path):
    kind, function, planted_s = CASES[fault]
    lost_s = len(MARKED) * planted_s
    for attempt in attempts(3):
        report, _ = job(tmp_path / str(attempt), fault)
        found = findings(report)
        if found and found[0].lost_s == pytest.approx(lost_s, rel=0.1):
            break
    assert found, report.to_text()
    assert (found[0].kind, found[0].ranks, found[0].function) == (kind, [1], function), report.to_text()
    assert found[0].lost_s == pytest.approx(lost_s, rel=0.1), report.to_text()
    assert found[0].lost_s == pytest.approx(report.analysis.sections["device"].waiting_s, rel=0.1)


def test_kernels_begin_and_end_where_they_did(tmp_path):
    """The host's calls of all collectives have the device's side, and how long it took is exact."""
    report, truth = job(tmp_path, "late stream")
    spans, took = report.ppg.spans, marked_calls(truth)
    for rank in range(RANKS):
        rows = np.flatnonzero((spans.texts("collective") >= 0) & (spans.rank == rank))
        rows = rows[np.argsort(spans.start_s(rows))]
        assert (spans.call[rows] >= 0).all() and len(set(spans.call[rows].tolist())) == len(rows)
        kernel_s = spans.integers("kernel_ns")[rows] * 1e-9
        assert kernel_s == pytest.approx(took[rank, :, 1] - took[rank, :, 0], abs=1e-6)


def test_communication_that_is_hidden_has_no_finding(tmp_path):
    """The other rank's kernels wait 60 ms for those of rank 1, while its device computes for longer than that."""
    report, truth = job(tmp_path, "hidden")
    begun = marked_calls(truth)[:, ::2, 0]
    assert np.abs(begun[0] - begun[1]).sum() == pytest.approx(len(MARKED) * 0.060, rel=0.1)
    for attempt in attempts(3):
        if not findings(report):
            break
        report, _ = job(tmp_path / str(attempt), "hidden")
    assert not findings(report), report.to_text()


def test_hosts_that_run_ahead_of_their_devices(tmp_path):
    """All steps are launched while the devices are in the first; what was not marked is like what was."""
    report, truth = job(tmp_path, "late stream", "ahead")
    (found,) = findings(report)
    steps = truth.shape[1] // 2 - 1  # but for the first one, of which nothing is marked
    assert (found.kind, found.ranks, found.function) == ("device-late", [1], "sort")
    assert found.evidence.as_dict()["steps"] == steps and found.evidence.as_dict()["marked_steps"] < steps / 2
    assert found.lost_s == pytest.approx(steps * 0.060, rel=0.1) == found.saving_s
    account = report.analysis.sections["device"]
    parts = account.busy_s + account.waiting_s + account.transfer_s + account.gap_s
    assert parts == pytest.approx(account.total_s, rel=1e-6)
    spans = report.ppg.spans
    marked = np.unique(spans.table.step[spans.texts("collective") >= 0])
    later_s = np.diff(truth[:, ::2, 0], axis=0)[0]  # by how much rank 1 came later to the first collective of each step
    assert len(marked) == found.evidence.as_dict()["marked_steps"]
    assert account.waiting_s == pytest.approx(float(later_s[marked].sum()), rel=0.1)


def test_who_comes_late_at_first_is_not_slow(tmp_path):
    """The step in which rank 1 comes late is not looked at; what is, is balanced."""
    for attempt in attempts(3):
        report, truth = job(tmp_path / str(attempt), "initial skew")
        if not findings(report):
            break
    assert truth[1, 0, 0] - truth[0, 0, 0] > 0.25
    assert not findings(report), report.to_text()


def test_a_job_that_leaves_at_once_keeps_what_was_written(tmp_path):
    report, _ = job(tmp_path, "late stream", "exit")
    found = findings(report)
    spans = report.ppg.spans
    steps = set(spans.table.step[spans.texts("collective") >= 0].tolist())
    assert steps <= set(MARKED)
    assert not found or (found[0].kind, found[0].ranks) == ("device-late", [1])


def test_without_durations_marks_say_it(tmp_path):
    """A backend that does not say how long collectives took."""
    report, _ = job(tmp_path, "late stream", "marks")
    assert (report.ppg.spans.integers("kernel_ns") == -1).all()
    assert (report.ppg.spans.texts("collective") >= 0).sum() == RANKS * 2 * len(MARKED)
    found = findings(report)
    assert (found[0].kind, found[0].ranks, found[0].function) == ("device-late", [1], "sort"), report.to_text()
