"""A run in which everything took longer than the other runs let expect: the machine's doing, and not the program's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.noise.verdict import beyond_noise
from scalana.detectors.runs.scaling.models import PER_COEFFICIENT, PER_OUTLIER, without_each
from scalana.detectors.thresholds.certainty import OUTLYING
from scalana.detectors.thresholds.counts import SHOWS_THE_NOISE
from scalana.detectors.thresholds.factors import FAR_MORE
from scalana.detectors.thresholds.shares import EXPLAINED
from scalana.graphs.arrays.types import FloatArray


@dataclass(frozen=True, slots=True)
class Disturbed:
    """The run, and how many times the other runs' seconds it took."""

    run: int
    times: float


def find_disturbed(
    ranks: FloatArray, places: Sequence[tuple[FloatArray, FloatArray]], noise: float, noise_weight: float
) -> Disturbed | None:
    """The run that fits to no simple growth, at nearly all places by nearly the same factor, while all others do; None
    if there is none, or too few runs to tell.

    One place may grow at one size all of a sudden, by an algorithm or a buffer that is chosen by size. That all places
    do so, and alike, is what a busy or throttled machine looks like.

    Args:
        ranks: Number of ranks ``[runs]``.
        places: Seconds of an average rank and their standard errors, each ``[runs]``.
        noise, noise_weight: As for :func:`~scalana.detectors.runs.scaling.models.fit`.
    """
    if len(ranks) < SHOWS_THE_NOISE or not places:
        return None
    gains, times = np.zeros((len(places), len(ranks))), np.ones((len(places), len(ranks)))
    for row, (seconds, error_s) in enumerate(places):
        gains[row], times[row] = without_each(ranks, seconds, error_s, noise, noise_weight)
    # The factor of a run is one number for all places; what any place gains by it must be more than a number's worth.
    gain = (gains - PER_COEFFICIENT).sum(axis=0) - PER_OUTLIER
    seconds = np.array([place[0] for place in places])
    for run in np.argsort(-gain, kind="stable").tolist():
        if gain[run] <= 0.0:
            return None
        low, middle, high = _quantiles(times[:, run], seconds[:, run], (1.0 - EXPLAINED, 0.5, EXPLAINED))
        if beyond_noise(off_alike(float(np.log(low)), float(np.log(high))), noise, OUTLYING):
            return Disturbed(run, float(middle))
    return None


def off_alike(low: float, high: float) -> float:
    """How far places are off at least, which are so by factors whose logarithms are mostly between two; 0 where that is
    not by about one factor."""
    least, most = sorted((abs(low), abs(high)))
    return least if (low > 0.0) == (high > 0.0) and most < FAR_MORE * least else 0.0


def _quantiles(values: FloatArray, weights: FloatArray, shares: tuple[float, ...]) -> list[float]:
    """Quantiles of positive values by weight."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    at = np.searchsorted(cumulative, np.array(shares) * cumulative[-1])
    return np.maximum(values[order][np.minimum(at, len(values) - 1)], 1e-300).tolist()
