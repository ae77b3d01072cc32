"""Steps of a workload played by real processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana.errors import CommandError
from scalana.verify.steps import plan_of, play
from scalana.workload.costs import Decode
from scalana.workload.replay import Setting, replay
from scalana.workload.sources import read_workload
from scalana.workload.step_costs import StepCosts, fit_decode

from ..scalana.command import command
from .examples import workload

COSTS = StepCosts(
    {}, {"training": np.full(2, 0.05)}, frozenset({"generation", "training"}), 0.01, False, np.full(2, np.nan)
)


def test_a_plan_is_what_was_replayed() -> None:
    of = workload([[20, 5, 10, 10], [8, 8, 30, 2]], answers=2)
    replayed = replay(of, Setting("batch", 2, Decode(0.01), COSTS))
    plan = json.loads(json.dumps(plan_of(of, replayed)))
    assert plan["order"] == ["generation", "training"] and plan["rest_s"] == 0.01
    for step, row in enumerate(plan["steps"]):
        tokens = sorted(one[2] for rank in row for one in rank["trajectories"])
        assert tokens == sorted(of.response[of.step == step])
        longest = [max(one[1] for one in rank["trajectories"]) for rank in row]
        assert longest == pytest.approx([rank["phases"]["generation"] for rank in row])
        assert max(longest) + 0.06 == pytest.approx(replayed.step_s[step])


def test_what_cannot_be_played_says_why(tmp_path: Path) -> None:
    of = workload([[20, 5], [8, 8]])
    with pytest.raises(CommandError, match="--policy async: its steps overlap"):
        plan_of(of, replay(of, Setting("async", 2, Decode(0.01), COSTS)))
    with pytest.raises(CommandError, match="200 processes are too many"):
        plan_of(of, replay(of, Setting("fifo", 200, Decode(0.01))))
    (tmp_path / "file").write_text("something")
    with pytest.raises(CommandError, match="holds something already"):
        play(of, replay(of, Setting("fifo", 2, Decode(0.01))), str(tmp_path))


def test_batches_that_end_as_a_whole_are_found_again() -> None:
    """Marks of one batch begin one after the other."""
    rows = workload([[4, 8, 6, 6]] * 3, replica=0)
    begins = np.tile([0.0, 0.001, 1.0, 1.002], 3)
    ends = np.tile([0.9, 0.9, 1.7, 1.7], 3)
    decode = Decode(0.1, slots=2, whole_batches=True)
    fitted = fit_decode(replace(rows, begin_s=begins, end_s=ends, decode=decode))
    assert fitted is not None and fitted.slots == 2 and fitted.whole_batches


@pytest.mark.slow
def test_steps_are_played_and_recorded(tmp_path: Path) -> None:
    """Lengths, prompts and steps of the record are those of the plan, and no step is shorter than it."""
    pytest.importorskip("torch")
    of = replace(workload([[20, 5, 10, 10], [8, 8, 30, 2]], answers=2), decode=Decode(0.01))
    replayed = replay(of, Setting("batch", 2, Decode(0.01), COSTS))
    found = play(of, replayed, str(tmp_path / "run"))
    assert found.steps == 2 and sorted(found.response) == sorted(of.response)
    assert len(np.unique(found.prompts())) == 4 and found.times is not None
    assert (found.times.wall_s >= 0.95 * replayed.step_s).all()
    assert (found.times.phases["generation"].max(axis=0) >= [0.95 * 0.2, 0.95 * 0.3]).all()
    again = command("rl", "characterize", tmp_path / "run", "--format", "json")
    assert json.loads(again.stdout)["answers_per_prompt"] == 2
    assert read_workload([str(tmp_path / "run")]).decode is not None
