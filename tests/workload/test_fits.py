"""Distributions that are fitted to numbers of a known distribution, drawn by numpy's own generators."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalana.graphs.arrays.types import FloatArray
from scalana.workload.distributions import KINDS, Distribution
from scalana.workload.fitting import Fit, fits_of, least
from scalana.workload.profile import drift_of, profile_of, variance_of
from scalana.workload.special import gamma_cdf, normal_cdf, normal_quantile

from .examples import with_groups, workload

COUNT = 6000


def fitted(kind: str, values: FloatArray, clipped: FloatArray | None = None) -> Fit:
    return next(fit for fit in fits_of(values, clipped) if fit.distribution.kind == kind)


def drawn(kind: str) -> tuple[FloatArray, tuple[float, ...]]:
    """Values of a family, and the parameters that they were drawn with."""
    random = np.random.default_rng(7)
    if kind == "lognormal":
        return random.lognormal(5.0, 0.8, COUNT), (5.0, 0.8)
    if kind == "gamma":
        return random.gamma(2.5, 200.0, COUNT), (2.5, 200.0)
    if kind == "weibull":
        return 300.0 * random.weibull(1.4, COUNT), (1.4, 300.0)
    first = random.random(COUNT) < 0.7
    values = np.where(first, random.lognormal(4.0, 0.3, COUNT), random.lognormal(6.5, 0.4, COUNT))
    return values, (0.7, 4.0, 0.3, 6.5, 0.4)


@pytest.mark.parametrize("kind", ["lognormal", "gamma", "weibull", "two-lognormals"])
def test_parameters_are_recovered_and_the_family_is_chosen(kind: str) -> None:
    values, planted = drawn(kind)
    fits = fits_of(values)
    best = fits[0]
    assert best.distribution.kind == kind
    assert best.distribution.parameters == pytest.approx(planted, rel=0.06)
    assert best.ks < 1.36 / math.sqrt(COUNT)  # the 5 % bound of Kolmogorov and Smirnov
    assert max(map(abs, best.off)) < 0.1
    others = [fit.ks for fit in fits if fit.distribution.kind not in (kind, "table", "pareto-tail", "two-lognormals")]
    assert min(others, default=1.0) > best.ks


@pytest.mark.parametrize("kind", ["lognormal", "gamma", "weibull"])
def test_a_limit_does_not_bias_the_fit(kind: str) -> None:
    """Where a limit ends a fifth of the values, parameters are those without it; fitted as they are, they are not."""
    values, planted = drawn(kind)
    limit = float(np.quantile(values, 0.8))
    seen = np.minimum(values, limit)
    ended = fitted(kind, seen, values > limit).distribution.parameters
    assert ended == pytest.approx(planted, rel=0.08)
    as_they_are = fitted(kind, seen).distribution.parameters
    assert abs(as_they_are[1] / planted[1] - 1) > 2 * abs(ended[1] / planted[1] - 1)


def test_a_heavy_tail_is_seen() -> None:
    """A lognormal body, and 5 % of Pareto's above its end: the tail's quantiles are right, a lognormal's are not."""
    random = np.random.default_rng(3)
    body = random.lognormal(5.0, 0.4, COUNT)
    begins = float(np.quantile(body, 0.95))
    tail = body > begins
    scale, shape = 150.0, 0.5
    values = np.where(tail, begins + scale / shape * (random.random(COUNT) ** -shape - 1.0), body)
    found, plain = fitted("pareto-tail", values), fitted("lognormal", values)
    true_p999 = begins + scale / shape * ((0.001 / 0.05) ** -shape - 1.0)
    at = np.array([0.999])
    assert found.distribution.quantile(at)[0] == pytest.approx(true_p999, rel=0.3)
    assert plain.distribution.quantile(at)[0] < 0.6 * true_p999
    assert found.bic < plain.bic


def test_equal_values_and_few_values_are_a_table() -> None:
    for values in (np.full(50, 3.0), np.array([1.0, 2.0]), np.array([np.nan, 0.0, 4.0])):
        (only,) = fits_of(values)
        assert only.distribution.kind == "table"
    assert fits_of(np.array([0.0, np.nan])) == []
    table = fits_of(np.array([1.0, 2.0, 3.0]))[-1].distribution
    assert table.quantile(np.array([0.0, 0.5, 1.0])).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_the_inverse_of_the_distribution(kind: str) -> None:
    given = {
        "lognormal": (5.0, 0.8),
        "gamma": (0.7, 200.0),
        "weibull": (1.4, 300.0),
        "two-lognormals": (0.7, 4.0, 0.3, 6.5, 0.4),
        "pareto-tail": (5.0, 0.4, 290.0, 0.05, 0.3, 80.0),
        "table": tuple(float(one) for one in range(1, 100)),
    }
    made = Distribution(kind, given[kind])
    parts = np.array([0.01, 0.2, 0.5, 0.9, 0.99])
    assert made.cdf(made.quantile(parts)) == pytest.approx(parts, abs=2e-6 if kind != "table" else 0.02)


def test_functions_of_statistics() -> None:
    at = np.array([-3.0, -1.0, 0.0, 2.0])
    assert normal_cdf(at) == pytest.approx([0.0013498980, 0.1586552539, 0.5, 0.9772498681], abs=1e-9)
    assert normal_quantile(normal_cdf(at)) == pytest.approx(at, abs=1e-9)
    # A gamma distribution of whole shape is a sum of exponential ones: 1 - e^-x (1 + x + x^2/2).
    x = np.array([0.5, 3.0, 9.0])
    assert gamma_cdf(3.0, x) == pytest.approx(1.0 - np.exp(-x) * (1 + x + x**2 / 2), abs=1e-12)
    assert least(lambda p: float((p[0] - 3.0) ** 2 + 2 * (p[1] + 1.0) ** 2), np.zeros(2)) == pytest.approx(
        [3.0, -1.0], abs=1e-3
    )


def test_variance_is_split_over_prompts_and_answers() -> None:
    profile = profile_of(with_groups(5, 400, 8, 0.6, 0.3))
    assert profile.variance is not None
    assert profile.variance.between == pytest.approx(0.36, rel=0.12)
    assert profile.variance.within == pytest.approx(0.09, rel=0.06)
    assert profile.ranks == pytest.approx(0.8, abs=0.03)
    apart = profile_of(with_groups(5, 400, 8, 0.0, 0.5))
    assert apart.variance is not None and apart.variance.correlation < 0.03
    # Groups of different sizes, exactly: two of equal values have no variance within.
    exact = variance_of(np.array([1.0, 1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 0, 1, 1]))
    assert exact.within == 0.0 and exact.correlation == 1.0


def test_drift_is_a_slope_with_its_error() -> None:
    random = np.random.default_rng(2)
    step = np.repeat(np.arange(10), 200)
    grows = drift_of(0.05 * step + random.normal(5.0, 0.5, len(step)), step)
    still = drift_of(random.normal(5.0, 0.5, len(step)), step)
    assert grows is not None and still is not None
    assert grows.is_clear and grows.a_step == pytest.approx(math.expm1(0.05), abs=3 * grows.error)
    assert not still.is_clear or abs(still.a_step) < 3 * still.error
    assert drift_of(np.zeros(4), np.array([0, 0, 1, 1])) is None


def test_a_profile_counts_what_there_is() -> None:
    profile = profile_of(workload([[5, 6, 7, 8], [9, 10, 11, 12]], answers=2))
    assert (profile.steps, profile.prompts, profile.answers, profile.turns) == (2, 2, 2, (1.0,))
    assert profile.quantities["response"].quantiles[3] == 12 and "verifier" not in profile.quantities
