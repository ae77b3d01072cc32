"""How a time grows with the number of ranks: a small family of models, chosen by a penalised fit.

The family is ``a + b g(p)`` with ``a, b >= 0``, where ``g`` is ``log2 p``, ``p log2 p`` or a power of ``p`` (also a
negative one: work that is divided), each of the two parts alone, ``a / p + b g(p)`` for work that is divided at a
price that grows, ``b (p - 1)`` for what is done for every other rank, and a single power with a free exponent. Every
member is fitted by weighted least squares; the score is a Student-t likelihood (the noise is known only roughly) with
a penalty for every coefficient and for exponents that are no natural ones, close to AICc and BIC but defined for three
sizes too. The scores make probabilities, from which the confidence in a kind of growth and the range of a prediction
follow.
A run that fits no simple model, while all others do, is left out as an outlier, at a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.thresholds.certainty import ASSUMED_WEIGHT, DIVIDED_COST, OTHERS_COST, USUAL_RANGE
from scalana.detectors.thresholds.counts import SHOWS_THE_NOISE, SHOWS_THE_USUAL
from scalana.detectors.thresholds.differences import NOISE_OF_A_RUN, ROUNDING
from scalana.graphs.arrays.types import FloatArray, IntArray

EXPONENTS = {
    -1.0: 0.0, 1.0: 0.0, 0.5: 1.0, 2.0: 1.0, -0.5: 1.0, -2 / 3: 1.0,
    -1 / 3: 2.0, 1 / 3: 2.0, 2 / 3: 2.0, 4 / 3: 2.0, 1.5: 2.0, 3.0: 3.0, -2.0: 3.0,
}  # fmt: skip
"""Exponents, and what each costs: the less common it is in parallel programs, the more must speak for it."""
DIVIDED = ((0.0, True), (0.5, False), (1.0, False))
"""(exponent, logarithmic) of what may grow beside work that is divided, and what such a model costs."""
FREE = np.round(np.arange(-2.5, 4.001, 0.05), 6)
"""Grid of the free exponent."""
PER_COEFFICIENT, PER_FREE, PER_OUTLIER = 2.0, 2.0, 8.0
"""Penalties, in units of twice a log likelihood: AIC's 2 for every number that is fitted."""


@dataclass(frozen=True, slots=True)
class Model:
    """``constant + coefficient * g(p)`` seconds on ``p`` ranks."""

    constant: float
    coefficient: float = 0.0
    exponent: float = 0.0
    """Of ``g(p) = p ** exponent``."""
    logarithmic: bool = False
    """Whether ``g(p)`` is multiplied by ``log2(p)``."""
    others: bool = False
    """Whether ``g(p)`` is a power of the number of other ranks: ``(p - 1) ** exponent``."""
    divided: bool = False
    """Whether the constant is work of the whole job, of which every rank does its part: ``constant / p``."""

    def __call__(self, ranks: FloatArray | float) -> FloatArray:
        """Seconds on ``ranks``, of the same shape."""
        p = np.asarray(ranks, dtype=np.float64)
        return np.asarray(self.constant * self.base(p) + self.coefficient * self.term(p))

    def base(self, ranks: FloatArray) -> FloatArray:
        """What the constant is multiplied by."""
        return np.asarray(1.0 / ranks if self.divided else np.ones_like(ranks))

    def term(self, ranks: FloatArray) -> FloatArray:
        """``g(p)``."""
        power = (ranks - 1.0 if self.others else ranks) ** self.exponent
        return np.asarray(power * np.log2(ranks) if self.logarithmic else power)

    @property
    def growth(self) -> str:
        """In words: falls, falls to a constant, constant, logarithmic, slower than p, like p, faster than p; or falls,
        then grows."""
        if self.divided:
            return "falls, then grows"
        if self.coefficient == 0.0 or (not self.logarithmic and self.exponent == 0.0):
            return "constant"
        if self.logarithmic:
            return "logarithmic" if self.exponent == 0.0 else "faster than p"
        if self.exponent < 0:
            return "falls to a constant" if self.constant > 0.0 else "falls"
        if self.exponent < 0.85:
            return "slower than p"
        return "like p" if self.exponent <= 1.15 else "faster than p"

    def __str__(self) -> str:
        if self.growth == "constant":
            return _number(self.constant + self.coefficient)
        p = "(p - 1)" if self.others else "p"
        power = "" if self.exponent == 0.0 else p if self.exponent == 1.0 else f"{p}^{_exponent(self.exponent)}"
        factors = [_number(self.coefficient), *([power] if power else []), *(["log2(p)"] if self.logarithmic else [])]
        product = " * ".join(factors)
        first = _number(self.constant) + (" / p" if self.divided else "")
        return f"{first} + {product}" if self.constant > 0.0 else product


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds at a size that was not measured."""

    seconds: float
    low: float
    high: float
    """The ends of the range that holds the true value with probability :data:`USUAL_RANGE`, as far as the family
    does."""


@dataclass(slots=True)
class Fit:
    """The best model of one series, and what else could be true."""

    model: Model
    confidence: float
    """Probability of the model's kind of growth (:attr:`Model.growth`), given the family. Growth below the noise over
    the sizes that were measured counts as none."""
    noise: float
    """Relative noise of a measurement, as the fit sees it."""
    outliers: list[int]
    """Measurements that were left out."""
    _models: list[Model]
    _weights: FloatArray
    _covariances: list[FloatArray]
    """Of every model's coefficients."""

    def predict(self, ranks: float) -> Prediction:
        """The best model's seconds on ``ranks``, with a range over all models by their weight."""
        at = np.array([float(ranks)])
        mean = np.array([float(model(at)[0]) for model in self._models])
        variance = np.empty(len(mean))
        for row, (model, covariance) in enumerate(zip(self._models, self._covariances, strict=True)):
            gradient = _gradient(model, at, len(covariance))[0]
            variance[row] = max(float(gradient @ covariance @ gradient), 0.0)
        sigma = np.sqrt(variance) + 1e-12 * np.abs(mean) + 1e-300
        tail = (1.0 - USUAL_RANGE) / 2.0
        low = _mixture_quantile(mean, sigma, self._weights, tail)
        high = _mixture_quantile(mean, sigma, self._weights, 1.0 - tail)
        best = float(self.model(at)[0])
        return Prediction(best, max(0.0, min(low, best)), max(high, best))


