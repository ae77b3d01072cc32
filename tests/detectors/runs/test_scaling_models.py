"""Models of growth: the right one, an honest confidence, and no fright at one bad run."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.runs.scaling.models import Model, fit
from tests.long import also

SHAPES = {
    "constant": (lambda p: 3.0 + 0.0 * p, "constant"),
    "divided": (lambda p: 4.0 / p, "falls"),
    "amdahl": (lambda p: 1.0 + 8.0 / p, "falls to a constant"),
    "surface": (lambda p: p ** (-2 / 3), "falls"),
    "tree": (lambda p: 1.0 + 0.5 * np.log2(p), "logarithmic"),
    "root": (lambda p: 0.3 * p**0.5, "slower than p"),
    "linear": (lambda p: 0.1 * p, "like p"),
    "sorted": (lambda p: 0.05 * p * np.log2(p), "faster than p"),
    "divided at a price": (lambda p: 4.0 / p + 0.05 * p, "falls, then grows"),
    "square": (lambda p: 0.01 * p**2, "faster than p"),
    "one after another": (lambda p: 0.15 * (p - 1), "like p"),
}
FIVE, THREE = np.array([2.0, 4, 8, 16, 32]), np.array([2.0, 4, 8])


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("sizes", [THREE, FIVE], ids=["three", "five"])
def test_exact_measurements_give_the_exact_model(name, sizes):
    shape, growth = SHAPES[name]
    found = fit(sizes, shape(sizes))
    assert found.model.growth == growth
    expected = found.predict(128)
    assert expected.seconds == pytest.approx(float(shape(np.array(128.0))), rel=1e-6)
    assert expected.low <= expected.seconds <= expected.high


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_noisy_measurements_predict_twice_the_largest_size(name):
    shape, _ = SHAPES[name]
    random = np.random.default_rng(7)
    truth = float(shape(np.array(64.0)))
    errors = []
    for _ in range(20):
        found = fit(FIVE, shape(FIVE) * np.exp(random.normal(0.0, 0.03, len(FIVE))))
        errors.append(abs(found.predict(64).seconds / truth - 1.0))
    assert np.median(errors) < 0.1


@pytest.mark.slow
def test_ranges_hold_the_truth_most_of_the_time():
    random = np.random.default_rng(3)
    inside = []
    for shape, _ in SHAPES.values():
        for _ in range(15):
            expected = fit(FIVE, shape(FIVE) * np.exp(random.normal(0.0, 0.02, len(FIVE)))).predict(128)
            inside.append(expected.low <= float(shape(np.array(128.0))) <= expected.high)
    assert np.mean(inside) > 0.8


def test_three_sizes_leave_more_open_than_five():
    def width(sizes):
        expected = fit(sizes, 1.0 + 0.1 * sizes).predict(256)
        return expected.high - expected.low

    assert width(THREE) > 2 * width(FIVE)


@pytest.mark.parametrize("bad", range(5))
def test_one_noisy_run_is_left_out(bad):
    p = np.array([1.0, 2, 4, 8, 16, 32])
    seconds = 1.0 + 0.1 * p
    seconds[bad] *= 2.0
    found = fit(p, seconds)
    assert found.outliers == [bad]
    assert found.predict(64).seconds == pytest.approx(7.4, rel=0.05)


def test_repeated_runs_outvote_one_that_was_disturbed():
    p = np.repeat(THREE, 3)
    seconds = 0.1 * p
    seconds[4] *= 3.0
    found = fit(p, seconds)
    assert found.outliers == [4]
    assert found.model.growth == "like p"


def test_less_noise_makes_surer():
    random = np.random.default_rng(5)
    seconds = (1.0 + 0.02 * FIVE) * np.exp(random.normal(0.0, 0.002, len(FIVE)))
    loose, tight = fit(FIVE, seconds, noise=0.05), fit(FIVE, seconds, noise=0.002, noise_weight=20)
    assert tight.model.growth == "like p"
    assert tight.confidence > loose.confidence


def test_two_sizes_are_no_model():
    assert fit([2, 4], [1.0, 2.0]) is None
    assert fit([2, 2, 4, 4], [1.0, 1.1, 2.0, 2.1]) is None


def test_a_place_that_costs_nothing():
    assert fit(THREE, [0.0, 0.0, 0.0]).predict(64).seconds == 0.0


def test_models_read_well():
    assert str(Model(0.0, 4.0, -1.0)) == "4 * p^-1"
    assert str(Model(1.0, 0.5, 0.0, True)) == "1 + 0.5 * log2(p)"
    assert str(Model(0.0, 1.0, 2 / 3)) == "1 * p^(2/3)"
    assert str(Model(3.0)) == "3"
    assert str(Model(0.0, 2.0, 1.0, True)) == "2 * p * log2(p)"
    assert str(Model(0.0, 0.15, 1.0, others=True)) == "0.15 * (p - 1)"
    assert str(Model(4.0, 0.05, 1.0, divided=True)) == "4 / p + 0.05 * p"


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-2 / 3, 1.5, *also(-1.0, -0.5, 0.5, 1.0)])
def test_rounding_does_not_change_what_is_true(exponent):
    fits = [fit(FIVE, scale * FIVE**exponent) for scale in np.linspace(0.1, 3.0, 40)]
    assert np.ptp([found.confidence for found in fits]) < 1e-6
    assert len({found.model.growth for found in fits}) == 1
