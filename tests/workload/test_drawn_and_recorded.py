"""A recorded run becomes a workload, is replayed as it was, and is drawn; the commands that do so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from scalana.workload.costs import Decode
from scalana.workload.draw import Draw, draw
from scalana.workload.errors import WorkloadError
from scalana.workload.fidelity import generative, replayability
from scalana.workload.profile import profile_of
from scalana.workload.replay import Setting
from scalana.workload.sources import read_workload
from scalana.workload.trajectories import Workload

from ..scalana.command import command
from ..tools.rl_job import Plan
from ..tools.rl_run import write
from .examples import with_groups, workload

RANKS, STEPS = 4, 6


def plan() -> Plan:
    """A loop with known costs, and lengths of a known distribution."""
    random = np.random.default_rng(5)
    lengths = random.lognormal(4.0, 0.5, (STEPS, RANKS, 8)).round().astype(int)
    tokens = random.integers(500, 900, (STEPS, RANKS))
    return Plan(
        lengths.tolist(),
        groups=[[[number // 4 + 2 * rank for number in range(8)] for rank in range(RANKS)]] * STEPS,
        floor_s=0.003,
        sequence_s=0.0002,
        verifier_s=random.uniform(0.02, 0.08, (STEPS, RANKS)).tolist(),
        log_prob_s=np.full((STEPS, RANKS), 0.03).tolist(),
        train_tokens=tokens.tolist(),
        slow=[1.0, 1.0, 1.2, 1.0],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recorded") / "run"
    write(plan(), made)
    return made


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Workload:
    return read_workload([str(folder)])


def test_a_run_is_a_workload(recorded: Workload) -> None:
    planned = plan()
    assert len(recorded) == STEPS * RANKS * 8 and recorded.steps == STEPS and recorded.times is not None
    for step in range(STEPS):
        for rank in range(RANKS):
            mine = (recorded.step == step) & (recorded.replica == rank)
            assert sorted(recorded.response[mine]) == sorted(planned.lengths[step][rank])
            assert recorded.verifier_s[mine].sum() == pytest.approx(planned.verifier_s[step][rank], abs=1e-6)
    assert len(np.unique(recorded.prompts())) == STEPS * RANKS * 2
    assert recorded.decode is not None
    assert recorded.decode.floor_s == pytest.approx(0.003, rel=0.02)
    assert recorded.decode.factor == pytest.approx((1.0, 1.0, 1.2, 1.0), rel=0.02)
    assert recorded.times.trained.T.tolist() == planned.train_tokens


def test_a_replay_takes_what_was_recorded(recorded: Workload) -> None:
    """Costs are fitted to three steps, and replay the other three: each step, and each phase."""
    found = replayability(recorded)
    assert found.is_tested and found.tested.tolist() == [3, 4, 5]
    assert found.steps > 0.97 and found.total > 0.97
    assert {"generation", "verifier", "log-prob", "training"} <= set(found.phases)
    assert min(found.phases.values()) > 0.97
    # Lengths decide: with those of another step, a replay is off.
    other = replace(recorded, response=recorded.response[::-1].copy())
    turns = replace(other.turns, tokens=other.response)
    assert replayability(replace(other, turns=turns)).steps < 0.95


def test_drawn_steps_take_about_what_others_took(recorded: Workload) -> None:
    assert recorded.decode is not None
    found = generative(recorded, Setting("batch", RANKS, recorded.decode), 30, seed=1)
    low, high = found.interval_s
    assert found.recorded and low < found.real_s * 1.15 and high > found.real_s * 0.85
    assert found.accuracy > 0.7


def test_what_has_no_times_is_replayed_with_its_own_lengths() -> None:
    of = workload(np.random.default_rng(2).lognormal(5.0, 0.6, (6, 64)).round().tolist(), answers=4)
    found = generative(of, Setting("batch", 4, Decode(0.01, 0.0002)), 20)
    assert not found.recorded and found.interval_s[0] < found.real_s * 1.2 and found.accuracy > 0.75
    with pytest.raises(WorkloadError, match="does not say what its steps took"):
        replayability(of)


def test_a_draw_is_like_what_it_is_drawn_from() -> None:
    """Quantiles, and what answers to one prompt have in common, come back; the seed decides which."""
    profile = profile_of(with_groups(9, 400, 8, 0.5, 0.25))
    drawn = draw(profile, Draw(4, 200, 8, seed=3))
    again = profile_of(drawn)
    assert len(drawn) == 4 * 200 * 8 and (again.steps, again.prompts, again.answers) == (4, 200, 8)
    mine, its = (np.array(one.quantities["response"].quantiles[:3]) for one in (again, profile))
    assert mine == pytest.approx(its, rel=0.15)
    assert again.ranks == pytest.approx(profile.ranks, abs=0.05)
    assert (drawn.response == draw(profile, Draw(4, 200, 8, seed=3)).response).all()
    assert (drawn.response != draw(profile, Draw(4, 200, 8, seed=4)).response).any()


def test_a_limit_and_turns_are_drawn_too() -> None:
    lengths = np.minimum(np.random.default_rng(1).lognormal(6.0, 1.0, 2000).round(), 800.0)
    of = workload([lengths.tolist()], answers=4)
    profile = profile_of(replace(of, clipped=lengths >= 800.0))
    drawn = draw(profile, Draw(1, 500, 4))
    assert drawn.response.max() == 800.0 and drawn.clipped.mean() == pytest.approx((lengths >= 800).mean(), abs=0.05)
    turns = replace(of.turns, first=np.arange(0, 2001, 2), tool_s=np.tile([0.5, 0.0], 1000))
    several = replace(of.rows(np.arange(1000)), turns=turns, response=lengths.reshape(-1, 2).sum(axis=1))
    drawn = draw(profile_of(several), Draw(2, 100, 4))
    assert (drawn.turns.count == 2).all() and (drawn.turns.tool_s[1::2] == 0.0).all()
    assert set(drawn.turns.tool_s[::2]) == {0.5}
    assert drawn.response.tolist() == (drawn.turns.tokens[::2] + drawn.turns.tokens[1::2]).tolist()


def test_a_drift_goes_on_where_it_is_asked_for() -> None:
    random = np.random.default_rng(8)
    rows = [random.lognormal(5.0 + 0.1 * step, 0.3, 400).round().tolist() for step in range(6)]
    profile = profile_of(workload(rows))
    assert profile.drift is not None and profile.drift.is_clear
    grown = draw(profile, Draw(6, 400, 1, drifts=True))
    means = [float(np.log(grown.response[grown.step == step]).mean()) for step in range(6)]
    assert np.polyfit(range(6), means, 1)[0] == pytest.approx(0.1, abs=0.02) and means[0] > 5.4
    with pytest.raises(WorkloadError, match="--lengths gamma: not fitted to this workload"):
        draw(profile_of(workload([[5, 5, 5]])), Draw(1, 4, 1, lengths="gamma"))


def test_the_commands(folder: Path, tmp_path: Path) -> None:
    saved, picture, drawn = (str(tmp_path / name) for name in ("w.jsonl", "w.svg", "drawn.jsonl"))
    text = command("rl", "characterize", folder, "--save", saved, "--svg", picture)
    assert text.returncode == 0, text.stderr
    assert "6 steps · 8 prompts a step · 4 answers a prompt" in text.stdout and "lognormal" in text.stdout
    assert "responses: part that is longer, tokens" in "".join(ElementTree.parse(picture).getroot().itertext())
    found = json.loads(command("rl", "characterize", saved, "--format", "json").stdout)
    assert found["steps"] == STEPS and found["quantities"]["response"]["count"] == STEPS * RANKS * 8
    made = command("rl", "generate", saved, "--steps", "3", "--prompts", "16", "--seed", "5", "-o", drawn)
    assert made.returncode == 0 and "192 trajectories in 3 steps" in made.stdout
    replayed = command(
        "rl", "replay", drawn, "--replicas", "8", "--policy", "fifo", "--policy", "async", "--format", "json"
    )
    by_policy = json.loads(replayed.stdout)["policies"]
    assert [one["policy"] for one in by_policy] == ["fifo", "async"] and by_policy[0]["replicas"] == 8
    both = command("rl", "replay", saved, "--draws", "5")
    assert "Accuracy: steps" in both.stdout and "5 draws" in both.stdout
    fidelity = json.loads(command("rl", "replay", saved, "--format", "json").stdout)["fidelity"]["replay"]
    assert fidelity["steps"] > 0.97 and fidelity["tested"] == [3, 4, 5]


def test_commands_that_cannot_be_done_say_why(tmp_path: Path) -> None:
    nothing = command("rl", "characterize", tmp_path / "none")
    assert nothing.returncode == 1 and "no such file or folder" in nothing.stderr
    path = tmp_path / "rollout_1.jsonl"
    path.write_text('{"response_len": 40}\n{"response_len": 50}\n')
    assert "does not say on how many replicas it was generated: give --replicas" in command("rl", "replay", path).stderr
    costs = command("rl", "replay", path, "--replicas", "2")
    assert costs.returncode == 2 and "give --costs 7b-tp2 or --costs 32b-tp4" in costs.stderr
    draws = command("rl", "replay", path, "--replicas", "2", "--costs", "7b-tp2", "--draws", "3")
    assert draws.returncode == 1 and "at least 4 are needed" in draws.stderr
    assert "not a whole number from 1 on" in command("rl", "replay", path, "--replicas", "no").stderr
    away = command("rl", "generate", path, "-o", tmp_path / "no" / "w.jsonl")
    assert away.returncode == 1 and "cannot write" in away.stderr
