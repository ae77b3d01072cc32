"""The simulator against a plain one that reads like the engines, and what must hold of any replay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.pipeline.diagnosis.roots import find_roots
from scalana.detectors.pipeline.model.actions import Action, Kind, Program, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.lowering import lower
from scalana.detectors.pipeline.model.schedules import BY_NAME, SCHEDULES
from scalana.detectors.pipeline.model.simulate import Deadlock, Links, Setting, replay, simulate
from tests.detectors.pipeline import oracle
from tests.detectors.pipeline.examples import uniform
from tests.detectors.pipeline.test_schedules import torch_schedule


def durations(program: Program, seed: int) -> np.ndarray:
    """Durations that differ in every action."""
    return np.random.default_rng(seed).uniform(0.5, 3.0, program.size)


def compare(program: Program, engine: str, seed: int, latency: float, plain) -> None:
    """Every action begins and ends when the plain simulator says so."""
    duration = durations(program, seed)
    table = {(a.kind, a.stage, a.microbatch): i for i in range(program.size) for a in [program.action(i)]}
    world = oracle.World(
        program.orders(),
        lambda action: duration[table[action.kind, action.stage, action.microbatch]],
        latency,
        ENGINES[engine].rendezvous,
    )
    makespan = oracle.run(world, plain)
    timeline = simulate(program, duration, ENGINES[engine], latency)
    for key, index in table.items():
        assert timeline.action_begin_s[index] == pytest.approx(world.begin[key])
        assert timeline.action_end_s[index] == pytest.approx(world.end[key])
    assert timeline.makespan_s == pytest.approx(makespan)


@pytest.mark.parametrize("latency", [0.0, 0.7])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_every_schedule_as_the_plain_simulator_has_it(schedule, latency: float) -> None:
    for ranks, microbatches in ((2, 4), (4, 8), (3, 9)):
        compare(schedule.program(ranks, microbatches, 2), "ideal", ranks, latency, oracle.ideal)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("latency", [0.0, 0.7])
def test_blocking_sends_of_every_engine(seed: int, latency: float) -> None:
    for ranks, microbatches in ((2, 3), (4, 8), (5, 7), (5, 3)):
        program = BY_NAME["1F1B"].program(ranks, microbatches)
        compare(program, "torch-1f1b", seed, latency, oracle.torch_1f1b)
        compare(program, "megatron", seed, latency, oracle.megatron_1f1b)
        compare(program, "deepspeed", seed, latency, oracle.deepspeed_1f1b)


@pytest.mark.parametrize("latency", [0.0, 0.7])
def test_batches_of_megatrons_interleaved_schedule(latency: float) -> None:
    for ranks, microbatches, chunks in ((2, 4, 2), (3, 6, 2), (4, 8, 2), (2, 6, 3)):
        program = BY_NAME["Interleaved1F1B"].program(ranks, microbatches, chunks)
        for seed in range(3):
            compare(program, "megatron-interleaved", seed, latency, oracle.megatron_interleaved)
            compare(program, "megatron-overlap", seed, latency, oracle.megatron_overlap)


@pytest.mark.slow
@pytest.mark.parametrize("name", [s.name for s in SCHEDULES if s.torch_class and s.name not in ("GPipe", "1F1B")])
def test_the_runtime_of_torch_with_its_own_lowering(name: str) -> None:
    lowered = torch_schedule(name, 4, 8, 2).pipeline_order_with_comms
    for seed in range(3):
        compare(BY_NAME[name].program(4, 8, 2), "torch", seed, 0.3, oracle.torch_runtime(lowered))


def test_overlapped_pairs_send_after_both() -> None:
    # DualPipeV is 27 with F = I = W = 1/2 a chunk; were a forward sent before its partner's backward, it would be 25.5.
    program = BY_NAME["DualPipeV"].program(4, 8)
    apart = Program(program.first, program.kind, program.stage, program.microbatch, np.zeros(program.size, bool))
    costs = uniform(8) / 2
    assert simulate(program, spread_costs(program, costs)).makespan_s == 27
    assert simulate(apart, spread_costs(apart, costs)).makespan_s == 25.5


def test_a_link_that_is_taken_delays_the_next_message() -> None:
    program = BY_NAME["GPipe"].program(2, 3)
    operations = lower(program)
    duration = spread_costs(program, uniform(2, f=1.0, b=1.0))
    timeline = replay(operations, Setting.plain(operations, duration, Links.uniform(operations, 0.0, occupied_s=2.0)))
    # Forwards end at 1, 2, 3; each message takes the link for 2: they arrive at 3, 5, 7.
    begins = timeline.action_begin_s[program.position[Kind.F, 1]]
    assert begins.tolist() == [3, 5, 7]


def test_a_deadlock_names_ranks_and_actions() -> None:
    orders = [[Action(Kind.F, 0, m) for m in (0, 1)], [Action(Kind.F, 1, m) for m in (0, 1)]]
    crossed = [orders[0] + [Action(Kind.F, 2, m) for m in (0, 1)], orders[1]]
    crossed[0] = [crossed[0][0], crossed[0][3], crossed[0][1], crossed[0][2]]
    with pytest.raises(Deadlock, match=r"rank 0, before 2F1, for 1F1 of rank 1; rank 1, before 1F1, for 0F1 of rank 0"):
        simulate(Program.of(crossed), np.ones(6))
    # Interleaved with sends that wait at once: all ranks send, nobody receives.
    program = BY_NAME["Interleaved1F1B"].program(4, 8, 2)
    with pytest.raises(Deadlock, match=r"rank 0, after 0F3, for rank 1 to receive it"):
        simulate(program, np.ones(program.size), ENGINES["megatron"])


def test_waits_name_what_released_them() -> None:
    program = BY_NAME["1F1B"].program(4, 8)
    slow = uniform(4)
    slow[:, 3] *= 1.75
    operations = lower(program)
    setting = Setting.plain(operations, spread_costs(program, slow))
    timeline = replay(operations, setting)
    roots = find_roots(timeline, setting)
    idle = timeline.makespan_s * 4 - setting.duration_s.sum()
    assert roots.waiting_s.sum() == pytest.approx(idle, rel=1e-5)  # shares are single-precision
    assert roots.critical_s.sum() == pytest.approx(timeline.makespan_s)
    # The slow stage computes all the time but for fill and drain, each through the three others.
    assert roots.critical_share().argmax() == 3
    assert roots.critical_s[3] == pytest.approx(8 * 3 * 1.75)
    assert roots.critical_s[:3].tolist() == pytest.approx([3, 3, 3])


names = st.sampled_from([schedule.name for schedule in SCHEDULES])
shapes = st.tuples(st.integers(2, 4), st.integers(2, 3)).map(lambda pair: (pair[0], pair[0] * pair[1]))


@settings(max_examples=60, deadline=None)
@given(names, shapes, st.integers(0, 10**6), st.sampled_from(["ideal", "torch"]), st.floats(0, 2))
def test_what_holds_of_any_replay(name: str, shape: tuple[int, int], seed: int, engine: str, latency: float) -> None:
    program = BY_NAME[name].program(*shape, 2)
    duration = durations(program, seed)
    operations = lower(program, ENGINES[engine])
    setting = Setting.plain(operations, duration, Links.uniform(operations, latency))
    setting.lead_s[:] = np.random.default_rng(seed).uniform(0, 0.2, operations.size)
    timeline = replay(operations, setting)
    # Nothing begins before what it needs, and ranks do one thing at a time.
    producer, consumer = operations.sender, operations.receiver
    assert (timeline.action_begin_s[consumer] >= timeline.action_end_s[producer] + latency - 1e-9).all()
    for rank in range(program.ranks):
        rows = slice(program.first[rank], program.first[rank + 1])
        assert (timeline.action_begin_s[rows][1:] >= timeline.action_end_s[rows][:-1] - 1e-9).all()
    # Less of anything never takes longer.
    shorter = Setting(duration * 0.9, setting.links, setting.lead_s, setting.ready_s, setting.tail_s)
    quick = Setting(duration, Links.none(operations), setting.lead_s, setting.ready_s, setting.tail_s)
    lazy = Setting.plain(operations, duration, setting.links)
    for less in (shorter, quick, lazy):
        assert replay(operations, less).makespan_s <= timeline.makespan_s + 1e-9
    # Waiting is handed out to its roots without remainder, and so is the critical path.
    roots = find_roots(timeline, setting)
    busy = duration.sum() + setting.lead_s.sum()
    assert roots.waiting_s.sum() == pytest.approx(timeline.makespan_s * program.ranks - busy, rel=1e-5)
    assert roots.critical_s.sum() == pytest.approx(timeline.makespan_s)
    assert (roots.waiting_s >= -1e-9).all()
