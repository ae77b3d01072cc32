"""Maximum likelihood for values of which some were ended by a limit: these count as "at least as large".

Closed forms, expectation-maximisation and Newton's method where a family has them; the simplex of Nelder and Mead
(1965) where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.workload.distributions import KINDS, Distribution
from scalana.workload.special import normal_cdf

LEAST = 8
"""Values that a family is fitted to, at least."""
TAIL_PART = 0.05
"""Of the values, those that are fitted as a tail of their own."""
TABLE = 401
"""Quantiles that a table keeps."""
QUANTILES = (0.5, 0.9, 0.99)
"""At which the goodness of a fit is stated."""
_ROUNDS = 300


@dataclass(frozen=True, slots=True)
class Fit:
    """A distribution, and how well it stands for the values that it was fitted to."""

    distribution: Distribution
    ks: float
    """Largest distance of the two distribution functions, below the limit (Kolmogorov, Smirnov)."""
    off: tuple[float, ...]
    """By which part its quantiles are larger than those of the values, at :data:`QUANTILES`."""
    off_most: float
    """By which part the largest of as many values is usually larger than the largest of these: how far its tail is to
    be believed."""
    bic: float
    """Bayesian information criterion: the family with the least is the best one; infinite for a table."""


def fits_of(values: FloatArray, clipped: BoolArray | None = None) -> list[Fit]:
    """Fit all families to positive values, the best first; the last one is the table of their quantiles.

    Args:
        values: lengths or seconds; those that are not above 0, or not known, are left out ``[values]``.
        clipped: which of them a limit ended ``[values]``.
    """
    clipped = np.zeros(len(values), np.bool_) if clipped is None else clipped
    there = np.isfinite(values) & (values > 0.0)
    free, ended = values[there & ~clipped].astype(np.float64), values[there & clipped].astype(np.float64)
    if not len(free) + len(ended):
        return []
    found: list[Fit] = []
    if len(free) >= LEAST and np.ptp(np.log(free)) > 1e-9:
        for family in (_lognormal, _gamma, _weibull, _two_lognormals, _pareto_tail):
            made = family(free, ended)
            if made is not None and all(map(math.isfinite, made.parameters)):
                found.append(_rated(made, free, ended))
    found.sort(key=lambda fit: fit.bic)
    every = np.concatenate((free, ended))
    table = np.quantile(every, np.linspace(0.0, 1.0, min(TABLE, max(len(every), 2))))
    return [*found, _rated(Distribution("table", tuple(table.tolist())), free, ended)]


def _rated(made: Distribution, free: FloatArray, ended: FloatArray) -> Fit:
    """How well a distribution fits."""
    every = np.sort(np.concatenate((free, ended)))
    limit = float(ended.min()) if len(ended) else math.inf
    mine = np.minimum(made.quantile(np.array(QUANTILES)), limit)
    off = mine / np.maximum(np.quantile(every, QUANTILES, method="higher"), 1e-300) - 1.0
    largest = min(float(made.quantile(np.array([0.5 ** (1.0 / len(every))]))[0]), limit)
    count = len(KINDS[made.kind].parameters)
    likelihood = made.log_likelihood(free, ended)
    bic = count * math.log(len(every)) - 2.0 * likelihood if math.isfinite(likelihood) else math.inf
    return Fit(made, _distance(made, every, limit), tuple(off.tolist()), largest / float(every[-1]) - 1.0, bic)


def _distance(made: Distribution, every: FloatArray, limit: float) -> float:
    """The largest distance between a distribution and sorted values, below a limit."""
    known, first = np.unique(every, return_index=True)
    last = np.append(first[1:], len(every))
    cdf, inside = made.cdf(known), known < limit
    at, before = np.abs(cdf - last / len(every)), np.abs(cdf - first / len(every))
    steps = at if made.kind == "table" else np.maximum(at, before)  # a table has the same steps
    return float(steps[inside].max(initial=0.0))


def _moments(logs: FloatArray, ends: FloatArray, weights: FloatArray, of_ends: FloatArray) -> tuple[float, float]:
    """Mean and deviation of a normal distribution of which some values are only known to be larger, by
    expectation-maximisation (Dempster, Laird and Rubin, 1977)."""
    total = weights.sum() + of_ends.sum()
    mean = float((weights @ logs + of_ends @ ends) / total)
    spread = weights @ (logs - mean) ** 2 + of_ends @ (ends - mean) ** 2
    deviation = max(math.sqrt(float(spread) / total), 1e-6)
    for _ in range(_ROUNDS if len(ends) else 0):
        expected, square = _beyond(mean, deviation, ends)
        now = float((weights @ logs + of_ends @ expected) / total)
        spread = weights @ (logs - now) ** 2 + of_ends @ (square - 2 * now * expected + now**2)
        wide = max(math.sqrt(max(float(spread), 0.0) / total), 1e-6)
        done = abs(now - mean) + abs(wide - deviation) < 1e-10
        mean, deviation = now, wide
        if done:
            break
    return mean, deviation


def _beyond(mean: float, deviation: float, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean, and mean of the square, of what is larger than some ends ``[ends]``."""
    at = (ends - mean) / deviation
    hazard = np.exp(-0.5 * at**2) / math.sqrt(2 * math.pi) / np.maximum(normal_cdf(-at), 1e-300)
    hazard = np.where(at > 30.0, at, hazard)
    expected = mean + deviation * hazard
    return expected, mean**2 + deviation**2 + deviation * (mean + ends) * hazard


