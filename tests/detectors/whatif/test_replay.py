"""The replay gives measured times back, and predicts what a fix really brings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.whatif.replay import Change, prepare
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


def saving_ms(program, name, ranks, to_ms, skew=None):
    """Predicted saving of shortening every stretch of an activity to ``to_ms``; ``skew`` is a location whose clock
    differs, and by how many seconds."""
    timeline, names = simulate(program)
    if skew:
        timeline = skewed(timeline, *skew)
    own = timeline.own
    burst_location = np.concatenate([timeline.calls.location, np.arange(timeline.ranks)])[own.burst]
    hit = (own.activity == names.index(name)) & np.isin(burst_location, ranks)
    removed = np.bincount(
        own.burst[hit],
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
    gaps = timeline.own.burst
    removed[gaps] = timeline.own.seconds - changed.own.seconds
    np.testing.assert_allclose(prepare(timeline).end_s(removed), changed.locations.end_s, atol=1e-12)


def test_changes_that_are_replayed_side_by_side_do_not_touch_each_other():
    timeline, names = simulate(examples.moving())
    own, random = timeline.own, np.random.default_rng(1)
    prepared = prepare(timeline)
    changes = []
    for _ in range(9):
        removed = np.bincount(own.burst, own.seconds * random.random(len(own)), len(timeline.calls) + timeline.ranks)
        shorter = np.where(random.random(len(timeline.calls)) < 0.5, 1e-4, 0.0)
        changes.append((removed, random.random(timeline.ranks) * 1e-3, shorter))
    together = prepared.ends_s([None, *(Change.of(*change) for change in changes)])
    alone = [prepared.end_s(), *(prepared.end_s(*change) for change in changes)]
    np.testing.assert_array_equal(together, alone)
    assert len({tuple(end) for end in together}) == 10


def skewed(timeline, location, by_s):
    """The same run with another clock at a location."""
    calls, locations = timeline.calls, timeline.locations
    own = slice(calls.first[location], calls.first[location + 1])
    for column, rows in (
        (calls.enter_s, own),
        (calls.exit_s, own),
        (locations.start_s, location),
        (locations.end_s, location),
    ):
        column[rows] += by_s
    return timeline


@pytest.mark.parametrize("by_s", [-0.5, 0.5])
def test_clocks_that_differ_are_left_to_differ(by_s):
    timeline = skewed(simulate(examples.decoy())[0], 1, by_s)
    np.testing.assert_allclose(prepare(timeline).end_s(), timeline.locations.end_s, atol=1e-12)


@pytest.mark.parametrize("by_s", [-2e-4, 2e-4])
@pytest.mark.parametrize("location", range(4))
@pytest.mark.parametrize(
    ("work", "saving"),
    [
        ((examples.chain(), "assemble", [0], 10), 30),
        ((examples.grid(), "refine", [3], 0), 30),
        ((examples.moving(), "rebuild", [0], 0), 60),
    ],
    ids=["messages", "rows and columns", "in turns"],
)
def test_clocks_that_differ_a_little_do_not_undo_what_is_saved(work, saving, location, by_s):
    """A message seems to have been there before it was sent: whoever waited for it left before that."""
    assert saving_ms(*work, (location, by_s)) == pytest.approx(saving, abs=1.0)


def test_of_a_circle_of_waits_every_location_comes_to_its_end():
    everyone = ("coll", "allreduce", [0, 1], -1)
    program = [[("work", "w", 10 + rank), everyone, ("work", "w", 10), everyone] for rank in range(2)]
    timeline, _ = simulate(program)
    calls, instances = timeline.calls, timeline.instances
    one, other = calls.first[1], calls.first[1] + 1
    for column in (calls.posts, calls.waits):  # each of these calls waits for one instance
        column[[one, other]] = column[[other, one]]
    mixed = instances.members.copy()
    mixed[instances.members == one], mixed[instances.members == other] = other, one
    instances.members = mixed
    end_s = prepare(timeline).end_s()
    assert np.isfinite(end_s).all()
    assert (end_s >= 0.02).all()
