"""Policies of asynchronous loops in cases with known ends, and their comparison on the same devices."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana.workload.comparison import compare, places
from scalana.workload.costs import Decode, named
from scalana.workload.errors import WorkloadError
from scalana.workload.replay import Relay, Replayed, Setting, replay
from scalana.workload.step_costs import StepCosts, TokenCost
from scalana.workload.trajectories import Workload

from ..scalana.command import command
from ..tools.rl_job import Plan
from ..tools.rl_run import write
from .examples import workload

ONE = Decode(1.0, slots=100)


def training(seconds: float, ranks: int, weights_s: float = 0.0) -> StepCosts:
    """A loop that trains for so long, and then sends weights, on processes that meet after each phase."""
    fixed = {"training": np.full(ranks, seconds)} | ({"weight-sync": np.full(ranks, weights_s)} if weights_s else {})
    return StepCosts({}, fixed, frozenset({"generation"}), 0.0, False, np.full(ranks, np.nan))


def by_tokens(token_s: float, ranks: int) -> StepCosts:
    """A loop that trains for so long a token of a process."""
    line = TokenCost(0.0, token_s, np.ones(ranks))
    return StepCosts({"training": line}, {}, frozenset({"generation"}), 0.0, False, np.full(ranks, np.nan))


def played(of: Workload, policy: str, replicas: int, decode: Decode = ONE, **more: object) -> Replayed:
    return replay(of, Setting(policy, replicas, decode, **more))  # type: ignore[arg-type]


def test_the_tail_on_few_replicas_frees_the_others() -> None:
    """Two replicas with a long and a short answer each, a token a second: the long ones of both go on on one of them
    from the end of the short ones on, at no cost where a decoding step takes as long for two as for one."""
    of = workload([[10, 1, 8, 1]])
    apart, packed = played(of, "batch", 2), played(of, "repack", 2)
    assert apart.total_s == packed.total_s == 10.0
    assert apart.busy == pytest.approx(18 / 20) and packed.busy == pytest.approx(11 / 20)
    assert packed.replica[0] == packed.replica[2]
    # What is moved is read again: a token that was made and ten of the prompt.
    read = played(of, "repack", 2, replace(ONE, read_s=0.1))
    prompts_s = 1.0
    assert read.total_s == pytest.approx(prompts_s + 10.0 + 1.1)
    # Nothing moves where two take much longer than one.
    assert played(of, "repack", 2, Decode(0.1, 0.9)).busy == played(of, "batch", 2, Decode(0.1, 0.9)).busy


def test_trajectories_move_to_replicas_of_the_same_weights() -> None:
    """Trajectories of a replica have the weights that it had when they began, wherever they end."""
    lengths = np.random.default_rng(2).lognormal(3.0, 0.8, (6, 64)).round().clip(1)
    of = workload(lengths.tolist())
    found = played(of, "relay-repack", 8, Decode(0.01, 1e-4), steps=training(0.3, 2))
    kept = played(of, "relay", 8, Decode(0.01, 1e-4), steps=training(0.3, 2))
    assert found.stale.min() >= 0 and found.total_s < kept.total_s
    version = np.arange(6).repeat(64)  # at the end, a trajectory of a batch lacks what its staleness says
    assert (version.max() - found.stale >= 0).all()


def test_replicas_take_weights_when_their_share_ends() -> None:
    """Two replicas, four answers a step: shares of two. Answers of the first replica take 1 s, of the second 10 s."""
    of = workload([[1, 10, 1, 10], [1, 1, 1, 1]])
    found = played(of, "relay", 2, steps=training(0.5, 1), relay=Relay(0.0, 0.0, 2.0))
    # The first replica gets 1 and 1 (alternately, as both are empty), and then two more with the same weights, as no
    # update was made. The first batch has four of them; half of the second is trained on before the long ones end.
    assert found.begin_s.tolist()[:4] == [0.0, 0.0, 0.0, 0.0]
    assert found.begin_s[4] == found.begin_s[5] == pytest.approx(1.0)
    assert found.stale.max() == 1 and found.total_s == pytest.approx(10.0 + 0.25)


def test_weights_take_a_way() -> None:
    """An update is there when trainers have handed it over, and a replica has taken it: 3 s after training."""
    of = workload([[5], [5]])
    costs = training(1.0, 1, weights_s=4.0)
    sent = played(of, "relay", 1, steps=costs, staleness=0)
    assert sent.begin_s[1] == pytest.approx(5 + 1 + 4) and sent.end_s[1] == pytest.approx(10 + 4 + 5)
    way = played(of, "relay", 1, steps=costs, staleness=0, relay=Relay(0.5, 1.0, 2.0))
    assert way.begin_s[1] == pytest.approx(5 + 1 + 0.5 + 1.0) and way.end_s[1] == pytest.approx(7.5 + 2.0 + 5)


def test_trainers_take_parts_as_they_end() -> None:
    """Sixteen answers that end one a second, and a training of 16 s in sixteen parts: each is trained on while the next
    one is generated, and new weights are sent once."""
    of = workload([list(range(1, 17))])
    costs = training(16.0, 1, weights_s=2.0)
    assert played(of, "one-step-off", 16, steps=costs).total_s == pytest.approx(16 + 16 + 2)
    assert played(of, "stream", 16, steps=costs).total_s == pytest.approx(16 + 1 + 2)


def test_devices_are_divided_in_the_fastest_way() -> None:
    """Even answers that take as long to generate, on all devices, as to train on: half of them trains."""
    of = workload([[50] * 64] * 6)
    costs = by_tokens(0.05 * 8 / 60 / 8, 8)  # 64 answers of 60 tokens on 8 processes: 0.4 s of training
    decode = Decode(0.001, slots=8)
    (batch, ahead) = compare(of, Setting("batch", 1, decode, costs), ["batch", "one-step-off"], [8], [1])
    assert batch.place.trainers == batch.place.replicas == 8
    every = [
        replay(of, Setting("one-step-off", place.replicas, decode, costs, trainers=place.trainers)).total_s
        for place in places("one-step-off", 8, 1)
    ]
    assert len(every) == 7 and ahead.replayed.total_s == min(every)
    assert ahead.place.trainers + ahead.place.replicas == 8 and 0 < ahead.replayed.stale.mean() <= 1
    with pytest.raises(WorkloadError, match="--devices 2: policy one-step-off needs 3"):
        compare(of, Setting("batch", 1, decode, costs), ["one-step-off"], [2], [2])


def test_larger_replicas_share_what_is_read() -> None:
    engine = named("32b-tp4")
    twice = engine.divided(2.0)
    assert engine.floor_s / 2 < twice.floor_s < engine.floor_s and twice.context_s == engine.context_s / 2
    assert engine.divided(1.0) == engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded loop of four processes, one of which has a long answer in each step."""
    made = tmp_path_factory.mktemp("recorded") / "run"
    lengths = [[[30, 40, 50, 400 if rank == step % 4 else 60] for rank in range(4)] for step in range(5)]
    write(Plan(lengths, floor_s=0.004, train_tokens=[[244] * 4] * 5, train_token_s=0.002), made)
    return made


