"""Sums, medians and quantiles by key, without a Python loop, in time that grows with the rows alone.

Small tables are handled by sorting, large ones by the hash tables of :mod:`~scalana.graphs.arrays.hashing`.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.hashing import distinct, ordered
from scalana.graphs.arrays.types import FloatArray, IntArray

_SHORT = 256
"""Values up to which a segment is sorted by a compiled loop rather than by numpy."""


def sum_by_key(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and the sum of the values of each."""
    keys, _, number = distinct(key)
    return keys, weighted_count(number, value, len(keys))


def weighted_count(index: IntArray, weight: FloatArray, length: int) -> FloatArray:
    """Sum of the weights at every index from 0 to ``length`` ``[length]``."""
    return np.asarray(np.bincount(index, weights=weight, minlength=length), dtype=np.float64)


def median_by_key(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and the median of the values of each."""
    keys, _, number = distinct(key)
    low, high = quantiles(number, value, (0.5, 0.5), (False, True))
    return keys, (low + high) / 2.0


def quantile_by_key(key: IntArray, value: FloatArray, q: float) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and a value of each at the quantile ``q``, no interpolation."""
    keys, _, number = distinct(key)
    return keys, quantiles(number, value, (q,), (False,))[0]


def quantiles(number: IntArray, value: FloatArray, q: tuple[float, ...], upper: tuple[bool, ...]) -> list[FloatArray]:
    """The values of each number at several quantiles, no interpolation. Every number from 0 on occurs."""
    size = np.bincount(number)
    first = np.concatenate(([0], np.cumsum(size)))
    return at_quantiles(first, sort_segments(first, value[ordered(number, len(size))]), q, upper)


def medians(first: IntArray, value: FloatArray) -> FloatArray:
    """Median of every segment, of which none is empty. ``first`` is ``[segments + 1]``."""
    low, high = at_quantiles(first, sort_segments(first, value.copy()), (0.5, 0.5), (False, True))
    return (low + high) / 2.0


def at_quantiles(first: IntArray, value: FloatArray, q: tuple[float, ...], upper: tuple[bool, ...]) -> list[FloatArray]:
    """The values of sorted segments at several quantiles, each ``[segments]``."""
    result = []
    for part, up in zip(q, upper, strict=True):
        rank = part * (np.diff(first) - 1)
        result.append(value[first[:-1] + (np.ceil(rank) if up else np.floor(rank)).astype(np.int64)])
    return result


def sort_segments(first: IntArray, value: FloatArray) -> FloatArray:
    """Sort the values of every segment, in place; returns them."""
    _sort_short(first, value, _SHORT)
    for segment in np.flatnonzero(np.diff(first) > _SHORT).tolist():
        value[first[segment] : first[segment + 1]].sort()
    return value


@compiled
def _sort_short(first, value, most):  # type: ignore[no-untyped-def]  # pragma: no cover
    for segment in range(len(first) - 1):
        if 1 < first[segment + 1] - first[segment] <= most:
            sort_values(value[first[segment] : first[segment + 1]])


@compiled
def sort_values(values):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Sort a short array in place, by insertion over shrinking steps (Shell 1959); numba's own sort takes a second to
    compile for every type."""
    step = len(values) // 2
    while step > 0:
        for row in range(step, len(values)):
            held = values[row]
            place = row
            while place >= step and values[place - step] > held:
                values[place] = values[place - step]
                place -= step
            values[place] = held
        step //= 2


@compiled
def grown(values, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """A longer array that begins with the same values; quicker to compile than ``concatenate``."""
    result = np.empty(length, values.dtype)
    for row in range(len(values)):
        result[row] = values[row]
    return result