def fit(
    ranks: Sequence[float] | FloatArray,
    seconds: Sequence[float] | FloatArray,
    error_s: Sequence[float] | FloatArray | float = 0.0,
    *,
    noise: float = NOISE_OF_A_RUN,
    noise_weight: float = ASSUMED_WEIGHT,
    without: Sequence[int] | IntArray = (),
) -> Fit | None:
    """Fit the family to measurements ``[runs]``; several may be of one size.

    Args:
        ranks: Number of ranks of every run.
        seconds: What was measured, at least 0.
        error_s: Standard error of each measurement that is known by itself (sampling, repetition), in seconds.
        noise: Relative noise of a run, beside ``error_s``.
        noise_weight: Measurements that stand behind ``noise``.
        without: Runs that are known to have been disturbed.

    Returns:
        None below :data:`SHOWS_THE_USUAL` distinct sizes.
    """
    p, y = np.asarray(ranks, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    keep = np.ones(len(y), dtype=bool)
    keep[np.asarray(without, dtype=np.int64)] = False
    if len(np.unique(p[keep])) < SHOWS_THE_USUAL:
        return None
    scale = float(y.max(initial=0.0))
    if scale <= 0.0:
        zero = Model(0.0)
        return Fit(zero, 1.0, noise, [], [zero], np.ones(1), [np.zeros((1, 1))])
    error = np.broadcast_to(np.asarray(error_s, dtype=np.float64), y.shape)
    best = _fit_family(p, y, error, keep, noise, noise_weight, scale)
    # One measurement at a time is tried as an outlier, as long as the score becomes better by more than it costs.
    count = int(keep.sum())
    for _ in range(max(1, count // 6) if count >= SHOWS_THE_NOISE else 0):
        candidates = []
        for row in np.flatnonzero(keep):
            fewer = keep.copy()
            fewer[row] = False
            if len(np.unique(p[fewer])) >= SHOWS_THE_USUAL:
                candidates.append((_fit_family(p, y, error, fewer, noise, noise_weight, scale), row))
        if not candidates:
            break
        other, row = min(candidates, key=lambda entry: entry[0].score)
        if other.score >= best.score:
            break
        best = other
        keep[row] = False
    return _finish(best, noise, [row for row in np.flatnonzero(~keep).tolist() if row not in without])


def without_each(
    ranks: FloatArray, seconds: FloatArray, error_s: FloatArray, noise: float, noise_weight: float
) -> tuple[FloatArray, FloatArray]:
    """How much better each measurement's absence makes the score, its price left out, and how many times it is what
    the others let expect ``[runs]``; 0 and 1 where too few sizes would be left. Arguments as for :func:`fit`."""
    gain, times = np.zeros(len(seconds)), np.ones(len(seconds))
    keep = np.ones(len(seconds), dtype=bool)
    scale = max(float(seconds.max(initial=0.0)), 1e-300)
    whole = _fit_family(ranks, seconds, error_s, keep, noise, noise_weight, scale).score
    for run in range(len(seconds)):
        keep[:] = True
        keep[run] = False
        if len(np.unique(ranks[keep])) < SHOWS_THE_USUAL:
            continue
        family = _fit_family(ranks, seconds, error_s, keep, noise, noise_weight, scale)
        gain[run] = whole + PER_OUTLIER - family.score
        expected = float(family.models[int(np.argmin(family.scores))](float(ranks[run])))
        times[run] = seconds[run] / max(expected, 1e-300)
    return gain, times


@dataclass(slots=True)
class _Family:
    """All members of the family, fitted to one set of measurements."""

    models: list[Model]
    scores: FloatArray
    misfits: FloatArray
    """Sums of squared residuals in units of the assumed noise."""
    growths: list[str]
    """Of every model; constant also where the rest of it is less than the noise over the sizes that were measured."""
    jacobians: list[FloatArray]
    """Derivatives ``[measurements, coefficients]`` by what was fitted, in units of the assumed noise. From them follow
    covariances, which take long and are asked for of few models."""
    degrees: FloatArray
    """Weight of the measurements and of the assumed noise together, less the coefficients."""

    @property
    def score(self) -> float:
        return float(self.scores.min())


def _fit_family(
    p: FloatArray, y: FloatArray, error: FloatArray, keep: np.ndarray, noise: float, weight: float, scale: float
) -> _Family:
    outliers = int((~keep).sum())
    # A measurement that was left out counts as one that fits as well as any, and costs a penalty.
    count = len(y)
    sizes = len(np.unique(p[keep]))
    p, y = p[keep], y[keep]
    sigma = np.sqrt((noise * y) ** 2 + error[keep] ** 2 + (1e-3 * scale) ** 2)
    rows: list[tuple[Model, float, float, FloatArray]] = []

    def consider(model: Model, parameters: int, penalty: float) -> None:
        residual = (y - model(p)) / sigma
        misfit = float(residual @ residual)
        jacobian = _gradient(model, p, parameters) / sigma[:, None]
        rows.append((model, misfit, PER_COEFFICIENT * parameters + penalty, jacobian))

    one = np.ones_like(p)
    consider(Model(_scale(one, y, sigma)), 1, 0.0)
    powers = [(exponent, False, cost) for exponent, cost in EXPONENTS.items()]
    for exponent, logarithmic, extra in [(0.0, True, 0.0), (1.0, True, 2.0), *powers]:
        term = Model(0.0, 1.0, exponent, logarithmic).term(p)
        if term.any():
            consider(Model(0.0, _scale(term, y, sigma), exponent, logarithmic), 1, extra)
        pair = _pair(one, term, y, sigma)
        if pair is not None:
            consider(Model(pair[0], pair[1], exponent, logarithmic), 2, extra)
    others = Model(0.0, 1.0, 1.0, others=True)
    consider(replace(others, coefficient=_scale(others.term(p), y, sigma)), 1, OTHERS_COST)
    for exponent, logarithmic in DIVIDED:
        pair = _pair(1.0 / p, Model(0.0, 1.0, exponent, logarithmic).term(p), y, sigma)
        if pair is not None:
            model = Model(pair[0], pair[1], exponent, logarithmic, divided=True)
            first, second = model(np.unique(p)[:2]).tolist()
            if first > second:  # else nothing that was measured falls
                consider(model, 2, DIVIDED_COST)
    free = _free(p, y, sigma, with_constant=False)
    if free is not None:
        consider(free, 1, PER_COEFFICIENT + PER_FREE)
    if sizes >= SHOWS_THE_NOISE:
        free = _free(p, y, sigma, with_constant=True)
        if free is not None:
            consider(free, 2, PER_COEFFICIENT + PER_FREE)
    misfits = np.array([row[1] for row in rows])
    penalties = np.array([row[2] for row in rows])
    scores = (count + weight) * np.log(weight + misfits) + penalties + PER_OUTLIER * outliers
    parameters = np.array([row[3].shape[1] for row in rows])
    degrees = np.maximum(count - outliers + weight - parameters, 1.0)
    growths, typical_noise = [], float(np.median(sigma))
    for model, *_ in rows:
        change = model.coefficient * float(np.ptp(model.term(p)))
        plain = model.constant > 0.0 and not model.divided
        growths.append("constant" if change < typical_noise and plain else model.growth)
    return _Family([row[0] for row in rows], scores, misfits, growths, [row[3] for row in rows], degrees)


def _finish(family: _Family, noise: float, outliers: list[int]) -> Fit:
    """The best model of the likeliest kind of growth, and all that could be true instead."""
    order = np.argsort(family.scores, kind="stable")
    weights = np.exp(-0.5 * (family.scores[order] - family.scores[order[0]]))
    order, weights = order[weights > 1e-3], weights[weights > 1e-3]
    weights = weights / weights.sum()
    models = [family.models[row] for row in order]
    inflation = (ASSUMED_WEIGHT + family.misfits) / family.degrees
    covariances = [_covariance(family.jacobians[row]) * inflation[row] for row in order]
    confidence: dict[str, float] = {}
    for row, weight in zip(order, weights.tolist(), strict=True):
        confidence[family.growths[row]] = confidence.get(family.growths[row], 0.0) + weight
    growth = max(confidence, key=lambda name: confidence[name])
    best = next(number for number, row in enumerate(order) if family.growths[row] == growth)
    fitted_noise = noise * float(np.sqrt(inflation[order[best]]))
    return Fit(models[best], confidence[growth], fitted_noise, outliers, models, weights, covariances)


def _covariance(jacobian: FloatArray) -> FloatArray:
    """Of the coefficients, for measurements whose errors are 1: the inverse of ``J^T J``."""
    return np.asarray(np.linalg.pinv(jacobian.T @ jacobian, hermitian=True), np.float64)


def _scale(term: FloatArray, y: FloatArray, sigma: FloatArray) -> float:
    """The coefficient of ``y = b term``."""
    return float(_scales(term, y, sigma))


def _scales(terms: FloatArray, y: FloatArray, sigma: FloatArray) -> FloatArray:
    """Those of several terms ``[terms, sizes]``, each by itself ``[terms]``."""
    weighted = terms / sigma**2
    return np.maximum(weighted @ y / (weighted * terms).sum(axis=-1), 0.0)


def _pair(base: FloatArray, term: FloatArray, y: FloatArray, sigma: FloatArray) -> tuple[float, float] | None:
    """The coefficients of ``y = a base + b term``, None where one of them would not be positive, but for rounding: what
    one of them describes alone is left to the models that have one."""
    a, b = _pairs(base, term, y, sigma)
    return None if np.isnan(a) else (float(a), float(b))


def _pairs(base: FloatArray, terms: FloatArray, y: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Those of several terms ``[terms, sizes]``, NaN for None; each ``[terms]``."""
    w = 1.0 / sigma**2
    s, st, stt = (w * base) @ base, terms @ (w * base), (w * terms * terms).sum(axis=-1)
    determinant = s * stt - st * st
    known = determinant > 1e-12 * s * stt
    determinant = np.where(known, determinant, 1.0)
    sy, sty = (w * base) @ y, terms @ (w * y)
    a, b = (stt * sy - st * sty) / determinant, (s * sty - st * sy) / determinant
    least = ROUNDING * y.max()
    known &= (a * base.max() > least) & (b * terms.max(axis=-1) > least)
    return np.where(known, a, np.nan), np.where(known, b, np.nan)


def _free(p: FloatArray, y: FloatArray, sigma: FloatArray, *, with_constant: bool) -> Model | None:
    """The best power with an exponent from a fine grid."""
    terms = p ** FREE[:, None]
    if with_constant:
        constant, coefficient = _pairs(np.ones_like(p), terms, y, sigma)
        constant[FREE == 0.0] = np.nan
    else:
        constant, coefficient = np.zeros(len(FREE)), _scales(terms, y, sigma)
    known = np.flatnonzero(~np.isnan(constant))
    if not len(known):
        return None
    of_known = constant[known, None] + coefficient[known, None] * terms[known]
    best = known[np.argmin((((y - of_known) / sigma) ** 2).sum(axis=1))]
    return Model(float(constant[best]), float(coefficient[best]), float(FREE[best]))


def _gradient(model: Model, p: FloatArray, parameters: int) -> FloatArray:
    """Derivatives of a model by its fitted numbers ``[sizes, parameters]``."""
    term = model.term(p)
    if model.constant > 0.0 and model.coefficient > 0.0:
        columns = [model.base(p), term]
    elif model.coefficient > 0.0 or model.logarithmic or model.exponent:
        columns = [term]
    else:
        columns = [np.ones_like(p)]
    return np.stack(columns[:parameters], axis=1)


def _mixture_quantile(mean: FloatArray, sigma: FloatArray, weights: FloatArray, q: float) -> float:
    """Quantile of a mixture of normal distributions, by bisection."""
    from math import erf, sqrt

    low, high = float((mean - 8 * sigma).min()), float((mean + 8 * sigma).max())
    for _ in range(60):
        middle = (low + high) / 2.0
        below = sum(
            w * 0.5 * (1.0 + erf((middle - m) / (s * sqrt(2.0)))) for m, s, w in zip(mean, sigma, weights, strict=True)
        )
        low, high = (middle, high) if below < q else (low, middle)
    return (low + high) / 2.0


def _number(value: float) -> str:
    return f"{value:.3g}"


def _exponent(value: float) -> str:
    for denominator in (1, 2, 3):
        numerator = round(value * denominator)
        if abs(value * denominator - numerator) < 1e-9:
            return str(numerator) if denominator == 1 else f"({numerator}/{denominator})"
    return f"{value:.2f}"
