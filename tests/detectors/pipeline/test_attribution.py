"""Shares of a step: they add up, and planted causes come out as large as they were planted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.pipeline.diagnosis.attribution import SHARES, Attribution, attribute, shapley
from scalana.detectors.pipeline.diagnosis.causes import Cause, Switches
from scalana.detectors.pipeline.measured import replayable as measured_module
from scalana.detectors.pipeline.measured.replayable import ActionRows, Between, read_rows
from scalana.detectors.pipeline.model.actions import OrderError
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.schedules import BY_NAME, recognise
from scalana.detectors.pipeline.model.simulate import replay
from tests.detectors.pipeline.examples import rows_of, uniform

MS = 1e-3


def of(costs: np.ndarray, name: str = "1F1B", engine: str = "torch-1f1b", shape=(4, 8), **more) -> Attribution:
    """The attribution of a run with these costs."""
    program = BY_NAME[name].program(*shape, 2)
    return attribute(read_rows(rows_of(program, costs, engine, **more), ENGINES[engine]))


def by_microbatch(costs: np.ndarray, microbatches: int = 8) -> np.ndarray:
    """Costs ``[4, stages, microbatches]``."""
    return np.repeat(costs[:, :, None], microbatches, axis=2)


BALANCED = uniform(4, 20 * MS, 40 * MS, 20 * MS, 20 * MS)


def test_a_balanced_pipeline_has_its_schedule_and_nothing_else() -> None:
    found = of(BALANCED, steps=1)
    assert found.shares["compute"] == pytest.approx(8 / 11)
    assert found.shares["schedule"] == pytest.approx(3 / 11)
    assert all(found.shares[name] == pytest.approx(0, abs=1e-9) for name in SHARES[2:])
    assert all(stage.root_share == 0 and stage.load == pytest.approx(1) for stage in found.stages)


def test_a_slow_stage_is_imbalance_and_the_root() -> None:
    costs = BALANCED.copy()
    costs[:, 3] *= 1.75
    found = of(costs, meet=True)
    total = 3 * 60 + 8 * 105  # ms: fill and drain through the others, the slow one all the time
    assert found.step_s == pytest.approx(total * MS)
    assert found.shares["compute"] == pytest.approx(8 * 71.25 / total)
    assert found.shares["schedule"] == pytest.approx(3 * 71.25 / total)
    assert found.shares["imbalance"] == pytest.approx((total - 11 * 71.25) / total)
    assert found.replay_error == pytest.approx(0, abs=1e-9)
    assert found.stages[3].load == pytest.approx(105 / 71.25)
    assert found.stages[3].critical_share == pytest.approx(840 / total)
    assert found.stages[3].root_share > 0.9


@pytest.mark.parametrize("name", ["GPipe", "Interleaved1F1B", "InterleavedZeroBubble", "ZBV", "DualPipeV"])
def test_the_slow_rank_is_the_root_in_every_schedule(name: str) -> None:
    program = BY_NAME[name].program(4, 8, 2)
    costs = uniform(program.stages, 20 * MS, 40 * MS, 20 * MS, 20 * MS)
    slow = np.flatnonzero(program.rank_of_stage == 2)
    costs[:, slow] *= 1.75
    found = attribute(read_rows(rows_of(program, costs, meet=True), ENGINES["ideal"]))
    root = np.bincount(program.rank_of_stage, [stage.root_share for stage in found.stages])
    assert root.argmax() == 2 and root[2] > 0.7
    assert found.shares["imbalance"] > 0.08
    assert sum(found.shares[share] for share in SHARES[3:]) == pytest.approx(0, abs=1e-6)


def test_latency_is_of_the_link() -> None:
    found = of(BALANCED, steps=1, latency_s=10 * MS)
    assert found.shares["link"] == pytest.approx((found.step_s - 660 * MS) / found.step_s)
    assert found.alone_s["link"] == pytest.approx(found.step_s - 660 * MS)
    assert found.shares["compute"] + found.shares["schedule"] + found.shares["link"] == pytest.approx(1)


def test_a_straggler_is_told_from_long_microbatches() -> None:
    straggling = by_microbatch(BALANCED)
    straggling[:, 1, ::3] *= 2.5
    found = of(straggling, steps=1)
    compute = found.shares["compute"]
    assert found.shares["straggler"] > 0.15
    assert found.lengths_s == pytest.approx(0, abs=1e-9)
    assert compute + found.shares["schedule"] + found.shares["straggler"] == pytest.approx(1)
    assert found.alone_s["straggler"] == pytest.approx(found.step_s - 660 * MS)
    assert max(found.stages, key=lambda stage: stage.root_share).stage == 1

    longer = by_microbatch(BALANCED)
    longer[:, :, 1::2] *= 1.5
    found = of(longer, steps=1)
    assert "straggler" not in found.alone_s
    assert found.lengths_s > 0
    assert found.shares["straggler"] > 0.05
    assert found.shares["imbalance"] == pytest.approx(0, abs=1e-9)


def test_gaps_are_of_the_host() -> None:
    found = of(BALANCED, steps=1, host_s=2 * MS)
    # On the critical path are 22 actions; what lies before the very first one is not seen.
    assert found.step_s == pytest.approx((660 + 2 * 21) * MS)
    assert found.shares["host"] == pytest.approx(42 / 702)


INTERLEAVED = ("megatron-interleaved", "megatron-overlap")


@pytest.mark.parametrize("engine", ["ideal", "torch-1f1b", "megatron", *INTERLEAVED, "deepspeed"])
@pytest.mark.parametrize("seed", range(3))
def test_what_an_engine_does_around_its_actions_is_read_as_it_was(engine: str, seed: int) -> None:
    name, stages = ("Interleaved1F1B", 8) if engine in INTERLEAVED else ("1F1B", 4)
    costs = np.random.default_rng(seed).uniform(5 * MS, 50 * MS, (4, stages, 8))
    found = of(costs, name, engine, steps=2, latency_s=3 * MS, host_s=1 * MS, between_s=20 * MS, meet=True)
    assert found.replay_error == pytest.approx(0, abs=2e-3)
    assert found.shares["unexplained"] == pytest.approx(0, abs=2e-3)


def test_loading_within_a_step_is_data() -> None:
    rows = rows_of(BY_NAME["1F1B"].program(4, 8), BALANCED, "deepspeed", 1, host_s=2 * MS)
    loads = np.where((rows.kind == 0) & np.isin(rows.stage, (0, 3)), 2 * MS, 0.0)
    entered = replace(Between.nothing(1, 4), enter_s=np.zeros((1, 4)))
    host, data = (
        attribute(read_rows(each, ENGINES["deepspeed"], entered)).seconds
        for each in (rows, replace(rows, data_s=loads))
    )
    assert host["data"] == 0 and data["data"] > 5 * MS
    assert data["host"] + data["data"] == pytest.approx(host["host"])
    assert data["schedule"] == pytest.approx(host["schedule"])


def test_ranks_that_enter_early_wait_for_the_step_before() -> None:
    # The last rank of 1F1B is done first and enters the next step first; a record that begins there is no longer for
    # it.
    program = BY_NAME["1F1B"].program(4, 8)
    whole = rows_of(program, BALANCED, "torch-1f1b", steps=3)
    later = read_rows(whole.take(whole.step > 0), ENGINES["torch-1f1b"])
    assert later.step_s == pytest.approx(660 * MS)
    assert attribute(later).shares["schedule"] == pytest.approx(3 / 11)


def test_what_lies_between_steps_has_its_own_names() -> None:
    program = BY_NAME["1F1B"].program(4, 8)
    rows = rows_of(program, BALANCED, "torch-1f1b", steps=3, between_s=60 * MS, meet=True)
    share = np.full((3, 4), 1.0)
    between = replace(
        Between.nothing(3, 4), data_s=share * 10 * MS, gradients_s=share * 20 * MS, optimizer_s=share * 30 * MS
    )
    found = attribute(read_rows(rows, ENGINES["torch-1f1b"], between))
    seconds = {name: found.seconds[name] / MS for name in ("data", "gradients", "optimizer", "schedule", "host")}
    assert seconds == pytest.approx(
        {"data": 10, "gradients": 20, "optimizer": 30, "schedule": 180, "host": 0}, abs=1e-6
    )
    assert found.step_s == pytest.approx(720 * MS)


def test_ranks_that_meet_after_a_step_are_no_host_gap() -> None:
    costs = BALANCED.copy()
    costs[:, 3] *= 1.75
    program = BY_NAME["1F1B"].program(4, 8)
    measured = read_rows(rows_of(program, costs, meet=True, steps=3), ENGINES["ideal"])
    assert measured.operations.meetings == 2
    assert attribute(measured).shares["host"] == pytest.approx(0, abs=1e-9)


def test_an_incomplete_step_is_left_out_and_told() -> None:
    rows = rows_of(BY_NAME["ZBV"].program(2, 4), uniform(4))
    lacking = rows.take(~((rows.step == 1) & (rows.stage == 2) & (rows.microbatch == 3)))
    measured = read_rows(lacking, ENGINES["ideal"])
    assert measured.steps.tolist() == [0]
    assert "step 1 is excluded: 2F3 is missing" in measured.notes[0]
    assert recognise(measured.first_step()) == "ZBV"
    with pytest.raises(OrderError, match="no step of the pipeline is recorded completely"):
        read_rows(lacking.take(lacking.step == 1), ENGINES["ideal"])


def test_steps_that_do_not_follow_each_other_are_not_put_together() -> None:
    rows = rows_of(BY_NAME["1F1B"].program(2, 4), uniform(2), steps=5)
    lacking = rows.take(rows.step != 1)
    measured = read_rows(lacking, ENGINES["ideal"])
    assert measured.steps.tolist() == [2, 3, 4]
    assert measured.notes == ("of 4 complete steps, 2 to 4 are analysed",)
    assert measured.step_s == pytest.approx(15)


def test_long_records_are_looked_at_from_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_module, "ACTIONS_REPLAYED", 40)
    measured = read_rows(rows_of(BY_NAME["1F1B"].program(2, 4), uniform(2), steps=5), ENGINES["ideal"])
    assert measured.steps.tolist() == [3, 4]


def test_an_order_that_does_not_fit_the_engine_is_replayed_without_blocking_sends() -> None:
    rows = rows_of(BY_NAME["Interleaved1F1B"].program(4, 8, 2), uniform(8))
    measured = read_rows(rows, ENGINES["megatron"])
    assert "could not run otherwise" in measured.notes[0]
    assert attribute(measured).replay_error == pytest.approx(0, abs=1e-9)


def test_rows_without_waits_are_enough() -> None:
    costs = BALANCED.copy()
    costs[:, 2] *= 1.5
    full = rows_of(BY_NAME["1F1B"].program(4, 8), costs, meet=True)
    rows = ActionRows(full.step, full.rank, full.kind, full.stage, full.microbatch, full.begin_s, full.end_s)
    given, expected = (attribute(read_rows(each, ENGINES["ideal"])) for each in (rows, full))
    assert given.shares == pytest.approx(expected.shares, abs=0.01)


def test_shapley_values_of_a_known_game() -> None:
    # The glove game: one left glove (0), two right ones (1, 2); a pair is worth 1. Known values: 2/3, 1/6, 1/6.
    value = shapley(lambda mask: float(bool(mask & 1 and mask & 6)), [0, 1, 2])
    assert value == pytest.approx({0: 2 / 3, 1: 1 / 6, 2: 1 / 6})
    assert shapley(lambda mask: 0.0, []) == {}


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBV", "DualPipeV"]),
    st.integers(0, 10**6),
    st.floats(0, 0.5),
    st.floats(0, 0.2),
    st.booleans(),
)
def test_shares_add_up_whatever_is_measured(name: str, seed: int, latency: float, host: float, meet: bool) -> None:
    program = BY_NAME[name].program(3, 6, 2)
    random = np.random.default_rng(seed)
    costs = random.uniform(0.2, 2.0, (4, program.stages, 1)) * random.uniform(0.8, 1.5, (1, program.stages, 6))
    rows = rows_of(program, costs, "ideal", 2, latency, host, between_s=0.3, meet=meet)
    measured = read_rows(rows, ENGINES["ideal"])
    found = attribute(measured)
    assert sum(found.shares.values()) == pytest.approx(1, abs=1e-9)
    assert tuple(found.shares) == SHARES
    assert abs(found.replay_error) < 0.02
    assert sum(stage.root_share for stage in found.stages) <= 1 + 1e-9
    # In a fixed order, taking away latency, gaps or what lies between steps never makes a step longer.
    switches = Switches(measured)
    for cause in (Cause.LINK, Cause.HOST, Cause.DATA, Cause.GRADIENTS, Cause.OPTIMIZER):
        for mask in random.integers(0, 256, 4):
            on, off = int(mask) | 1 << cause, int(mask) & ~(1 << cause)
            with_it, without = (replay(measured.operations, switches.setting(m)).makespan_s for m in (on, off))
            assert without <= with_it + 1e-9


def test_what_the_emulated_job_saw_is_read(tmp_path: Path) -> None:
    from tests.detectors.pipeline.truth import read_truth

    rank = {
        "rows": [[s, 0, k, 0, 0, a, a + 1.0, None, None, False, 0.0] for s in (0, 1) for k, a in (("F", 1), ("B", 3))]
    }
    window = {"asked_s": 0.25, "enter_s": 0.5, "done_s": 4.0, "left_s": 4.5}
    (tmp_path / "truth.json").write_text(json.dumps({"ranks": [{**rank, "windows": [window, window]}]}))
    rows, between = read_truth(tmp_path / "truth.json")
    assert rows.step.tolist() == [1, 1] and rows.end_s.tolist() == [2, 4]
    found = attribute(read_rows(rows, ENGINES["ideal"], between))
    assert found.seconds["data"] == pytest.approx(0.25) and found.seconds["optimizer"] == pytest.approx(0.5)


@pytest.mark.parametrize("engine", ["megatron", *INTERLEAVED])
def test_posting_messages_is_the_hosts_and_not_the_links(engine: str) -> None:
    name, stages = ("Interleaved1F1B", 8) if engine in INTERLEAVED else ("1F1B", 4)
    costs = uniform(stages, 10 * MS, 20 * MS, 0, 0)
    program = BY_NAME[name].program(4, 8, stages // 4)
    found = attribute(read_rows(rows_of(program, costs, engine, steps=2, meet=True, post_s=1 * MS), ENGINES[engine]))
    assert found.shares["host"] > 0.04
    assert found.shares["link"] == pytest.approx(0, abs=1e-3)
    assert found.replay_error == pytest.approx(0, abs=2e-3)


def test_chunks_that_differ_on_a_rank_are_imbalance() -> None:
    program = BY_NAME["Interleaved1F1B"].program(2, 4, 2)
    costs = uniform(4, 10 * MS, 20 * MS, 0, 0)
    even_s = attribute(read_rows(rows_of(program, costs * 1.5, steps=1), ENGINES["ideal"])).step_s
    costs[:, 3] *= 3
    found = attribute(read_rows(rows_of(program, costs, "megatron-interleaved", 1), ENGINES["megatron-interleaved"]))
    assert found.seconds["imbalance"] == pytest.approx(found.step_s - even_s)
    assert found.balanced_s == pytest.approx(even_s)
    assert max(found.stages, key=lambda stage: stage.root_share).stage == 3
