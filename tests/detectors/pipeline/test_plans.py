"""Plans: orders that run and keep memory, known optima, and a search that keeps its word."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.pipeline.model.actions import Kind, peak_activations, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.schedules import stage_placement
from scalana.detectors.pipeline.model.simulate import simulate
from scalana.detectors.pipeline.model.torch_csv import parse_torch_csv, write_torch_csv
from scalana.detectors.pipeline.plans import front, means
from scalana.detectors.pipeline.plans.assignment import Stages, stage_costs_of
from scalana.detectors.pipeline.plans.bounds import lower_bound
from scalana.detectors.pipeline.plans.document import read_plan, to_json
from scalana.detectors.pipeline.plans.from_run import numbered
from scalana.detectors.pipeline.plans.list_schedule import Policy, Split, Tie, Turn, list_schedule
from scalana.detectors.pipeline.plans.profile import (
    LayerProfile,
    Now,
    ProfileError,
    join_ends,
    recompute,
    split_layer,
    uniform_cut,
)
from scalana.detectors.pipeline.plans.profile_file import read_document, to_document
from scalana.detectors.pipeline.plans.proposal import Asked, propose, without_wall
from scalana.detectors.pipeline.plans.search import BASIC, Effort, search
from scalana.detectors.pipeline.plans.seeds import even_loads

IDEAL = ENGINES["ideal"]
SMALL = Effort(actions=8e5)


def profile(
    layers: int, ranks: int, microbatches: int, head: float = 1.0, price: float = 0.0, **others: Any
) -> LayerProfile:
    """Layers of F = I = W = 1, the last one ``head`` times as expensive; splitting a backward costs ``price``."""
    cost = np.ones(layers)
    cost[-1] = head
    made = LayerProfile(
        names=tuple(f"layer{i}" for i in range(layers)),
        seconds=np.array([[1.0], [2.0 - price], [1.0], [1.0]]) * cost,
        activation=np.ones(layers),
        output=np.zeros(layers),
        static=np.zeros(layers),
        ranks=ranks,
        microbatches=microbatches,
        latency_s=np.zeros((ranks, ranks)),
    )
    return replace(made, **others)


policies = st.builds(
    Policy,
    turn=st.sampled_from(Turn),
    forward=st.sampled_from(Tie),
    backward=st.sampled_from(Tie),
    split=st.sampled_from(Split),
    gap=st.sampled_from([0.0, 0.5, 1.0]),
    patience=st.sampled_from([0.0, 0.5]),
    ahead=st.sampled_from([1.0, 1.5, np.inf]),
    reserve=st.sampled_from([0.0, 1.0, 2.0]),
    weights_first=st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), policies, st.sampled_from([1.0, 1.2, 2.0, np.inf]))
def test_any_policy_comes_to_an_end_within_memory(seed: int, policy: Policy, room: float) -> None:
    draw = np.random.default_rng(seed)
    ranks, microbatches = int(draw.integers(1, 5)), int(draw.integers(1, 9))
    layers = int(draw.integers(ranks, 3 * ranks + 1))
    held = draw.permutation(np.concatenate([np.arange(ranks), draw.integers(0, ranks, layers - ranks)]))
    one = profile(layers, ranks, microbatches)
    one = replace(
        one,
        seconds=one.seconds * draw.uniform(0.2, 3, layers),
        activation=draw.uniform(0.2, 3, layers),
        static=draw.uniform(0, 2, layers),
    )
    stages = Stages.of_layers(held)
    costs = stage_costs_of(one, stages, IDEAL)
    least = costs.static + np.bincount(stages.rank, costs.activation, minlength=ranks)
    limit = least * room
    found = list_schedule(costs, microbatches, limit, policy)
    program = found.program(merge=False)
    program.check()
    assert (program.stages, program.microbatches) == (stages.count, microbatches)
    assert program.rank_of_stage.tolist() == stages.rank.tolist()
    assert simulate(program, spread_costs(program, costs.seconds)).makespan_s <= found.makespan_s + 1e-9
    peak = peak_activations(program, costs.activation)
    assert peak == pytest.approx(found.peak) and (costs.static + peak <= limit * (1 + 1e-6)).all()
    merged = found.program()
    merged.check()
    assert (peak_activations(merged, costs.activation) <= peak + 1e-9).all()
    if room == 1.0:
        short = list_schedule(costs, microbatches, limit * 0.99, policy)
        assert short.makespan_s == np.inf


@pytest.mark.parametrize("ranks, microbatches", [(4, 8), (8, 32)])
def test_zb_h1_is_found_at_its_memory(ranks: int, microbatches: int) -> None:
    plan, _ = search(profile(ranks, ranks, microbatches).within(float(ranks)), IDEAL, SMALL)
    # Qi et al.: all work of a rank, and the forwards before the last one.
    assert plan.step_s == pytest.approx(3 * microbatches + ranks - 1)
    assert plan.peak <= ranks


@pytest.mark.parametrize("ranks, microbatches", [(4, 8), (4, 12)])
def test_zb_v_is_found_at_its_memory(ranks: int, microbatches: int) -> None:
    plan, _ = search(profile(2 * ranks, ranks, microbatches).within(2.0 * ranks), IDEAL, SMALL)
    assert plan.step_s <= 6 * microbatches + ranks - 1 + 1e-9
    assert plan.peak <= 2 * ranks


def test_a_tight_limit_does_not_serialise() -> None:
    """Two chunks in a V at the memory of 1F1B: the usual trap of greedy schedules."""
    one = profile(16, 8, 16).within(16.0)
    v = Stages(np.arange(17), np.array(stage_placement("v", 8, 2)))
    costs = stage_costs_of(one, v, IDEAL)
    taken = [list_schedule(costs, 16, one.limits, policy).makespan_s for policy in BASIC]
    assert min(taken) <= 6 * 16 + 7
    assert max(taken) < 2 * (6 * 16 + 7)


def test_whole_backwards_where_splitting_costs() -> None:
    dear = profile(4, 4, 8, price=0.8)
    whole, _ = search(dear, IDEAL, SMALL, splits=False)
    free, _ = search(dear, IDEAL, SMALL)
    assert not whole.splits
    assert free.step_s <= whole.step_s + 1e-9
    split = (free.program.kind == Kind.I).mean()
    assert split < (search(profile(4, 4, 8), IDEAL, SMALL)[0].program.kind == Kind.I).mean()


def test_a_heavy_head_gets_fewer_layers_beside_it() -> None:
    one = profile(17, 4, 16, head=4.0)
    plan, _ = search(one, IDEAL, SMALL)
    base = means.uniform_plan(one)
    assert base is not None and base.step_s > 1.2 * plan.step_s
    assert plan.step_s >= lower_bound(one).step_s - 1e-9
    assert plan.step_s < 1.06 * lower_bound(one).step_s


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_nothing_passes_the_bound(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ranks, microbatches = int(draw.integers(1, 4)), int(draw.integers(1, 6))
    layers = int(draw.integers(ranks, 8))
    one = profile(layers, ranks, microbatches)
    one = replace(one, seconds=one.seconds * draw.uniform(0.1, 3, layers))
    plan, _ = search(one, IDEAL, Effort(actions=1e5))
    assert plan.step_s >= lower_bound(one).step_s * (1 - 1e-9)


def test_the_same_seed_gives_the_same_plan_and_the_budget_is_kept() -> None:
    one = profile(19, 4, 12, head=3.0)
    plans = [search(one, ENGINES["torch"], replace(SMALL, seed=3))[0] for _ in range(2)]
    assert write_torch_csv(plans[0].program) == write_torch_csv(plans[1].program)
    assert plans[0].step_s == plans[1].step_s
    quick, state = search(one, ENGINES["torch"], replace(SMALL, budget_s=0.0))
    assert state.tried < 5 and state.over and quick.step_s >= plans[0].step_s


def test_without_room_it_says_what_is_needed() -> None:
    with pytest.raises(ProfileError, match="4 per rank if spread evenly"):
        search(profile(16, 4, 8).within(3.0), IDEAL, SMALL)
    with pytest.raises(ProfileError, match="cannot be given to 8 ranks"):
        search(profile(4, 8, 8), IDEAL, SMALL)


@pytest.mark.slow
def test_more_memory_is_never_slower() -> None:
    one = profile(17, 4, 12, head=4.0)
    plan, _ = search(one.within(16.0), IDEAL, SMALL)
    found = front.time_memory_front(one.within(16.0), plan, IDEAL, replace(SMALL, actions=2e6))
    assert [p.peak for p in found] == sorted(p.peak for p in found)
    assert [p.step_s for p in found] == sorted((p.step_s for p in found), reverse=True)
    assert len(found) > 1 and found[0].peak < 16 < found[-1].peak


@pytest.mark.slow
def test_a_wall_is_told_with_what_splitting_it_brings() -> None:
    one = profile(17, 4, 12, head=16.0)
    plan, _ = search(one, IDEAL, SMALL)
    assert lower_bound(one).by_wall and lower_bound(one).wall == 16
    wall = without_wall(one, IDEAL, SMALL)
    assert wall is not None and wall.layer == 16
    assert wall.plan.step_s < 0.75 * plan.step_s
    assert without_wall(profile(16, 4, 8), IDEAL, SMALL) is None


def test_a_split_layer_is_as_much_in_all() -> None:
    one = profile(5, 2, 4, head=3.0, output=np.arange(5.0), static=np.ones(5))
    split = split_layer(one, 4, 3)
    assert split.layers == 7 and split.names[4:] == ("layer4[0/3]", "layer4[1/3]", "layer4[2/3]")
    assert split.seconds.sum() == pytest.approx(one.seconds.sum())
    assert split.static.sum() == pytest.approx(5) and split.output.tolist() == [0, 1, 2, 3, 4, 4, 4]


def test_recomputing_keeps_inputs_and_costs_a_forward() -> None:
    one = profile(4, 2, 4, activation=np.full(4, 10.0), output=np.full(4, 2.0), unit="bytes")
    anew = recompute(one)
    assert anew.activation.tolist() == [2.0] * 4 and anew.beside == 10.0
    assert (anew.seconds[Kind.B] == one.seconds[Kind.B] + 1).all() and (anew.seconds[Kind.F] == 1).all()
    tight, _ = search(anew.within(30.0), IDEAL, SMALL)
    assert tight.peak <= 30.0
    with pytest.raises(ProfileError, match="--recompute"):
        search(one.within(15.0), IDEAL, SMALL)


def test_loads_are_evened_out_by_moving_borders() -> None:
    work = np.array([1.0, 1, 1, 1, 1, 1, 1, 5])
    even = even_loads(Stages(np.array([0, 2, 4, 6, 8]), np.array([0, 1, 0, 1])), work, 2)
    assert np.bincount(even.rank_of_layer, work).tolist() == [6, 6]


def test_a_uniform_cut_leaves_the_head_outside() -> None:
    one = profile(10, 4, 8, outside=(0, 9))
    assert uniform_cut(one, 4).tolist() == [0, 3, 5, 7, 10]
    with pytest.raises(ProfileError, match="8 blocks cannot be cut into 9"):
        uniform_cut(one, 9)


def test_engines_say_what_they_can_express() -> None:
    one = profile(17, 4, 8, head=3.0, outside=(16,)).within(24.0)
    plan, _ = search(one, ENGINES["torch"], replace(SMALL, actions=2e6))
    for of in means.ENGINES_WITH_MEANS:
        found = of(one, SMALL)
        assert found.plan is not None, found
        assert found.plan.peak <= 24
        assert found.plan.step_s >= plan.step_s * 0.97
    titan = means.torchtitan(one, SMALL)
    assert titan.plan is not None and len(set(np.bincount(titan.plan.stages.rank).tolist())) == 1
    (layout,) = [line for line in means.megatron(one, SMALL).settings if "layout" in line]
    assert layout.count("t") and "E" in layout and layout.endswith('L"')
    assert "self.parts = [0, " in "\n".join(means.deepspeed(one, SMALL).settings)


def test_engines_keep_what_they_cannot_part() -> None:
    # Megatron has no word between what follows the blocks, nor rounds of interleaved 1F1B with 5 microbatches.
    one = profile(12, 2, 5, outside=(0, 10, 11))
    joined, cut = join_ends(one)
    assert (joined.names[-1], joined.outside, cut.tolist()) == ("layer10 + layer11", (0, 10), [*range(11), 12])
    assert joined.seconds[Kind.F, -1] == 2.0
    plan = means.megatron(one, SMALL).plan
    assert plan is not None and plan.stages.count == 2 and 11 not in plan.stages.cut
    assert means.megatron(replace(one, outside=(5,)), SMALL).plan is None
    # torchtitan has two stages a rank in a V, and looks into lists of the model itself.
    one = profile(12, 2, 6)
    titan = means.torchtitan(one, SMALL).plan
    assert titan is not None and (titan.stages.count == 4 or titan.stages.rank.tolist()[:3] == [0, 1, 0])
    for names in (("a.b.c", *one.names[1:]), (one.names[1], *one.names[1:])):
        assert means.torchtitan(replace(one, names=names), SMALL).plan is None
    assert numbered(("e", "l.0", "l.1", "l.0", "e", "h")) == ("e.0", "l.0", "l.1", "l.2", "e.1", "h")


def test_what_runs_now_is_the_baseline_where_an_engine_has_it() -> None:
    now = Now("torch-1f1b", "1F1B", 60.0, (0, 0, 0, 0, 0, 1), 9.0)
    one = profile(6, 2, 4, now=now)
    for engine in ("torch", "megatron", "deepspeed"):
        plan = means.present_plan(one, engine)
        assert plan is not None and plan.stages.cut.tolist() == [0, 5, 6]
    two = means.present_plan(replace(one, now=replace(now, schedule="GPipe")), "deepspeed")
    assert two is not None and (two.text, two.stages.cut.tolist()) == ("uniform 1F1B", [0, 3, 6])


def test_a_profile_survives_its_file() -> None:
    one = profile(6, 2, 4, price=0.2, outside=(5,), output=np.full(6, 4.0), bytes_per_s=1e9, host_s=0.1)
    one = replace(one.within(7.0), latency_s=np.array([[0, 1.0], [2.0, 0]]))
    back = read_document(json.loads(json.dumps(to_document(one))), "file")
    for field in ("seconds", "activation", "output", "static", "latency_s", "capacity"):
        assert np.array_equal(getattr(back, field), getattr(one, field)), field
    assert (back.names, back.outside, back.bytes_per_s, back.host_s) == (one.names, one.outside, 1e9, 0.1)
    assert read_document(to_document(one), "file", ranks=3).latency_s[0, 1] == 1.5


@pytest.mark.parametrize(
    "change, says",
    [
        ({"schema": "other"}, "neither a file of layer costs"),
        ({"schema": "scalana.layers/9"}, "schema scalana.layers/9 is not supported"),
        ({"layers": []}, "layers must be a list"),
        ({"layers": [{"name": "a", "forward_s": "x"}]}, "forward_s must be a number"),
        ({"layers": [{"name": "a", "forward_s": 1, "backward_s": -1}]}, "must be numbers from 0"),
        ({"ranks": 5}, "cannot be given to 5 ranks"),
        ({"latency_s": [1, 2]}, "shape"),
        ({"now": {"rank_of_layer": [0]}}, "one rank for each"),
    ],
)
def test_what_is_wrong_with_a_profile_is_said(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ProfileError, match=says):
        read_document(to_document(profile(4, 1, 4)) | change, "file")


def test_profiles_of_others_are_read() -> None:
    simpipe = {
        "pattern": "MM-",
        "forward_ms": {"E": 1, "M": 2, "-": 3, "L": 4},
        "backward_ms": {"E": 1, "M": 4, "-": 5, "L": 8},
        "weight_ms": {"M": 1},
    }
    one = read_document(simpipe, "nano.json", 2, 8)
    assert one.names == ("E0", "M0", "M1", "-0", "L0") and one.outside == (0, 4)
    assert one.seconds[:, 1].tolist() == pytest.approx([0.002, 0.005, 0.004, 0.001])
    listed = read_document({"f": [1, 2], "b": [2, 4], "arch": ["M", "H"]}, "stage_time", 2, 8)
    assert listed.seconds[Kind.B].tolist() == pytest.approx([0.002, 0.004])
    with pytest.raises(ProfileError, match="--ranks and --microbatches"):
        read_document(simpipe, "nano.json")


def test_a_proposal_is_written_and_read_back() -> None:
    one = profile(9, 2, 6, head=3.0)
    proposal = propose(one, Asked(), replace(SMALL, actions=2e6))
    document = json.loads(json.dumps(to_json(proposal), allow_nan=False))
    order = write_torch_csv(proposal.plan.program)
    back = read_plan(document, order, "plan.json")
    assert back.plan.step_s == proposal.plan.step_s
    assert back.plan.stages.key == proposal.plan.stages.key
    assert parse_torch_csv(order).size == proposal.plan.program.size
    assert proposal.uniform is not None and proposal.plan.peak <= proposal.uniform.peak
    with pytest.raises(ProfileError, match="other stages"):
        document["plan"]["stages"][0]["rank"] = 1 - document["plan"]["stages"][0]["rank"]
        read_plan(document, order, "plan.json")
