"""What goes from single gaps between calls: no more uneven than the run was."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.thresholds.counts import SHOWS_THE_SPREAD
from scalana.detectors.whatif.shrinkage import steadied
from scalana.graphs.timeline import Timeline
from tests.detectors import examples
from tests.detectors.jobs import analyse
from tests.detectors.simulator import simulate

STEPS = 400
PERIOD_S = 0.005


def found_by_chance(seed: int) -> tuple[Timeline, np.ndarray, np.ndarray]:
    """Four ranks that meet every 4 ms, of which rank 0 takes 3 at ``extra``, where a sample in each of its gaps found
    it or not. The rows of these samples, and what is removed of every gap: all that was found."""
    more = {"extra": 3}
    program = [[*examples.work(own=1, **(more if rank == 0 else {})), examples.everyone()] * STEPS for rank in range(4)]
    timeline, names = simulate(program, period_s=PERIOD_S)
    own = timeline.own
    rows = np.flatnonzero(timeline.activities.vertex[own.activity] == names.index("extra"))
    there = np.random.default_rng(seed).random(STEPS) < 0.75
    for row, found in ((rows, there), (rows - 1, ~there)):
        own.seconds[row] = np.where(found, 0.004, 0.0)
        own.samples[row] = found
    return timeline, rows, np.bincount(own.burst[rows], own.seconds[rows], len(timeline.calls) + 4)


def steady(timeline: Timeline, rows: np.ndarray, removed: np.ndarray) -> np.ndarray:
    return steadied(removed, timeline.own.burst[rows], timeline.own.seconds[rows], timeline)


@pytest.mark.parametrize("seed", range(4))
def test_gaps_of_a_kind_lose_alike(seed: int) -> None:
    timeline, rows, removed = found_by_chance(seed)
    result = steady(timeline, rows, removed)
    assert result.sum() == pytest.approx(removed.sum())
    inner = result[1:STEPS]  # the first gap has no call before it
    assert inner.mean() == pytest.approx(0.003, rel=0.1)
    assert inner.std() < 0.1 * removed[1:STEPS].std()
    assert (result[STEPS:] == 0.0).all(), "the other ranks lose nothing"


def test_what_differs_by_more_than_chance_is_kept() -> None:
    timeline, rows, removed = found_by_chance(0)
    timeline.own.samples *= 50  # each gap was looked at so often that little is left to chance
    np.testing.assert_allclose(steady(timeline, rows, removed), removed, atol=0.05 * 0.004)


def test_few_gaps_tell_nothing_of_each_other() -> None:
    timeline, rows, removed = found_by_chance(0)
    timeline.own.seconds[timeline.own.burst >= SHOWS_THE_SPREAD] = 0.0
    removed[SHOWS_THE_SPREAD:] = 0.0
    assert (steady(timeline, rows, removed) == removed).all()


def test_gaps_of_other_lengths_are_of_another_kind() -> None:
    timeline, rows, removed = found_by_chance(0)
    longer = np.arange(STEPS) % 10 == 0
    for row in (rows, rows - 1):
        timeline.own.seconds[row[longer]] *= 5
    removed[:STEPS] *= np.where(longer, 5.0, 0.0)
    result = steady(timeline, rows, removed)[:STEPS]
    assert (result[~longer] == 0.0).all() and result.sum() == pytest.approx(removed.sum())


def test_without_samples_nothing_changes() -> None:
    timeline, rows, removed = found_by_chance(0)
    timeline.period_s = 0.0
    assert steady(timeline, rows, removed) is removed


@pytest.mark.parametrize(("every", "late_ms"), [(1, 3.0), (5, 15.0)])
def test_who_is_late_in_short_steps_saves_all_that_others_wait_for(every: int, late_ms: float) -> None:
    """Steps of a millisecond, of which rank 0 does more in each, or much more in each fifth."""
    program = [
        [
            action
            for step in range(STEPS)
            for action in (
                *examples.work(own=1.0, late=late_ms if rank == 0 and step % every == 0 else 0.0),
                examples.everyone(),
            )
        ]
        for rank in range(4)
    ]
    name, late = analyse(program, period_s=PERIOD_S)[0][0]
    assert name == "late" and late.lost_s > 0.75 * 3 * STEPS / every * late_ms * 1e-3
    assert late.saving_s == pytest.approx(late.lost_s / 3, rel=0.01)
