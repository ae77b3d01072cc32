"""Sums, medians and quantiles by key, without a Python loop."""

from __future__ import annotations

import numpy as np

from scalana.graphs.timeline import FloatArray, IntArray


def sum_by_key(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and the sum of the values of each. O(n log n)."""
    if not len(key):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    order = np.argsort(key, kind="stable")
    starts = _starts(key[order])
    return key[order][starts], np.add.reduceat(value[order], starts)


def weighted_count(index: IntArray, weight: FloatArray, length: int) -> FloatArray:
    """Sum of the weights at every index from 0 to ``length`` ``[length]``."""
    return np.asarray(np.bincount(index, weights=weight, minlength=length), dtype=np.float64)


def median_by_key(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and the median of the values of each. O(n log n)."""
    keys, low = quantile_by_key(key, value, 0.5, upper=False)
    _, high = quantile_by_key(key, value, 0.5, upper=True)
    return keys, (low + high) / 2.0


def quantile_by_key(key: IntArray, value: FloatArray, q: float, *, upper: bool = False) -> tuple[IntArray, FloatArray]:
    """Return the distinct keys in order, and a value of each at the quantile ``q``, no interpolation."""
    if not len(key):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    order = np.lexsort((value, key))
    starts = _starts(key[order])
    rank = q * (np.diff(np.append(starts, len(order))) - 1)
    at = np.ceil(rank) if upper else np.floor(rank)
    return key[order][starts], value[order][starts + at.astype(np.int64)]


def number_rows(table: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct rows of a table in their order; return the number of each row, and a first row of each."""
    if not len(table):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    _, first, number = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return number.reshape(-1).astype(np.int64), first.astype(np.int64)


def _starts(ordered: IntArray) -> IntArray:
    return np.append(0, np.nonzero(np.diff(ordered))[0] + 1)
