"""Distributions of lengths and of seconds: their functions, by kind. How they are fitted is in :mod:`.fitting`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import FloatArray
from scalana.workload.special import gamma_cdf, normal_cdf, normal_quantile

_LEAST = 1e-300
_ROUNDS = 80
"""Of bisection: the result is exact to 24 digits of the range."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of distributions of positive numbers."""

    name: str
    text: str
    """In reports."""
    parameters: tuple[str, ...]
    """Their names; a distribution of numbers of its own has none here."""
    cdf: Callable[[Sequence[float], FloatArray], FloatArray]
    log_density: Callable[[Sequence[float], FloatArray], FloatArray] | None = None
    """None where it is not fitted by likelihood."""
    quantile: Callable[[Sequence[float], FloatArray], FloatArray] | None = None
    """None where it is found by bisection."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A member of a family."""

    kind: str
    parameters: tuple[float, ...]

    def cdf(self, values: FloatArray) -> FloatArray:
        """Which part lies at or below some values ``[values]``."""
        return KINDS[self.kind].cdf(self.parameters, np.asarray(values, np.float64))

    def quantile(self, parts: FloatArray) -> FloatArray:
        """Below which value some parts lie ``[parts]``."""
        parts = np.asarray(parts, np.float64)
        kind = KINDS[self.kind]
        if kind.quantile is not None:
            return kind.quantile(self.parameters, parts)
        return _bisected(lambda values: kind.cdf(self.parameters, values), parts)

    def log_likelihood(self, values: FloatArray, censored: FloatArray) -> float:
        """Of values, and of some that would have been larger if a limit had not ended them."""
        density = KINDS[self.kind].log_density
        if density is None:
            return -math.inf
        above = np.log(np.maximum(1.0 - self.cdf(censored), _LEAST)).sum() if len(censored) else 0.0
        return float(density(self.parameters, values).sum() + above)


def _bisected(cdf: Callable[[FloatArray], FloatArray], parts: FloatArray) -> FloatArray:
    """Where a distribution function reaches some parts, between e^-60 and e^60."""
    low, high = np.full(len(parts), -60.0), np.full(len(parts), 60.0)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        below = cdf(np.exp(middle)) < parts
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(np.exp(high))


def _log(values: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(values, _LEAST)))


def _lognormal_cdf(given: Sequence[float], values: FloatArray) -> FloatArray:
    mean, deviation = given
    return normal_cdf((_log(values) - mean) / deviation)


def _lognormal_density(given: Sequence[float], values: FloatArray) -> FloatArray:
    mean, deviation = given
    logs = _log(values)
    return np.asarray(
        -logs - math.log(deviation) - 0.5 * math.log(2 * math.pi) - 0.5 * ((logs - mean) / deviation) ** 2
    )


def _lognormal_quantile(given: Sequence[float], parts: FloatArray) -> FloatArray:
    mean, deviation = given
    return np.asarray(np.exp(mean + deviation * normal_quantile(parts)))


def _gamma_cdf(given: Sequence[float], values: FloatArray) -> FloatArray:
    shape, scale = given
    return gamma_cdf(shape, values / scale)


def _gamma_density(given: Sequence[float], values: FloatArray) -> FloatArray:
    shape, scale = given
    return np.asarray((shape - 1) * _log(values) - values / scale - math.lgamma(shape) - shape * math.log(scale))


def _weibull_cdf(given: Sequence[float], values: FloatArray) -> FloatArray:
    shape, scale = given
    return np.asarray(-np.expm1(-((np.maximum(values, 0.0) / scale) ** shape)))


def _weibull_density(given: Sequence[float], values: FloatArray) -> FloatArray:
    shape, scale = given
    logs = _log(values) - math.log(scale)
    return np.asarray(math.log(shape) - math.log(scale) + (shape - 1) * logs - np.exp(np.minimum(shape * logs, 700.0)))