def test_a_recorded_run_is_compared_on_its_devices(folder: Path) -> None:
    found = json.loads(command("rl", "replay", folder, "--compare", "--format", "json").stdout)["comparison"]
    rows = {row["policy"]: row for row in found}
    assert found[0]["policy"] == "recorded" and {row["devices"] for row in found} == {4}
    assert {"repack", "one-step-off", "stream", "relay", "relay-repack"} <= set(rows)
    assert rows["recorded"]["step_s"] == pytest.approx(rows["batch"]["step_s"], rel=0.02)
    assert rows["relay-repack"]["step_s"] < 0.8 * rows["recorded"]["step_s"]
    assert rows["one-step-off"]["staleness"]["max"] == 1 and rows["recorded"]["staleness"]["max"] == 0
    assert rows["one-step-off"]["trainers"] < 4 and rows["repack"]["busy"] < rows["batch"]["busy"]


def test_other_devices_and_divisions(folder: Path) -> None:
    words = ["--compare", "--devices", "4,16", "--tensor", "1,2", "--policy", "batch"]
    found = json.loads(command("rl", "replay", folder, *words, "--format", "json").stdout)["comparison"]
    assert [(row["devices"], row["tensor"], row["replicas"]) for row in found] == [
        (4, 1, 4),
        (4, 2, 2),
        (16, 1, 16),
        (16, 2, 8),
    ]
    assert found[2]["step_s"] < found[0]["step_s"]
    printed = command("rl", "replay", folder, *words).stdout
    assert "8 of 2" in printed and "This was not measured here" in printed


def test_costs_of_a_run_are_used_for_another_workload(folder: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.jsonl"
    command("rl", "generate", folder, "--steps", "3", "-o", drawn)
    refused = command("rl", "replay", drawn, "--compare", "--devices", "8")
    assert refused.returncode == 2 and "does not say what training takes: give --costs RUN" in refused.stderr
    used = command("rl", "replay", drawn, "--compare", "--devices", "8", "--costs", folder, "--format", "json")
    assert {row["devices"] for row in json.loads(used.stdout)["comparison"]} == {8}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--devices", "8"], "--devices and --tensor are for --compare"),
        (["--compare", "--replicas", "2"], "give --devices in place of --replicas"),
        (["--compare", "--devices", "0"], "is not a whole number from 1 on"),
        (["--compare", "--record", "x"], "--record plays one policy"),
        (["--costs", "9b"], "9b"),
    ],
)
def test_what_cannot_be_compared_says_why(folder: Path, words: list[str], says: str) -> None:
    refused = command("rl", "replay", folder, *words)
    assert refused.returncode in (1, 2) and says in refused.stderr


def test_a_report_says_what_saves_much(tmp_path: Path) -> None:
    """Of a loop with a long tail, the report predicts what a replay does, with staleness; of an even one, nothing."""

    def recorded(name: str, longest: int) -> dict[str, dict[str, object]]:
        lengths = [[[30, 40, 50, longest if rank == step % 4 else 60] for rank in range(4)] for step in range(5)]
        plan = Plan(lengths, floor_s=0.004, train_tokens=[[244] * 4] * 5, train_token_s=0.002)
        write(plan, tmp_path / name)
        report = json.loads(command("rl", "report", tmp_path / name, "--format", "json").stdout)
        return {each["change"]: each for each in report["what_if"]}

    tail, even = recorded("tail", 400), recorded("even", 60)
    assert "trajectory-async" in tail and not {"trajectory-async", "one-step-off"} & set(even)
    words = ["--compare", "--policy", "relay-repack", "--format", "json"]
    (row,) = json.loads(command("rl", "replay", tmp_path / "tail", *words).stdout)["comparison"]
    assert tail["trajectory-async"]["step_s"] == pytest.approx(row["step_s"])
    assert f"staleness {row['staleness']['mean']:.1f}" in str(tail["trajectory-async"]["text"])
