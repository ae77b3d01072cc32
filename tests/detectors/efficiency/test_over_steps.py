"""Where parallel efficiency falls over the steps."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.efficiency.over_steps import over_steps
from scalana.detectors.efficiency.pop_factors import Efficiencies


def steps(balance, serialisation=1.0, noise=0.01, seed=0):
    """A step for each value of ``balance``, with the noise that runs have."""
    random = np.random.default_rng(seed)
    made = []
    for value in balance:
        one = float(np.clip(value * (1.0 + random.normal(0.0, noise)), 0.01, 1.0))
        parallel = one * serialisation * 0.98
        made.append(
            Efficiencies(parallel, parallel, one, serialisation * 0.98, serialisation, 0.98, 1.0, 1.0),
        )
    return made


def test_alike_steps_fall_nowhere():
    for seed in range(20):
        found = over_steps(np.arange(60), steps([0.8] * 60, seed=seed))
        assert found.fall is None and found.low == ()


def test_a_fall_at_once_has_a_step_and_a_factor():
    found = over_steps(np.arange(100, 160), steps([0.9] * 30 + [0.45] * 30))
    assert found.fall is not None
    assert abs(found.fall.at - 130) <= 1
    assert found.fall.factor == "load_balance"
    assert found.fall.before == pytest.approx(0.88, abs=0.03)
    assert found.fall.after == pytest.approx(0.44, abs=0.03)


def test_a_fall_from_step_to_step_has_no_step():
    found = over_steps(np.arange(100), steps(np.linspace(0.95, 0.3, 100)))
    assert found.fall is not None and found.fall.at == -1
    assert found.fall.factor_before > 0.8 and found.fall.factor_after < 0.5


def test_what_rises_does_not_fall():
    assert over_steps(np.arange(60), steps([0.45] * 30 + [0.9] * 30)).fall is None


def test_single_steps_are_named_with_their_lowest_factor():
    some = steps([0.9] * 40)
    some[7] = steps([0.88], serialisation=0.4)[0]
    some[21] = steps([0.3])[0]
    some[30] = None
    found = over_steps(np.arange(40), some)
    assert [(step.number, step.factor) for step in found.low] == [(21, "load_balance"), (7, "serialisation")]
    assert found.fall is None


def test_too_few_steps_say_nothing():
    for count in range(3):
        found = over_steps(np.arange(count), steps([0.9, 0.1][:count]))
        assert found.fall is None and found.low == ()
