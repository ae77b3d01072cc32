"""Loops of reinforcement learning that nobody marked: known by the names of their functions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.rl.account import RLAccount
from tests.jobs.test_launching import PROGRAMS, ROOT, environment, line_of

pytestmark = pytest.mark.slow

PROGRAM = PROGRAMS / "named_loops.py"
STEPS = 6


def recorded(folder: Path, which: str, workers: int) -> api.Report:
    done = subprocess.run(
        [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", sys.executable, str(PROGRAM)]
        + [which, str(workers)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return api.analyze(os.fspath(folder))


def account_of(report: api.Report) -> RLAccount:
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    return account


@pytest.mark.measured
def test_a_pool_that_is_too_slow_is_the_first_thing_that_is_said(tmp_path: Path) -> None:
    report = recorded(tmp_path / "run", "pool", 2)
    account = account_of(report)
    assert len(account.step_s) == STEPS
    assert account.roles == {"rollout": [1, 2], "trainer": [0]}
    assert sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    assert account.shares["generation"] > max(account.shares["training"], account.shares["weight-sync"]) > 0.0
    first = report.findings[0]
    bound = first.evidence.worker_bound
    assert (first.kind, first.ranks, first.function) == ("worker-bound", [0], "play_episode")
    assert first.line == line_of(PROGRAM, "plays")
    assert bound is not None and (bound.workers, bound.predicted_workers) == (2, [4, 8])
    by_change = {each.change: each.step_s for each in account.what_if if each.trusted}
    # Four rounds of episodes for each update are two, and one.
    step_s = float(account.step_s.mean())
    for predicted_s in (bound.predicted_step_s[0], by_change["more-rollouts"]):
        assert step_s - 0.15 < predicted_s < step_s - 0.05
    assert "With 4 workers a step takes" in " ".join(report.to_text().split())


@pytest.mark.measured
def test_a_learner_that_starves_is_no_run_without_anything_to_say(tmp_path: Path) -> None:
    report = recorded(tmp_path / "run", "queue", 2)
    account = account_of(report)
    assert account.roles == {"rollout": [1, 2], "trainer": [0]}
    assert len(account.step_s) == STEPS
    assert account.shares["starvation"] > account.shares["training"] > 0.0
    text = " ".join(report.to_text().split())
    assert "with this change: twice as many generating processes" in text and "Nothing stands out" not in text


@pytest.mark.measured
def test_a_training_whose_samples_a_pool_generates_is_no_such_loop(tmp_path: Path) -> None:
    report = recorded(tmp_path / "run", "samples", 2)
    assert "rl" not in report.analysis.sections
    assert report.findings[0].kind == "worker-bound"
