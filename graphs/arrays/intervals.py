"""Intervals of time: their union, what they have in common, which times lie in them, and the gaps between them.

Intervals are ``[intervals, 2]``, begins and ends. Those that are *apart* are in order and do not overlap, as
:func:`joined` returns them.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray


def joined(intervals: FloatArray) -> FloatArray:
    """The union of any intervals ``[intervals, 2]``, apart; those that overlap or touch are one."""
    if not len(intervals):
        return np.zeros((0, 2))
    ordered = intervals[np.argsort(intervals[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ordered[:, 1])
    first = np.flatnonzero(np.append(True, ordered[1:, 0] > reached[:-1]))
    return np.stack((ordered[first, 0], reached[np.append(first[1:], len(ordered)) - 1]), axis=1)


def lengths_before(intervals: FloatArray) -> FloatArray:
    """Of each interval the length of all before it ``[intervals]``."""
    return np.concatenate(([0.0], np.cumsum(intervals[:, 1] - intervals[:, 0])[:-1]))[: len(intervals)]


def length_until(times: FloatArray, begin: FloatArray, end: FloatArray, before: FloatArray) -> FloatArray:
    """The length of intervals, apart, up to each of some times ``[times]``. ``before`` is what
    :func:`lengths_before` gives; it, ``begin`` and ``end`` are ``[intervals]``."""
    if not len(begin):
        return np.zeros(len(times))
    at = np.searchsorted(begin, times, side="right") - 1
    row = np.maximum(at, 0)
    return np.where(at >= 0, before[row] + (np.minimum(times, end[row]) - begin[row]), 0.0)


def length_between(begin: FloatArray, end: FloatArray, since: FloatArray, until: FloatArray) -> FloatArray:
    """The length of intervals in each of some windows ``[windows]``. The intervals are in the order of their begins;
    of what overlaps an earlier one only the rest counts. ``begin`` and ``end`` are ``[intervals]``, ``since`` and
    ``until`` ``[windows]``."""
    apart = np.maximum.accumulate(np.stack((begin, end), axis=1).ravel()).reshape(-1, 2)
    begin, end, before = np.ascontiguousarray(apart[:, 0]), apart[:, 1], lengths_before(apart)
    inside = length_until(until, begin, end, before) - length_until(since, begin, end, before)
    return np.maximum(inside, 0.0)


def common_length(intervals: FloatArray, others: FloatArray) -> float:
    """The length that two sets of intervals have in common, both ``[intervals, 2]`` and apart."""
    inside = length_between(others[:, 0], others[:, 1], intervals[:, 0], intervals[:, 1])
    return float(inside.sum())


def common_share(intervals: FloatArray, others: FloatArray) -> float:
    """Which part of the length of intervals lies in others, both ``[intervals, 2]`` and apart; 0 where they have no
    length."""
    total = float((intervals[:, 1] - intervals[:, 0]).sum())
    return common_length(intervals, others) / total if total > 0.0 else 0.0


def hold(intervals: FloatArray, times: FloatArray) -> BoolArray:
    """Which of some times lie in one of the intervals, ``[intervals, 2]`` and apart; begins and ends do ``[times]``."""
    if not len(intervals):
        return np.zeros(len(times), np.bool_)
    row = np.searchsorted(intervals[:, 0], times, side="right") - 1
    return np.asarray((row >= 0) & (times <= intervals[np.maximum(row, 0), 1]))


def gaps(begin: FloatArray, end: FloatArray, since: float, until: float) -> FloatArray:
    """What lies between intervals from one time to another ``[gaps, 2]``. The intervals are apart, their begins and
    ends ``[intervals]``."""
    low, high = int(np.searchsorted(end, since)), int(np.searchsorted(begin, until))
    found = np.stack((np.append(since, end[low:high]), np.append(begin[low:high], until)), axis=1)
    return np.asarray(found[found[:, 1] > found[:, 0]])
