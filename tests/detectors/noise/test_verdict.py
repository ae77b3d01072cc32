"""A difference is beyond noise if it exceeds its standard errors, and what is too little whatever the noise."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.noise.verdict import beyond_noise, error_of_sums, means_of


def test_an_effect_must_exceed_its_errors_and_the_least() -> None:
    effect, error = np.array([1.0, 1.0, 1.0, -1.0]), np.array([0.2, 0.4, np.nan, 0.0])
    assert beyond_noise(effect, error, 3.0).tolist() == [True, False, True, False]
    assert not beyond_noise(effect, error, 3.0, least=1.0).any()


def test_standard_errors_are_those_of_repeated_draws() -> None:
    random = np.random.default_rng(1)
    draws = random.normal(5.0, 2.0, (2000, 16))
    group = np.repeat(np.arange(2000), 16)
    means = means_of(group, draws.ravel())
    assert (means.number == 16).all()
    assert means.mean == pytest.approx(draws.mean(axis=1))
    assert means.error == pytest.approx(draws.std(axis=1, ddof=1) / 4.0)
    # Of what is one mean by chance, nearly all lie within two of their errors.
    assert 0.9 < np.mean(~beyond_noise(np.abs(means.mean - 5.0), means.error, 2.0)) < 0.97


def test_what_is_seen_once_has_no_error() -> None:
    means = means_of(np.array([0, 2, 2]), np.array([3.0, 1.0, 2.0]))
    assert means.number.tolist() == [1, 0, 2]
    assert means.error.tolist() == [0.0, 0.0, 0.5]


def test_slow_changes_count_as_noise_of_a_sum() -> None:
    """Repetitions that follow a drift vary less than their blocks say, one by one."""
    drifting, mixed = np.linspace(1.0, 2.0, 64), np.linspace(1.0, 2.0, 64)
    np.random.default_rng(2).shuffle(mixed)
    none = np.zeros(64, np.int64)
    errors = [float(error_of_sums(none, none, seconds, 1)[0]) for seconds in (drifting, mixed)]
    assert errors[0] > 1.5 * errors[1] > 0.0
