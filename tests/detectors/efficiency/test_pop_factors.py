"""The factors of the POP model: what they are where it is known, that they multiply, and that windows add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.efficiency.courses import Courses, Windows
from scalana.detectors.efficiency.ideal_network import ideal_network
from scalana.detectors.efficiency.pop_factors import FACTORS
from scalana.detectors.efficiency.run_efficiency import run_efficiency
from scalana.detectors.whatif.replay import prepare
from scalana.detectors.when.region_times import RegionTime
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps
from scalana.graphs.timeline import OwnWork
from tests.detectors import examples
from tests.detectors.simulator import simulate


def courses_of(timeline):
    return Courses(timeline, ideal_network(prepare(timeline)))


def efficiencies(program, **changes):
    """The factors of a whole simulated run, and its timeline."""
    timeline, _ = simulate(program)
    own = replace(timeline.own, **{name: change(timeline.own) for name, change in changes.items()})
    timeline = replace(timeline, own=own)
    return run_efficiency(courses_of(timeline), timeline, None).whole, timeline


def product_holds(found):
    assert found.communication == pytest.approx(found.serialisation * found.transfer)
    assert found.parallel == pytest.approx(found.load_balance * found.communication)
    assert found.useful == pytest.approx(found.parallel * found.stall * found.core)
    assert all(0.0 <= getattr(found, name) <= 1.0 + 1e-12 for name in FACTORS)


def test_ranks_that_work_unequally():
    """They work 70, 100, 70 and 70 ms, and meet."""
    found, _ = efficiencies(examples.decoy())
    product_holds(found)
    assert found.load_balance == pytest.approx(77.5 / 100)
    assert (found.serialisation, found.transfer, found.stall, found.core) == pytest.approx((1.0, 1.0, 1.0, 1.0))


def test_ranks_that_work_one_after_the_other():
    """Each of four does its 10 ms when the one before has done so."""
    program = [
        [*([("recv", rank - 1)] if rank else []), ("work", "w", 10), *([("send", rank + 1)] if rank < 3 else [])]
        for rank in range(4)
    ]
    for actions in program:
        actions.append(examples.everyone())
    found, _ = efficiencies(program)
    product_holds(found)
    assert found.load_balance == pytest.approx(1.0)
    assert found.serialisation == pytest.approx(10 / 40)
    assert found.transfer == pytest.approx(1.0)


def test_an_operation_that_takes_time_by_itself():
    program = [[("work", "w", 10), ("coll", "allreduce", [0, 1], -1, 30)] for _ in range(2)]
    found, _ = efficiencies(program)
    product_holds(found)
    assert (found.load_balance, found.serialisation) == pytest.approx((1.0, 1.0))
    assert found.transfer == pytest.approx(10 / 40)


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 2), (4, 8), (3, 1)])
def test_of_a_pipeline_what_is_missing_is_its_bubble(stages, microbatches):
    """Of ``m + p - 1`` turns each of ``p`` equal stages works in ``m``."""
    program = []
    for stage in range(stages):
        actions = []
        for _ in range(microbatches):
            actions += [("recv", stage - 1)] if stage else []
            actions += [("work", "forward", 10)]
            actions += [("send", stage + 1)] if stage < stages - 1 else []
        program.append([*actions, ("coll", "barrier", list(range(stages)), -1)])
    found, _ = efficiencies(program)
    product_holds(found)
    bubble = (stages - 1) / (microbatches + stages - 1)
    assert found.parallel == pytest.approx(1 - bubble)
    assert found.load_balance == pytest.approx(1.0)
    assert found.serialisation == pytest.approx(1 - bubble)


def test_stalls_and_waiting_for_a_core_have_factors_of_their_own():
    """Half of all work is asleep; of the rest a fourth has no core."""
    found, _ = efficiencies(
        examples.decoy(),
        cpu_s=lambda own: own.seconds * 3 / 8,
        core_wait_s=lambda own: own.seconds / 8,
    )
    product_holds(found)
    assert found.load_balance == pytest.approx(77.5 / 100)
    assert (found.stall, found.core) == pytest.approx((1 / 2, 3 / 4))
    assert found.useful == pytest.approx(77.5 / 100 * 3 / 8)


def test_one_process_has_these_alone():
    found, timeline = efficiencies([[("work", "w", 100)]], cpu_s=lambda own: own.seconds * 0.6)
    product_holds(found)
    assert (found.parallel, found.load_balance, found.communication) == (1.0, 1.0, 1.0)
    assert (found.stall, found.core) == pytest.approx((0.6, 1.0))
    nothing = replace(timeline, own=OwnWork(*(column[:0] for column in columns_of(timeline.own))))
    unknown = run_efficiency(courses_of(nothing), nothing, None).whole
    assert unknown.useful == 1.0  # what nobody looked at counts as work


def columns_of(own):
    return own.burst, own.activity, own.seconds, own.cpu_s, own.core_wait_s, own.samples


amounts = st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6)


def random_program(work, ways):
    """Steps in which three ranks work, hand on to the next or all meet, as ``ways`` say; with transfers."""
    program = [[] for _ in range(3)]
    for step, (row, (way, ms)) in enumerate(zip(work, ways, strict=False)):
        for rank in range(3):
            program[rank].append(("work", f"w{step}", row[rank] + 1))
        if way:
            for rank in range(3):
                program[rank].append(("coll", "allreduce", [0, 1, 2], -1, ms))
        else:
            program[step % 3].append(("send", (step + 1) % 3))
            program[(step + 1) % 3].append(("recv", step % 3, ms))
    return program


@settings(max_examples=80, deadline=None)
@given(
    amounts,
    st.lists(st.tuples(st.booleans(), st.integers(0, 40)), min_size=6, max_size=6),
    st.integers(0, 2**32 - 1),
)
def test_random_runs(work, ways, seed):
    """The ideal run is the one that is simulated without transfers; the factors multiply; windows add up."""
    timeline, _ = simulate(random_program(work, ways))
    without, _ = simulate(random_program(work, [(way, 0) for way, _ in ways]))
    np.testing.assert_allclose(ideal_network(prepare(timeline)).end_s, without.locations.end_s, atol=1e-9)

    random, own = np.random.default_rng(seed), timeline.own
    busy = random.uniform(0, 1, len(own))
    cpu_s = own.seconds * busy * random.uniform(0, 1, len(own))
    timeline = replace(timeline, own=replace(own, cpu_s=cpu_s, core_wait_s=own.seconds * busy - cpu_s))
    courses = courses_of(timeline)
    found = run_efficiency(courses, timeline, None).whole
    product_holds(found)
    ends = timeline.locations.end_s
    assert found.parallel == pytest.approx(own.seconds.sum() / (3 * ends.max()))
    assert found.useful == pytest.approx(timeline.own.cpu_s.sum() / (3 * ends.max()))
    assert found.serialisation * without.locations.end_s.max() == pytest.approx(
        np.bincount(np.append(timeline.calls.location, range(3))[own.burst], own.seconds).max()
    )

    edges = np.sort(random.uniform(0, ends.max(), 4))
    parts = Periods.of(np.repeat(edges[:-1, None], 3, axis=1), np.repeat(edges[1:, None], 3, axis=1))
    each, together = courses.totals(Windows(parts, each_row=True), Windows(parts))
    for name in ("outside_s", "cpu_s", "core_wait_s"):
        assert getattr(each, name).sum() == pytest.approx(getattr(together, name)[0])
    for one in filter(None, each.efficiencies()):
        product_holds(one)


def test_steps_have_their_own():
    """Of three steps the second is unbalanced."""
    program = [[] for _ in range(2)]
    for step in range(3):
        for rank in range(2):
            program[rank] += [("work", "w", 30 if rank and step == 1 else 10), ("coll", "allreduce", [0, 1], -1)]
    timeline, _ = simulate(program)
    edges = np.array([[0.0, 0.0], [0.01, 0.01], [0.04, 0.04], [0.05, 0.05]])
    steps = Steps("user", np.arange(3), edges[:-1], edges[1:])
    found = run_efficiency(courses_of(timeline), timeline, steps)
    assert [one.parallel for one in found.steps] == pytest.approx([1.0, 20 / 30, 1.0])
    assert found.whole.parallel == pytest.approx(40 / 50)
    assert found.elapsed_s == pytest.approx(0.05)
    late = replace(steps, warm_up=2)
    assert run_efficiency(courses_of(timeline), timeline, late).whole.parallel == pytest.approx(1.0)


def test_regions_have_their_own_of_the_ranks_that_enter_them():
    """Three ranks work 10, 20 and 20 ms in a region that the last never enters, and meet after it."""
    program = [[("work", "w", ms), ("coll", "allreduce", [0, 1, 2], -1), ("work", "v", 5)] for ms in (10, 20, 20)]
    timeline, _ = simulate(program)
    inside = Periods.joined(np.array([0, 1]), np.zeros(2), np.array([0.01, 0.02]), 3)
    around = Periods.joined(np.arange(3), np.zeros(3), np.full(3, 0.02), 3)
    regions = [
        RegionTime(path, 1, periods.rank_s(), np.zeros(3), periods)
        for path, periods in ((("step",), around), (("step", "inner"), inside))
    ]
    nowhere = replace(regions[0], path=("later",), periods=Periods.joined(np.zeros(0, int), *np.zeros((2, 0)), 3))
    found = run_efficiency(courses_of(timeline), timeline, None, regions, [nowhere])
    outer, inner = (one for _, one in found.regions)
    assert [path for path, _ in found.regions] == [("step",), ("step", "inner")]
    assert (outer.load_balance, outer.parallel) == pytest.approx((50 / 60, 50 / 60))
    assert inner.load_balance == pytest.approx(15 / 20)
    assert found.phases == ()


def test_set_up_and_end_are_not_of_the_run():
    """``MPI_Init`` takes 100 ms after 50 ms of start; the end begins when the work is done."""
    program = [
        [
            ("work", "start", 50),
            ("coll", "init", [0, 1], -1, 100),
            ("work", "w", 10 * (1 + rank)),
            ("coll", "finalize", [0, 1], -1, 70),
        ]
        for rank in range(2)
    ]
    timeline, _ = simulate(program)
    found = run_efficiency(courses_of(timeline), timeline, None)
    assert found.elapsed_s == pytest.approx(0.02)
    assert found.outside_s == pytest.approx(0.03)
    assert found.run.parallel == pytest.approx(15 / 20)


def test_work_counts_when_it_was_seen():
    """A burst of 100 ms computes first and sleeps then."""
    timeline, _ = simulate([[("work", "compute", 50), ("work", "sleep", 50)]])
    own = timeline.own
    own.cpu_s = np.where(own.activity == 0, own.seconds, 0.0)
    own.seen_row, own.seen_s = np.array([0, 1]), np.array([[0.0, 0.05], [0.05, 0.1]])
    halves = Periods.of(np.array([[0.0], [0.05]]), np.array([[0.05], [0.1]]))
    found = courses_of(timeline).totals(Windows(halves, each_row=True))[0].efficiencies()
    assert [one.stall for one in found] == pytest.approx([1.0, 0.0])
