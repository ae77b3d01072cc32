"""What changes bring: against closed forms, exhaustive search and bounds that nothing may pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.pipeline.diagnosis.causes import Switches
from scalana.detectors.pipeline.diagnosis.predictions import (
    Model,
    Planner,
    avoidable_by_schedule,
    engine_costs,
    held,
    more_microbatches,
    split_backward,
    without_causes,
)
from scalana.detectors.pipeline.measured.replayable import read_rows
from scalana.detectors.pipeline.model.actions import Kind, OrderError, peak_activations, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.partition import descend, even_cut, every_cut, smallest_maximum, stage_costs
from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.detectors.pipeline.model.simulate import simulate
from tests.detectors.pipeline.examples import rows_of, uniform

MS = 1e-3


def toy(head: float = 3.0) -> Model:
    """16 layers of 5 + 10 ms and a head that costs some of them, on 4 ranks."""
    layers = np.zeros((4, 17))
    layers[Kind.F], layers[Kind.B] = 5 * MS, 10 * MS
    layers[:, 16] *= head
    return Model(layers, 4, np.zeros((4, 4)))


HEAVY_END = np.array([0, 4, 8, 12, 17])


def test_the_best_cut_of_a_heavy_head() -> None:
    planner, program = Planner(toy()), BY_NAME["1F1B"].program(4, 8)
    assert planner.evaluator(program)(HEAVY_END) == pytest.approx((3 * 60 + 8 * 105) * MS)
    found = planner.repartition(program)
    assert (found.text, found.change, found.peak_activations) == ("5/5/5/2", "repartition", 20)
    assert found.step_s == pytest.approx((8 * 75 + 75 + 75 + 45) * MS - 0)  # the first stages set the pace
    assert planner.wall() is None
    assert planner.bound_s(8) == pytest.approx(8 * 285 / 4 * MS)


def test_a_single_layer_that_is_the_wall_is_named() -> None:
    planner = Planner(toy(head=20))
    assert planner.wall() == 16
    program = BY_NAME["1F1B"].program(4, 8)
    found = planner.repartition(program)
    assert found.text.endswith("/1")
    # No cut helps against it: the bound is its own work after the first microbatch has come.
    assert planner.bound_s(8) == pytest.approx((16 * 5 + 8 * 300) * MS)
    assert found.step_s >= planner.bound_s(8)


def test_memory_is_a_limit_that_is_kept() -> None:
    planner, program = Planner(toy()), BY_NAME["1F1B"].program(4, 8)
    cut, seconds = planner.best_cut(program, most_held=16)
    assert held(program, cut) <= 16
    assert seconds > planner.repartition(program).step_s
    assert all(found.peak_activations <= 20 for found in planner.schedules(8, most_held=20))
    with pytest.raises(OrderError, match="needs more than 3"):
        planner.schedule(BY_NAME["GPipe"], 8, most_held=3)


def test_a_better_schedule_is_one_that_can_be_had_at_no_more_memory() -> None:
    planner = Planner(Model(uniform(16) / 16, 4, np.zeros((4, 4))))
    even = even_cut(16, 4)
    saved, schedule = avoidable_by_schedule(planner, BY_NAME["1F1B"].program(4, 8), even)
    # 1F1B: 33, with the backward split and two chunks a rank 25.5, a quarter of a model a rank.
    assert saved == pytest.approx((33 - 25.5) / 4)
    assert schedule is not None and schedule.peak_activations <= 16
    already = BY_NAME["ZBV"].program(4, 8)
    assert avoidable_by_schedule(planner, already, even_cut(16, 8))[0] == pytest.approx(0)


def test_more_microbatches_spread_the_bubble() -> None:
    found = more_microbatches(Planner(toy()), BY_NAME["1F1B"], HEAVY_END, 8, (1, 2))
    assert [one.step_s for one in found] == pytest.approx([1020 * MS, (3 * 60 + 16 * 105) * MS / 2])
    assert found[1].text == "16 microbatches of this size per step, in the time of 8"
    (found,) = more_microbatches(Planner(toy()), BY_NAME["1F1B"], HEAVY_END, 8, beside_s=1.0)
    assert found.step_s == pytest.approx((1 + (3 * 60 + 16 * 105) * MS) / 2), "what a step has once is halved"


def test_only_schedules_that_the_engine_has_are_proposed() -> None:
    model = Model(uniform(16) / 16, 4, np.zeros((4, 4)))
    names = [
        {one.text.split(",")[0] for one in Planner(model, ENGINES[engine]).schedules(8)}
        for engine in ("torch", "megatron", "deepspeed")
    ]
    assert {"ZBV", "ZB-H1", "DualPipeV"} < names[0]
    assert names[1:] == [{"1F1B", "Interleaved1F1B"}, {"1F1B"}]


def test_costs_of_torch_where_the_first_stage_has_no_input_gradient() -> None:
    costs = uniform(4, 1, 5, 3, 2)
    moved = engine_costs(BY_NAME["ZB-H1"].program(4, 8), costs, ENGINES["torch"])
    assert moved[Kind.I].tolist() == [0, 3, 3, 3] and moved[Kind.W].tolist() == [5, 2, 2, 2]
    assert engine_costs(BY_NAME["ZB-H1"].program(4, 8), costs, ENGINES["ideal"]) is costs


def test_halves_and_wholes_of_a_backward_are_filled_in() -> None:
    filled = split_backward(np.array([[1.0, 1.0], [4.0, 0.0], [0.0, 3.0], [0.0, 1.0]]), ratio=0.25)
    assert filled.tolist() == [[1, 1], [4, 4], [1, 3], [3, 1]]


def test_what_is_gone_with_one_cause() -> None:
    program = BY_NAME["1F1B"].program(4, 8)
    costs = np.repeat(uniform(4, 20 * MS, 40 * MS)[:, :, None], 8, axis=2)
    costs[:, 1, ::3] *= 2.5
    rows = rows_of(program, costs, "ideal", steps=1, latency_s=5 * MS)
    found = {one.change: one.step_s for one in without_causes(Switches(read_rows(rows, ENGINES["ideal"])))}
    usual = np.repeat(uniform(4, 20 * MS, 40 * MS)[:, :, None], 8, axis=2)
    assert found["no-straggler"] == pytest.approx(
        simulate(program, spread_costs(program, usual), None, 5 * MS).makespan_s
    )
    assert found["zero-latency"] == pytest.approx(simulate(program, spread_costs(program, costs)).makespan_s)
    assert set(found) == {"no-straggler", "zero-latency"}


layer_costs = st.lists(st.floats(0.1, 10), min_size=4, max_size=9)


@settings(max_examples=50, deadline=None)
@given(layer_costs, st.integers(2, 4))
def test_the_smallest_maximum_is_the_smallest(costs: list[float], stages: int) -> None:
    cost = np.array(costs)
    cut, bound = smallest_maximum(cost, stages)
    parts = np.add.reduceat(cost, cut[:-1])
    assert len(cut) == stages + 1 and (np.diff(cut) > 0).all()
    assert parts.max() == pytest.approx(bound)
    assert bound == pytest.approx(min(np.add.reduceat(cost, c[:-1]).max() for c in every_cut(len(cost), stages)))


@settings(max_examples=25, deadline=None)
@given(layer_costs, st.sampled_from(["GPipe", "1F1B", "ZB-H1"]), st.integers(2, 4), st.integers(1, 6))
def test_no_prediction_passes_the_bound_and_the_search_finds_the_best(
    costs: list[float], name: str, ranks: int, microbatches: int
) -> None:
    layers = np.zeros((4, len(costs)))
    layers[Kind.F] = costs
    layers[Kind.B] = 2 * layers[Kind.F]
    planner = Planner(Model(layers, ranks, np.zeros((ranks, ranks))))
    program = BY_NAME[name].program(ranks, microbatches)
    step_s = planner.evaluator(program)
    every = [step_s(cut) for cut in every_cut(len(costs), ranks)]
    assert planner.repartition(program).step_s == pytest.approx(min(every))
    assert planner.bound_s(microbatches) <= min(every) + 1e-9
    # The search that is used where there are many cuts ends at a cut that no single move betters.
    cut, found = descend(even_cut(len(costs), ranks), step_s)
    assert min(every) - 1e-9 <= found <= step_s(even_cut(len(costs), ranks)) + 1e-9
    assert found == pytest.approx(simulate(program, spread_costs(program, stage_costs(planner.costs, cut))).makespan_s)
    assert peak_activations(program, np.diff(cut).astype(float)).max() == held(program, cut)