def _weibull_quantile(given: Sequence[float], parts: FloatArray) -> FloatArray:
    shape, scale = given
    return np.asarray(scale * (-np.log1p(-np.minimum(parts, 1.0 - 1e-15))) ** (1.0 / shape))


def _mixture_cdf(given: Sequence[float], values: FloatArray) -> FloatArray:
    part, *both = given
    return np.asarray(part * _lognormal_cdf(both[:2], values) + (1 - part) * _lognormal_cdf(both[2:], values))


def _mixture_density(given: Sequence[float], values: FloatArray) -> FloatArray:
    part, *both = given
    first = math.log(max(part, _LEAST)) + _lognormal_density(both[:2], values)
    second = math.log(max(1 - part, _LEAST)) + _lognormal_density(both[2:], values)
    return np.asarray(np.logaddexp(first, second))


def _pareto_log_survival(shape: float, scale: float, beyond: FloatArray) -> FloatArray:
    """Of the generalised Pareto distribution."""
    if abs(shape) < 1e-9:
        return np.asarray(-beyond / scale)
    inside = np.maximum(1.0 + shape * beyond / scale, _LEAST)
    return np.asarray(-np.log(inside) / shape)


def _tail_cdf(given: Sequence[float], values: FloatArray) -> FloatArray:
    mean, deviation, begins, part, shape, scale = given
    body = _lognormal_cdf((mean, deviation), values)
    whole = max(float(_lognormal_cdf((mean, deviation), np.array([begins]))[0]), 1e-12)
    above = np.exp(_pareto_log_survival(shape, scale, np.maximum(values - begins, 0.0)))
    return np.asarray(np.where(values <= begins, (1.0 - part) * np.minimum(body / whole, 1.0), 1.0 - part * above))


def _tail_density(given: Sequence[float], values: FloatArray) -> FloatArray:
    mean, deviation, begins, part, shape, scale = given
    whole = max(float(_lognormal_cdf((mean, deviation), np.array([begins]))[0]), 1e-12)
    body = math.log(1.0 - part) - math.log(whole) + _lognormal_density((mean, deviation), values)
    beyond = np.maximum(values - begins, 0.0)
    inside = np.log(np.maximum(1.0 + shape * beyond / scale, _LEAST)) if abs(shape) > 1e-9 else 0.0
    above = math.log(part) - math.log(scale) + _pareto_log_survival(shape, scale, beyond) - inside
    return np.asarray(np.where(values <= begins, body, above))


def _table_quantile(given: Sequence[float], parts: FloatArray) -> FloatArray:
    return np.asarray(np.interp(parts, np.linspace(0.0, 1.0, len(given)), given))


def _table_cdf(given: Sequence[float], values: FloatArray) -> FloatArray:
    known, at = np.unique(np.array(given), return_index=True)
    last = np.append(at[1:], len(given)) - 1
    return np.asarray(np.interp(values, known, last / max(len(given) - 1, 1), left=0.0))


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "lognormal",
            "lognormal",
            ("log_mean", "log_deviation"),
            _lognormal_cdf,
            _lognormal_density,
            _lognormal_quantile,
        ),
        Kind("gamma", "gamma", ("shape", "scale"), _gamma_cdf, _gamma_density),
        Kind("weibull", "Weibull", ("shape", "scale"), _weibull_cdf, _weibull_density, _weibull_quantile),
        Kind(
            "two-lognormals",
            "two lognormals",
            ("part", "log_mean", "log_deviation", "log_mean_2", "log_deviation_2"),
            _mixture_cdf,
            _mixture_density,
        ),
        Kind(
            "pareto-tail",
            "lognormal, Pareto tail",
            ("log_mean", "log_deviation", "tail_from", "tail_part", "tail_shape", "tail_scale"),
            _tail_cdf,
            _tail_density,
        ),
        Kind("table", "quantiles of the data", (), _table_cdf, None, _table_quantile),
    )
}
"""All families, by name."""