def _lognormal(free: FloatArray, ended: FloatArray) -> Distribution | None:
    logs, ends = np.log(free), np.log(ended)
    return Distribution("lognormal", _moments(logs, ends, np.ones(len(logs)), np.ones(len(ends))))


def _weibull(free: FloatArray, ended: FloatArray) -> Distribution | None:
    """The root of the likelihood's derivative, by bisection: it falls with the shape."""
    scale = float(np.exp(np.log(free).mean()))
    every = np.concatenate((free, ended)) / scale
    logs, mean = np.log(every), float(np.log(free / scale).mean())
    low, high = 1e-3, 1e3
    for _ in range(100):
        shape = math.sqrt(low * high)
        weights = np.exp(np.clip(shape * (logs - logs.max()), -700.0, 0.0))
        if 1.0 / shape + mean - float(weights @ logs / weights.sum()) > 0.0:
            low = shape
        else:
            high = shape
    powers = np.exp(np.clip(shape * (logs - logs.max()), -700.0, 0.0)).sum() / len(free)
    return Distribution("weibull", (shape, scale * math.exp(logs.max() + math.log(powers) / shape)))


def _gamma(free: FloatArray, ended: FloatArray) -> Distribution | None:
    every = np.concatenate((free, ended))
    mean, variance = float(every.mean()), max(float(every.var()), 1e-12)
    begin = (math.log(mean**2 / variance), math.log(variance / mean))

    def loss(at: FloatArray) -> float:
        if np.abs(at).max() > 50.0:
            return math.inf
        return -Distribution("gamma", (math.exp(at[0]), math.exp(at[1]))).log_likelihood(free, ended)

    shape, scale = np.exp(least(loss, np.array(begin)))
    return Distribution("gamma", (float(shape), float(scale)))


def _two_lognormals(free: FloatArray, ended: FloatArray) -> Distribution | None:
    """By expectation-maximisation from the lower and the upper half."""
    logs, ends = np.log(free), np.log(ended)
    if len(logs) < 4 * LEAST:
        return None
    median = float(np.median(logs))
    part, both = 0.5, []
    for half in (logs[logs <= median], logs[logs > median]):
        if not len(half):
            return None
        both.append((float(half.mean()), max(float(half.std()), 0.05)))
    before = -math.inf
    for _ in range(_ROUNDS):
        density = [_normal_density(logs, *one) for one in both]
        above = [normal_cdf(-(ends - mean) / deviation) for mean, deviation in both]
        likely = part * density[0] + (1 - part) * density[1]
        likely_end = part * above[0] + (1 - part) * above[1]
        mine = part * density[0] / np.maximum(likely, 1e-300)
        mine_end = part * above[0] / np.maximum(likely_end, 1e-300)
        part = float((mine.sum() + mine_end.sum()) / (len(logs) + len(ends)))
        if not 0.01 < part < 0.99:
            return None  # one of them is a handful of values
        both = [
            _one_round(logs, ends, (weights, of_ends), one)
            for one, weights, of_ends in zip(both, (mine, 1 - mine), (mine_end, 1 - mine_end), strict=True)
        ]
        now = float(np.log(np.maximum(likely, 1e-300)).sum() + np.log(np.maximum(likely_end, 1e-300)).sum())
        if abs(now - before) < 1e-7 * max(abs(now), 1.0):
            break
        before = now
    return Distribution("two-lognormals", (part, *both[0], *both[1]))


