"""The period of a sequence: how many calls it takes until the same ones come again."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.steps.steps import FEWEST

LIKE = 0.8
"""Part of a sequence that must be the same one period later."""
LONGEST = 1 << 18
"""Calls of which the period is told; what comes after is like these."""
LENGTHS = (1, 2, 4, 8)
"""Of runs of calls that may come once a period where no single call does."""
CANDIDATES = 32
"""Periods that are tried."""


def beats_of_period(symbol: IntArray) -> tuple[int, IntArray]:
    """The smallest period of a sequence, and where in it that comes which comes once in each; 0 and nothing if it has
    none.

    Rare symbols between the others, and what comes before and after, do no harm: few symbols differ from the one that
    is a period later for them. The period is a distance that is common between a symbol (or a short run of symbols)
    and its next occurrence.

    >>> beats_of_period(np.array([7, 8, *[1, 2, 3] * 4, 1, 2, 9, 3, *[1, 2, 3] * 3]))
    (3, array([ 4,  7, 10, 13, 17, 20, 23, 26]))
    """
    nothing = np.zeros(0, np.int64)
    runs = [_runs(symbol, length) for length in LENGTHS if length <= len(symbol)]
    near = symbol[:LONGEST]
    for period in _distances(runs):
        for run in runs:
            at = _once_a_period(run, period)
            if len(at) >= FEWEST:
                inside = near[at[0] : at[-1] + 1]
                if period < len(inside) and float(np.mean(inside[period:] == inside[:-period])) >= LIKE:
                    return period, at
    return 0, nothing


def _runs(symbol: IntArray, length: int) -> IntArray:
    """Number of the run of symbols that ends at each place; numbers differ where no such run ends yet ``[symbols]``."""
    number = symbol
    size = 1
    while size < length:
        pair = np.stack((number[:-size], number[size:]))
        _, joined = np.unique(pair, axis=1, return_inverse=True)
        joined = joined.ravel()
        number = np.concatenate((int(joined.max(initial=-1)) + 1 + np.arange(size), joined))
        size *= 2
    return number


def _distances(runs: list[IntArray]) -> list[int]:
    """The commonest distances between a run of symbols and its next occurrence, ascending."""
    found: dict[int, int] = {}
    for run in runs:
        order = np.argsort(run[:LONGEST], kind="stable")
        distance = np.diff(order)[np.diff(run[order]) == 0]
        distances, counts = np.unique(distance, return_counts=True)
        for value, count in zip(distances.tolist(), counts.tolist(), strict=True):
            if count >= FEWEST - 1:
                found[value] = max(found.get(value, 0), value * count)  # how much of the sequence they cover
    best = sorted(found, key=lambda value: -found[value])[:CANDIDATES]
    return sorted(best)


def _once_a_period(run: IntArray, period: int) -> IntArray:
    """Where the run comes that keeps the period best: its next occurrence is most often one period away."""
    order = np.argsort(run, kind="stable")
    same = np.diff(run[order]) == 0
    kept = same & (np.diff(order) == period)
    count = np.bincount(run[order][1:][kept], minlength=int(run.max(initial=0)) + 1)
    if not count.any():
        return np.zeros(0, np.int64)
    often = np.bincount(run)
    # Of those that keep it as often the one that comes last in a period.
    best = np.flatnonzero((count == count.max()) & (often * period <= len(run) + period * FEWEST))
    if not len(best):
        return np.zeros(0, np.int64)
    first = np.full(len(count), -1)
    first[run[::-1]] = np.arange(len(run))[::-1]
    chosen = best[np.argmax(first[best])]
    return np.asarray(np.flatnonzero(run == chosen))
