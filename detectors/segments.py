"""Sums, medians and quantiles by key, without a Python loop, in time that grows with the rows alone.

Small tables are handled by sorting, large ones by the hash tables of :mod:`~scalana.graphs.hashing`.
"""

from __future__ import annotations

import numba
import numpy as np

from scalana.graphs.hashing import distinct, number_columns
from scalana.graphs.timeline import FloatArray, IntArray


def sum_by_key(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and the sum of the values of each."""
    keys, _, number = distinct(key)
    return keys, weighted_count(number, value, len(keys))


def weighted_count(index: IntArray, weight: FloatArray, length: int) -> FloatArray:
    """Sum of the weights at every index from 0 to ``length`` ``[length]``."""
    return np.asarray(np.bincount(index, weights=weight, minlength=length), dtype=np.float64)


def median_by_key(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and the median of the values of each."""
    keys, (low, high) = quantiles_by_key(key, value, (0.5, 0.5), (False, True))
    return keys, (low + high) / 2.0


def quantile_by_key(key: IntArray, value: FloatArray, q: float, *, upper: bool = False) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and a value of each at the quantile ``q``, no interpolation."""
    keys, (result,) = quantiles_by_key(key, value, (q,), (upper,))
    return keys, result


def quantiles_by_key(
    key: IntArray, value: FloatArray, q: tuple[float, ...], upper: tuple[bool, ...]
) -> tuple[IntArray, list[FloatArray]]:
    """Return the distinct keys in order, and the values of each at several quantiles, no interpolation."""
    keys, _, number = distinct(key)
    if not len(keys):
        return keys, [np.zeros(0) for _ in q]
    first = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(keys)))])
    ordered = _sorted_segments(number, np.asarray(value, dtype=np.float64), first)
    result = []
    for part, up in zip(q, upper, strict=True):
        rank = part * (np.diff(first) - 1)
        result.append(ordered[first[:-1] + (np.ceil(rank) if up else np.floor(rank)).astype(np.int64)])
    return keys, result


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def grown(values, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """A longer array that begins with the same values; quicker to compile than ``concatenate``."""
    result = np.empty(length, values.dtype)
    for row in range(len(values)):
        result[row] = values[row]
    return result


@numba.njit(cache=True, nogil=True)
def _sorted_segments(number, value, first):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Values by segment, each segment sorted."""
    at = first[:-1].copy()
    result = np.empty(len(value), dtype=np.float64)
    for row in range(len(value)):
        segment = number[row]
        result[at[segment]] = value[row]
        at[segment] += 1
    for segment in range(len(first) - 1):
        low, high = first[segment], first[segment + 1]
        if high - low > 24:
            result[low:high].sort()
            continue
        for row in range(low + 1, high):
            held = result[row]
            place = row
            while place > low and result[place - 1] > held:
                result[place] = result[place - 1]
                place -= 1
            result[place] = held
    return result


def number_rows(table: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct rows of a table in their order; return the number of each row, and a first row of each."""
    return number_columns(*table.T) if len(table) else (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
