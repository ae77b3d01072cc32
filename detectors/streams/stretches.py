"""Stretches of time that do not overlap.

Of kernels that run at once on several streams, the one that began first has the time: a device is one resource, and the
seconds of a rank must add up to its time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.intervals import gaps, length_until
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Stretches(ColumnTable):
    """Stretches of time, sorted, without overlap, each with what it is."""

    start_s: FloatArray
    """``[stretches]``"""
    end_s: FloatArray
    """``[stretches]``"""
    what: IntArray
    """Kind of work ``[stretches]``."""
    before_s: FloatArray
    """Seconds of all stretches before each ``[stretches]``."""

    def covered_s(self, times_s: FloatArray) -> FloatArray:
        """Seconds of all stretches up to some times ``[times]``."""
        return length_until(times_s, self.start_s, self.end_s, self.before_s)

    def gaps(self, begin_s: float, end_s: float) -> FloatArray:
        """Begin and end of what lies between them from one time to another ``[gaps, 2]``."""
        return gaps(self.start_s, self.end_s, begin_s, end_s)

    def within(self, begin_s: float, end_s: float, but: Stretches | None = None) -> tuple[IntArray, FloatArray]:
        """What there is between two times, and its seconds but for those that lie in others."""
        first = int(np.searchsorted(self.end_s, begin_s, side="right"))
        last = int(np.searchsorted(self.start_s, end_s, side="left"))
        if last <= first:
            return np.zeros(0, np.int64), np.zeros(0)
        start, end = np.maximum(self.start_s[first:last], begin_s), np.minimum(self.end_s[first:last], end_s)
        seconds = end - start
        if but is not None and len(but):
            seconds = seconds - (but.covered_s(end) - but.covered_s(start))
        return self.what[first:last], seconds


def clipped(stretches: Stretches, begin_s: FloatArray, end_s: FloatArray) -> Stretches:
    """What of some stretches lies in windows, which do not overlap and are in order ``[windows]``."""
    starts, ends, what = [], [], []
    for begin, end in zip(begin_s.tolist(), end_s.tolist(), strict=True):
        first = int(np.searchsorted(stretches.end_s, begin, side="right"))
        last = int(np.searchsorted(stretches.start_s, end, side="left"))
        starts.append(np.maximum(stretches.start_s[first:last], begin))
        ends.append(np.minimum(stretches.end_s[first:last], end))
        what.append(stretches.what[first:last])
    return without_overlap(np.concatenate(starts), np.concatenate(ends), np.concatenate(what))


def without_overlap(start_s: FloatArray, end_s: FloatArray, what: IntArray) -> Stretches:
    """Stretches of some that may overlap: what began first has the time."""
    order = np.lexsort((-end_s, start_s))
    start_s, end_s, what = start_s[order], end_s[order], what[order]
    if not len(order):
        return Stretches(start_s, end_s, what, start_s)
    until = np.concatenate(([-np.inf], np.maximum.accumulate(end_s)[:-1]))
    start_s = np.maximum(start_s, until)
    kept = end_s > start_s
    start_s, end_s, what = start_s[kept], end_s[kept], what[kept]
    length = end_s - start_s
    return Stretches(start_s, end_s, what, np.cumsum(length) - length)
