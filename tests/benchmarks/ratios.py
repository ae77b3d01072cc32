"""Ratios of measurements that were taken in turns: their median, and how sure it is."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def interval(values: list[float]) -> tuple[float, float, float]:
    """Bounds of a confidence interval of the median and the confidence that it has (Hahn and Meeker, 1991, 5.2).

    The narrowest pair of order statistics with at least ``CONFIDENCE``; of few values the least and the greatest. It
    assumes nothing about how they are distributed.
    """
    ordered, count = sorted(values), len(values)
    best = (ordered[0], ordered[-1], 1 - 0.5 ** (count - 1))
    for cut in range(1, (count + 1) // 2):
        outside = 2 * sum(math.comb(count, below) for below in range(cut + 1)) / 2**count
        if 1 - outside < CONFIDENCE:
            break
        best = (ordered[cut], ordered[-1 - cut], 1 - outside)
    return best
