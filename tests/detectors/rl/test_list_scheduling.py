"""Loops in which generation goes on while others train: schedules with known ends, and a loop that is really run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scalana import api
from scalana.detectors.rl.account import RLAccount
from scalana.detectors.rl.list_scheduling import Queue
from scalana.workload.fidelity import replayability
from scalana.workload.sources import read_workload

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "detectors" / "rl" / "programs" / "queue_loop.py"


def queue(took_s: list[float], places: int, train_s: list[float], between_s: float = 0.0) -> Queue:
    took = np.array(took_s, float)
    return Queue(took, 10.0 * took, np.zeros(places), between_s, np.array(train_s))


def test_places_that_are_free_get_the_next_trajectory() -> None:
    """Two places, batches of two: 6 and 1, then 2 and 3 at the second place. Ends: 1, 3, 6, 6."""
    assert queue([6, 1, 2, 3], 2, [1.0, 1.0]).updates_s().tolist() == [4.0, 7.0]
    # Between two of a place, a second: ends 1, 4, 6, 8.
    assert queue([6, 1, 2, 3], 2, [1.0, 1.0], 1.0).updates_s().tolist() == [5.0, 9.0]
    # Trainers that take longer are what a step takes.
    assert queue([6, 1, 2, 3], 2, [5.0, 5.0]).updates_s().tolist() == [8.0, 13.0]


def test_changes_of_a_queue() -> None:
    """With the longest first, ends are 3, 5, 6, 6; with 30 tokens at most, 3 s each, they are 1, 3, 3, 6."""
    of = queue([6, 1, 2, 3], 2, [0.5, 0.5])
    assert of.longest_first().updates_s().tolist() == [5.5, 6.5]
    assert of.capped(30.0).updates_s().tolist() == [3.5, 6.5]
    assert of.more_places().updates_s().tolist() == [2.5, 6.5]


@pytest.mark.slow
@pytest.mark.measured
def test_an_asynchronous_loop(tmp_path: Path) -> None:
    """Three processes take answers of known lengths from a queue. Nothing is withheld, as what steps take follows from
    the queue; a replay of the workload says the same."""
    run = tmp_path / "run"
    words = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(run), "--", sys.executable]
    subprocess.run([*words, str(PROGRAM), "6", "3", "100000", "fifo"], cwd=ROOT, check=True, capture_output=True)
    account = api.analyze(str(run)).analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    known = {each.change: each for each in account.what_if}
    assert {"balance", "cap", "more-rollouts"} <= set(known) and "partial" not in known
    assert all(known[change].trusted for change in ("balance", "cap", "more-rollouts"))
    now_s = float(account.step_s.mean())
    assert known["more-rollouts"].step_s < 0.75 * now_s and known["cap"].step_s < 0.99 * now_s
    workload = read_workload([str(run)])
    assert workload.runs_on and len(workload.generating) == 3
    assert replayability(workload).total > 0.75
