"""The replay gives measured times back, and predicts what a fix really brings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.replay import prepare, time_order
from tests.detectors import examples
from tests.detectors.simulator import simulate

PROGRAMS = [
    examples.decoy(),
    examples.chain(),
    examples.grid(),
    examples.masked(),
    examples.moving(),
    examples.late_root(),
    examples.absorbed(),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_change_the_measured_times_come_back(program):
    timeline, _ = simulate(program)
    np.testing.assert_allclose(prepare(timeline).end_s(), timeline.locations.end_s, atol=1e-12)


def saving_ms(program, name, ranks, to_ms):
    """Predicted saving of shortening every stretch of an activity to ``to_ms``."""
    timeline, names = simulate(program)
    own = timeline.own
    gap_location = np.concatenate([timeline.calls.location, np.arange(timeline.ranks)])[own.gap]
    hit = (own.activity == names.index(name)) & np.isin(gap_location, ranks)
    removed = np.bincount(
        own.gap[hit],
        np.maximum(own.seconds[hit] - to_ms / 1e3, 0),
        minlength=len(timeline.calls) + timeline.ranks,
    )
    return (timeline.locations.end_s.max() - prepare(timeline).end_s(removed).max()) * 1e3


def test_savings_of_the_worked_examples():
    assert saving_ms(examples.decoy(), "mask", [1], 10) == pytest.approx(30)
    assert saving_ms(examples.chain(), "assemble", [0], 10) == pytest.approx(30)
    assert saving_ms(examples.grid(), "refine", [3], 0) == pytest.approx(30)
    assert saving_ms(examples.masked(), "f", [1], 10) == pytest.approx(10)
    assert saving_ms(examples.moving(), "rebuild", [0, 1, 2, 3], 0) == pytest.approx(240)
    assert saving_ms(examples.moving(), "rebuild", [0], 0) == pytest.approx(60)
    assert saving_ms(examples.late_root(), "save", [0], 0) == pytest.approx(50)
    assert saving_ms(examples.absorbed(), "x", [1], 20) == pytest.approx(10)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6), st.data())
def test_a_replay_with_less_work_is_the_simulation_of_the_program_with_less_work(steps, data):
    def program(costs):
        pair = ("coll", "allreduce", [0, 1], -1)
        everyone = ("coll", "allreduce", [0, 1, 2], -1)
        return [
            [
                action
                for step in costs
                for action in [("work", "w", step[rank]), *([pair] if rank < 2 else []), everyone]
            ]
            for rank in range(3)
        ]

    less = [[data.draw(st.integers(0, cost)) for cost in step] for step in steps]
    timeline, _ = simulate(program(steps))
    changed, _ = simulate(program(less))
    removed = np.zeros(len(timeline.calls) + 3)
    gaps = timeline.own.gap
    removed[gaps] = timeline.own.seconds - changed.own.seconds
    np.testing.assert_allclose(prepare(timeline).end_s(removed), changed.locations.end_s, atol=1e-12)


@pytest.mark.parametrize("crowded", [0, 50, 20_000])
def test_times_are_ordered_however_they_are_spread(crowded):
    random = np.random.default_rng(0)
    time_s = np.concatenate((random.random(40_000), np.round(random.random(crowded) * 1e-5, 7)))
    random.shuffle(time_s)
    np.testing.assert_array_equal(time_order(time_s), np.argsort(time_s, kind="stable"))
