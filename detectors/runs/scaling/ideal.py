"""What perfect scaling would be: weak or strong, stated by the user or recognised from the work itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.runs.costs import CostTable
from scalana.detectors.thresholds.differences import CLEAR_OF_THE_MIDDLE
from scalana.graphs.arrays.types import FloatArray

STRONG, WEAK = "strong", "weak"


@dataclass(frozen=True, slots=True)
class Ideal:
    """How the runs were made."""

    scaling: str
    """``strong``: the whole work is the same at every size; ``weak``: the work of a rank is."""
    stated: bool
    """Whether the user said so."""
    exponent: float
    """With what power of the ranks the whole work grows at the places where most of it is done: 0 in strong scaling,
    1 in weak scaling; NaN where no place worked at two sizes."""

    @property
    def certain(self) -> bool:
        """Whether the work speaks clearly, or the user said it."""
        return self.stated or abs(self.exponent - 0.5) >= CLEAR_OF_THE_MIDDLE

    def seconds(self, at_smallest_s: FloatArray | float, smallest: float, ranks: FloatArray | float) -> FloatArray:
        """Ideal seconds of an average rank on ``ranks``, from those on the smallest number of ranks."""
        factor = np.asarray(smallest / np.asarray(ranks, dtype=np.float64)) if self.scaling == STRONG else np.ones(1)
        return np.asarray(at_smallest_s * factor)


def find_ideal(table: CostTable, stated: str | None = None) -> Ideal:
    """Tell weak from strong scaling by how the whole work of places grows, weighted by their work at the smallest size.

    It is a weighted median over places: work that one rank does for all, or that every rank repeats, does not decide
    as long as it is less than half of the work at the smallest size, where it is rarest.
    """
    ranks = table.ranks
    rows = np.flatnonzero((table.kind == TargetKind.OWN) & ~table.setup)
    weight = table.work_s[rows][:, ranks == ranks.min()].mean(axis=1) if len(rows) else np.zeros(0)
    exponent = float("nan")
    exponents = np.array([_exponent(ranks, table.work_s[row]) for row in rows], dtype=np.float64)
    told = (weight > 0.0) & np.isfinite(exponents)
    if told.any():
        exponent = _weighted_median(exponents[told], weight[told])
    if stated is not None:
        return Ideal(stated, True, exponent)
    return Ideal(WEAK if exponent > 0.5 else STRONG, False, exponent)


def _exponent(ranks: FloatArray, seconds: FloatArray) -> float:
    """Slope in log-log of what is positive; NaN where that is one size."""
    positive = seconds > 0.0
    x = np.log(ranks[positive])
    if not len(x) or np.ptp(x) <= 0.0:
        return float("nan")
    x = x - x.mean()
    return float(x @ np.log(seconds[positive]) / (x @ x))


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, 0.5 * cumulative[-1])])
