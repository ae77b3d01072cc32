"""Periods of time of every rank, and how much of other stretches of time lies in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods of ranks, those of a rank in order and apart from each other."""

    first: IntArray
    """Start of each rank's periods ``[ranks + 1]``."""
    start_s: FloatArray
    """``[periods]``"""
    end_s: FloatArray
    """``[periods]``"""
    before_s: FloatArray
    """Seconds in the periods of the same rank that come before ``[periods]``."""

    @classmethod
    def of(cls, start_s: FloatArray, end_s: FloatArray) -> Periods:
        """Those that begin and end at these times, in order and not overlapping, each ``[periods, ranks]``."""
        count, ranks = start_s.shape
        return cls._of(np.arange(ranks + 1, dtype=np.int64) * count, start_s.T.ravel(), end_s.T.ravel())

    @classmethod
    def joined(cls, rank: IntArray, start_s: FloatArray, end_s: FloatArray, ranks: int) -> Periods:
        """Those that cover some stretches of time, which may overlap; what overlaps or touches is one period. All are
        ``[stretches]``."""
        order = np.lexsort((start_s, rank))
        rank, start, end = rank[order], start_s[order], end_s[order]
        # Ranks one after the other on one axis, so that one running maximum does for all.
        begin_s = float(start.min(initial=0.0))
        shift = rank * (float(end.max(initial=0.0)) - begin_s + 1.0)
        reached = np.maximum.accumulate(end + shift)
        begins = np.append(True, (start + shift)[1:] > reached[:-1])[: len(rank)]
        first_row = np.flatnonzero(begins)
        whole_end = np.maximum.reduceat(end, first_row) if len(first_row) else np.zeros(0)
        return cls._of(np.searchsorted(rank[first_row], np.arange(ranks + 1)), start[first_row], whole_end)

    @classmethod
    def _of(cls, first: IntArray, start_s: FloatArray, end_s: FloatArray) -> Periods:
        before = np.concatenate(([0.0], np.cumsum(end_s - start_s)))
        before = before[:-1] - np.repeat(before[first[:-1]], np.diff(first))
        return cls(first.astype(np.int64), start_s, end_s, before)

    def __len__(self) -> int:
        return len(self.start_s)

    def rank_s(self) -> FloatArray:
        """Seconds of every rank in its periods ``[ranks]``."""
        sums = np.concatenate(([0.0], np.cumsum(self.end_s - self.start_s)))
        return np.asarray(sums[self.first[1:]] - sums[self.first[:-1]])

    def inside_s(self, rank: IntArray, start_s: FloatArray, end_s: FloatArray) -> FloatArray:
        """How many seconds from ``start_s`` to ``end_s`` lie in the periods of ``rank``, each ``[rows]``."""
        result = np.zeros(len(rank))
        _inside(rank, start_s, end_s, _Columns(self.first, self.start_s, self.end_s, self.before_s), result)
        return result

    def row_at(self, rank: IntArray, time_s: FloatArray) -> IntArray:
        """Which of the periods of ``rank`` a time lies in, counted from 0 for each rank, its end included; -1 for none.
        All are ``[rows]``."""
        result = np.full(len(rank), -1, np.int64)
        _row_at(rank, time_s, _Columns(self.first, self.start_s, self.end_s, self.before_s), result)
        return result


class _Columns(NamedTuple):
    """Those of :class:`Periods`."""

    first: IntArray
    start: FloatArray
    end: FloatArray
    before: FloatArray


@compiled
def _begun(first, start, rank, time):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The first period of a rank that does not begin before a time."""
    low, high = first[rank], first[rank + 1]
    while low < high:
        middle = (low + high) // 2
        if start[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _until(periods, rank, time):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Seconds in the periods of a rank before a time."""
    first, start, end, before = periods
    period = _begun(first, start, rank, time) - 1
    if period < first[rank]:
        return 0.0
    return before[period] + min(time, end[period]) - start[period]


@compiled
def _inside(rank, since, until, periods, result):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(len(rank)):
        if until[row] > since[row]:
            result[row] = _until(periods, rank[row], until[row]) - _until(periods, rank[row], since[row])


@compiled
def _row_at(rank, time, periods, result):  # type: ignore[no-untyped-def]  # pragma: no cover
    first, start, end, _ = periods
    for row in range(len(rank)):
        period = _begun(first, start, rank[row], time[row]) - 1
        if period >= first[rank[row]] and time[row] <= end[period]:
            result[row] = period - first[rank[row]]
