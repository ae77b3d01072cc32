"""Costs that change over the steps, steadily or at once, and those that only seem to: many seeds of each."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from scalana.detectors.thresholds.counts import FEWEST_STEPS
from scalana.detectors.thresholds.limits import VALUES_OF_A_SERIES
from scalana.detectors.when.cost_trend import Shape, Trend, by_chance, independent, line, trend_of

SEEDS = 60
COUNTS = (20, 60, 120)


def vary(part, steps, random):
    """Factors that vary by a part."""
    return np.exp(part * random.normal(size=steps))


def alike(correlation, steps, random):
    """Factors of which each is like the one before it."""
    value = random.normal(size=steps)
    for step in range(1, steps):
        value[step] = correlation * value[step - 1] + np.sqrt(1 - correlation**2) * value[step]
    return np.exp(0.2 * value)


def disturbed(steps, random):
    """Factors of a machine on which others run for a while, for 4 of 19 steps on average."""
    value, step = np.ones(steps), 0
    while step < steps:
        step += random.geometric(1 / 15)
        lasts = random.geometric(1 / 4)
        value[step : step + lasts] += random.uniform(0.3, 1.5)
        step += lasts
    return value * vary(0.05, steps, random)


def every(period, steps, random):
    """Which steps are those of a period that begins anywhere."""
    return (np.arange(steps) + random.integers(period)) % period == 0


def planted(steps, before, after, noise, random, jump=None):
    """A line, or two levels."""
    row = np.arange(steps)
    cost = np.linspace(before, after, steps) if jump is None else np.where(row < jump * steps, before, after)
    return cost * noise(random) if callable(noise) else cost * vary(noise, steps, random)


STEADY = {
    "even": (lambda n, r: 50 * vary(0.05, n, r), (0, 0, 0)),
    "uneven": (lambda n, r: 50 * vary(0.3, n, r), (0, 0, 0)),
    "very uneven": (lambda n, r: 50 * vary(0.8, n, r), (2, 2, 2)),
    "heavy tails": (lambda n, r: 50 * (1 + 0.1 * np.abs(r.standard_cauchy(size=n))), (0, 0, 0)),
    "neighbours alike (0.5)": (lambda n, r: 50 * alike(0.5, n, r), (5, 2, 2)),
    "neighbours alike (0.8)": (lambda n, r: 50 * alike(0.8, n, r), (7, 4, 4)),
    "neighbours alike (0.9)": (lambda n, r: 50 * alike(0.9, n, r), (10, 5, 5)),
    "others run for a while": (lambda n, r: 50 * disturbed(n, r), (15, 7, 5)),
    "few samples": (lambda n, r: 5.0 * r.poisson(0.5, size=n), (5, 5, 5)),
    "a checkpoint each 10 steps": (lambda n, r: 400 * every(10, n, r) * vary(0.1, n, r), (0, 0, 0)),
    "a checkpoint beside other work": (lambda n, r: (2 + 400 * every(10, n, r)) * vary(0.1, n, r), (0, 0, 0)),
    "every other step": (lambda n, r: 50 * (1 + 0.5 * every(2, n, r)) * vary(0.1, n, r), (0, 0, 0)),
    "lengths in turn": (lambda n, r: 5 * (10 + (np.arange(n) + r.integers(10)) % 10) * vary(0.05, n, r), (2, 0, 0)),
    "warm-up of 2 steps": (lambda n, r: 50 * (1 + 2 * (np.arange(n) < 2)) * vary(0.1, n, r), (0, 0, 0)),
    "warm-up of some steps": (lambda n, r: 50 * (1 + 3 * np.exp(-np.arange(n) / 3)) * vary(0.05, n, r), (2, 2, 0)),
    "a slow warm-up": (lambda n, r: 50 * (1 + 0.3 * np.exp(-np.arange(n) / 8)) * vary(0.05, n, r), (10, 0, 0)),
    "twice for a while": (lambda n, r: 50 * (1 + (abs(np.arange(n) / n - 0.5) < 0.15)) * vary(0.1, n, r), (0, 0, 0)),
}  # fmt: skip
"""What does not change, and the seeds of a hundred that may be told to, of 20, 60 and 120 steps."""

CHANGES = {
    "13 times": (lambda n, r: planted(n, 6, 78, 0.1, r), Shape.LINE, (95, 100, 100)),
    "twice": (lambda n, r: planted(n, 50, 100, 0.1, r), Shape.LINE, (60, 95, 100)),
    "half as much again": (lambda n, r: planted(n, 50, 75, 0.1, r), Shape.LINE, (10, 60, 95)),
    "twice, while others run": (lambda n, r: np.linspace(50, 100, n) * disturbed(n, r), Shape.LINE, (25, 35, 60)),
    "with the square": (lambda n, r: (10 + 90 * np.linspace(0, 1, n) ** 2) * vary(0.1, n, r), Shape.LINE, (95, 98, 98)),
    "20 times as much": (lambda n, r: 5 * np.exp(np.linspace(0, 3, n)) * vary(0.05, n, r), Shape.LINE, (95, 98, 98)),
    "less and less": (
        lambda n, r: (5 + 90 * np.sqrt(np.linspace(0, 1, n))) * vary(0.01, n, r),
        Shape.LINE,
        (95, 98, 98),
    ),
    "falls": (lambda n, r: planted(n, 78, 6, 0.1, r), Shape.LINE, (95, 100, 100)),
    "a jump": (lambda n, r: planted(n, 50, 100, 0.1, r, 0.6), Shape.JUMP, (90, 98, 98)),
    "a late jump": (lambda n, r: planted(n, 50, 100, 0.1, r, 0.85), Shape.JUMP, (0, 98, 98)),
    "a drop": (lambda n, r: planted(n, 100, 50, 0.1, r, 0.4), Shape.JUMP, (85, 98, 98)),
}
"""What changes, how, and in how many seeds of a hundred that must be told, likewise."""


def told(series, steps):
    return [trend_of(series(steps, np.random.default_rng(seed))) for seed in range(SEEDS)]


@pytest.mark.parametrize("name", STEADY)
def test_what_does_not_change_is_not_told_to(name: str) -> None:
    series, most = STEADY[name]
    for steps, part in zip(COUNTS, most, strict=True):
        found = [trend for trend in told(series, steps) if trend]
        assert len(found) <= part / 100 * SEEDS + 1e-9, (steps, found)


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_is_told_and_how(name: str) -> None:
    series, shape, least = CHANGES[name]
    other = {Shape.LINE: Shape.JUMP, Shape.JUMP: Shape.LINE}[shape]
    for steps, part in zip(COUNTS, least, strict=True):
        count = Counter(trend.shape if trend else None for trend in told(series, steps))
        assert count[shape] >= part / 100 * SEEDS and count[other] <= 0.1 * SEEDS, (steps, count)


def test_a_line_has_its_slope_and_what_comes_next() -> None:
    for seed in range(20):
        cost = planted(60, 6.0, 78.0, 0.1, np.random.default_rng(seed))
        found = trend_of(cost)
        assert found is not None and found.rises and (found.first, found.last, found.paid) == (0, 59, 60)
        assert found.per_step_s == pytest.approx(72 / 59, rel=0.1)
        assert found.before_s == pytest.approx(6.0, abs=3.0) and found.after_s == pytest.approx(78.0, rel=0.1)
        assert found.next_s == pytest.approx(np.linspace(6, 78, 60).sum() + 60 * 60 * 72 / 59, rel=0.1)


@pytest.mark.parametrize("at", [12, 30, 52])
def test_a_jump_has_its_step_and_both_levels(at: int) -> None:
    for seed in range(20):
        found = trend_of(planted(60, 50.0, 100.0, 0.1, np.random.default_rng(seed), at / 60))
        assert found is not None and found.shape is Shape.JUMP and found.jump == at
        assert (found.before_s, found.after_s) == (pytest.approx(50, rel=0.15), pytest.approx(100, rel=0.15))
        assert found.next_s == pytest.approx(60 * found.after_s)


def test_a_falling_line_does_not_cost_less_than_nothing() -> None:
    found = trend_of(np.linspace(60.0, 1.0, 60))
    assert found == Trend(Shape.LINE, pytest.approx(60), pytest.approx(1), pytest.approx(-1), -1, 0, 59, 60, 0.0)


def test_a_checkpoint_that_grows_is_looked_at_in_its_own_steps() -> None:
    cost = np.zeros(250)
    cost[9::10] = np.linspace(10.0, 250.0, 25)
    found = trend_of(cost)
    assert found is not None and found.shape is Shape.LINE and (found.first, found.last, found.paid) == (9, 249, 25)
    assert (found.per_step_s, found.after_s) == (pytest.approx(1.0), pytest.approx(250.0))
    assert found.next_s == pytest.approx(cost.sum() + 25 * 250.0)


def test_beside_other_work_too_and_in_every_other_step() -> None:
    random = np.random.default_rng(5)
    for period, steps in ((10, 300), (2, 120)):
        grown = np.linspace(10.0, 300.0, steps)
        found = trend_of((2 + grown * every(period, steps, random)) * vary(0.1, steps, random))
        assert found is not None and found.shape is Shape.LINE and found.paid == pytest.approx(steps / period, rel=0.2)
        assert found.per_step_s == pytest.approx(290 / (steps - 1), rel=0.1)


def test_what_begins_at_a_step_is_a_jump_from_nothing() -> None:
    found = trend_of(np.where(np.arange(60) < 40, 0.0, 50.0))
    assert found is not None and (found.shape, found.jump, found.before_s, found.paid) == (Shape.JUMP, 40, 0.0, 60)


def test_of_very_many_steps_neighbours_are_one() -> None:
    random = np.random.default_rng(3)
    steps = 41 * VALUES_OF_A_SERIES + 7
    grown = trend_of(planted(steps, 6.0, 78.0, 0.1, random))
    assert grown is not None and grown.per_step_s == pytest.approx(72 / steps, rel=0.02) and grown.last == steps - 1
    jumped = trend_of(planted(steps, 50.0, 100.0, 0.1, random, 0.3))
    assert jumped is not None and abs(jumped.jump - 0.3 * steps) <= 42
    assert trend_of(400 * every(10, steps, random) * vary(0.1, steps, random)) is None


def test_of_few_steps_nothing_is_told() -> None:
    assert (
        trend_of(np.linspace(1, 9, FEWEST_STEPS - 1)) is None and trend_of(np.linspace(1, 9, FEWEST_STEPS)) is not None
    )
    assert trend_of(np.zeros(100)) is None and trend_of(np.zeros(0)) is None


def test_the_line_is_the_median_of_all_pairs() -> None:
    at = np.array([0.0, 1.0, 3.0, 4.0, 10.0])
    value = 2.0 + 0.5 * at
    value[2] = 99.0
    assert line(at, value) == (pytest.approx(0.5), pytest.approx(2.0))


def test_chance_is_that_of_kendalls_score() -> None:
    """Of 10 values in order: 45 pairs, variance 125; with ties less of it."""
    assert by_chance(np.arange(10.0), 10.0) == pytest.approx(8.3e-5, rel=0.01)  # z = 44 / 11.18
    assert by_chance(np.arange(10.0), 5.0) == pytest.approx(5.4e-3, rel=0.01)  # z = 44 / 15.81
    ties = np.repeat([1.0, 2.0], 5)  # 25 pairs; variance (2250 - 2 * 300) / 18
    assert by_chance(ties, 10.0) == pytest.approx(math.erfc(24 / math.sqrt(2 * 1650 / 18)))
    assert by_chance(np.ones(10), 10.0) == 1.0


def test_neighbours_that_are_alike_are_worth_less() -> None:
    random = np.random.default_rng(1)
    series = [alike(0.8, 1000, random) for _ in range(10)]
    assert np.mean([independent(one) for one in series]) == pytest.approx(1000 * 0.2 / 1.8, rel=0.25)
    levels = [one * np.where(np.arange(1000) < 400, 1, 9) for one in series]
    assert np.mean([independent(one, 400) for one in levels]) == pytest.approx(1000 * 0.2 / 1.8, rel=0.25)
    assert independent(random.normal(size=1000)) > 850


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_what_rises_without_noise_is_worth_all_of_its_values(power: float) -> None:
    assert independent(np.arange(60.0) ** power) > 58


def test_of_some_of_the_steps_a_line_is_told_by_their_numbers_and_what_they_stand_for() -> None:
    number = np.array([1, 2, 3, 4, *range(10, 200, 10)])
    stands_for = np.diff(np.append(number, 200)).astype(float)
    found = trend_of(1.0 + 0.05 * number, number, stands_for)
    assert found is not None and found.shape is Shape.LINE and found.per_step_s == pytest.approx(0.05)
    assert (found.before_s, found.after_s) == (pytest.approx(1.05), pytest.approx(1.0 + 0.05 * 190))
    # As many steps again: those from 191 on, as these are spread from 1 on.
    assert found.next_s == pytest.approx(float((stands_for * (1.0 + 0.05 * (number + 190))).sum()))
    every = trend_of(1.0 + 0.05 * np.arange(1, 200))
    assert every is not None and found.next_s == pytest.approx(every.next_s, rel=0.05)
