"""For each row of one table the row of another that came last before it, group by group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.types import IntArray


def latest(of_group: IntArray, of_time: IntArray, group: IntArray, time: IntArray, strictly: bool = False) -> IntArray:
    """The last row of ``of_time`` in the same group that is not later than each ``time``; -1 where there is none.

    Args:
        of_group: group of each row of the one table ``[of]``.
        of_time: its time, in any unit ``[of]``.
        group: group of each row of the other table ``[rows]``.
        time: its time ``[rows]``.
        strictly: whether it must be earlier.

    Returns:
        ``[rows]``
    """
    count = len(of_time)
    other = np.concatenate((np.zeros(count, np.int8), np.ones(len(time), np.int8)))
    groups = np.concatenate((of_group, group))
    order = np.lexsort((-other if strictly else other, np.concatenate((of_time, time)), groups))
    at = np.maximum.accumulate(np.where(order < count, np.arange(len(order)), -1))
    found = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    found[(found < 0) | (groups[found] != groups[order])] = -1
    result = np.full(len(time), -1, np.int64)
    rows = order >= count
    result[order[rows] - count] = found[rows]
    return result


def numbered_keys(*columns: npt.NDArray[np.integer]) -> IntArray:
    """One number for each combination of the values of some columns that are not negative ``[rows]``."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    return key


def matching(of_columns: tuple[IntArray, ...], columns: tuple[IntArray, ...]) -> IntArray:
    """The last row of one table with the same values in all columns as each row of another, -1 for none ``[rows]``."""
    count = len(of_columns[0])
    keys = numbered_keys(*(np.concatenate(pair) for pair in zip(of_columns, columns, strict=True)))
    order = np.argsort(keys[:count], kind="stable")
    at = np.searchsorted(keys[:count][order], keys[count:], side="right") - 1
    if not count:
        return np.full(len(at), -1, np.int64)
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (keys[found] == keys[count:]), found, -1)