def _normal_density(values: FloatArray, mean: float, deviation: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * ((values - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi)))


def _one_round(
    logs: FloatArray, ends: FloatArray, weights: tuple[FloatArray, FloatArray], of: tuple[float, float]
) -> tuple[float, float]:
    """Mean and deviation after one round, of values that belong to a component in part."""
    expected, square = _beyond(*of, ends)
    total = max(float(weights[0].sum() + weights[1].sum()), 1e-300)
    mean = float(weights[0] @ logs + weights[1] @ expected) / total
    spread = float(weights[0] @ (logs - mean) ** 2 + weights[1] @ (square - 2 * mean * expected + mean**2))
    return mean, max(math.sqrt(max(spread, 0.0) / total), 0.02)


def _pareto_tail(free: FloatArray, ended: FloatArray) -> Distribution | None:
    """A lognormal body and a generalised Pareto distribution above it; None where a limit ends the tail itself."""
    count = len(free) + len(ended)
    tail = round(TAIL_PART * count)
    if tail < LEAST or len(ended) > tail // 2:
        return None
    begins = float(np.sort(np.concatenate((free, ended)))[-tail - 1])
    beyond, ends = free[free > begins] - begins, ended - begins
    if len(beyond) < LEAST or np.ptp(beyond) <= 0.0:
        return None

    def loss(at: FloatArray) -> float:
        shape, scale = float(at[0]), math.exp(min(float(at[1]), 100.0))
        inside = 1.0 + shape * np.concatenate((beyond, ends)) / scale
        if not -0.5 < shape < 1.5 or inside.min() <= 0.0:
            return math.inf
        if abs(shape) < 1e-9:
            return float((beyond.sum() + ends.sum()) / scale + len(beyond) * math.log(scale))
        logs = np.log(inside)
        return float(logs.sum() / shape + logs[: len(beyond)].sum() + len(beyond) * math.log(scale))

    shape, log_scale = least(loss, np.array([0.1, math.log(float(beyond.mean()))]))
    body = _lognormal(free, ended)
    part = (len(beyond) + len(ends)) / count
    assert body is not None
    return Distribution("pareto-tail", (*body.parameters, begins, part, float(shape), math.exp(float(log_scale))))


def least(loss: Callable[[FloatArray], float], begin: FloatArray) -> FloatArray:
    """Where a function of few variables is least, by the simplex of Nelder and Mead."""
    points = [begin] + [begin + 0.25 * row for row in np.eye(len(begin))]
    corners = sorted(((loss(point), tuple(point)) for point in points), key=lambda corner: corner[0])
    for _ in range(_ROUNDS):
        centre = np.mean([corner[1] for corner in corners[:-1]], axis=0)
        worst = np.array(corners[-1][1])
        tried = centre + (centre - worst)
        value = loss(tried)
        if value < corners[0][0]:
            further = centre + 2.0 * (centre - worst)
            beyond = loss(further)
            tried, value = (further, beyond) if beyond < value else (tried, value)
        elif value >= corners[-2][0]:
            tried = centre + 0.5 * ((tried if value < corners[-1][0] else worst) - centre)
            value = loss(tried)
        if value < corners[-1][0]:
            corners[-1] = (value, tuple(tried))
        else:
            best = np.array(corners[0][1])
            shrunk = [best + 0.5 * (np.array(corner[1]) - best) for corner in corners[1:]]
            corners[1:] = [(loss(point), tuple(point)) for point in shrunk]
        corners.sort(key=lambda corner: corner[0])
        if abs(corners[-1][0] - corners[0][0]) < 1e-10 * max(abs(corners[0][0]), 1.0):
            break
    return np.array(corners[0][1])
