"""What was inside what on a thread, and what a thread was doing at some moments."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import IntArray


def nested(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """The order of some events of one thread, outer ones first, and the row of the one around each, -1 for none.

    What begins inside of another event is inside of it: traces in whole microseconds let it end a little later.
    """
    order = np.lexsort((-end_ns, start_ns))
    around = np.full(len(order), -1, np.int64)
    if len(order):
        _nest(start_ns, end_ns, order, around)
    return order, around


def innermost(start_ns: IntArray, end_ns: IntArray, order: IntArray, times_ns: IntArray) -> IntArray:
    """The innermost event at each of some sorted times, -1 for none ``[times]``."""
    found = np.full(len(times_ns), -1, np.int64)
    if len(order) and len(times_ns):
        _look(start_ns, end_ns, order, times_ns, found)
    return found


@compiled
def _nest(start, end, order, around):  # type: ignore[no-untyped-def]  # pragma: no cover
    stack = np.empty(len(order), np.int64)
    height = 0
    for row in order:
        while height and end[stack[height - 1]] <= start[row]:
            height -= 1
        if height:
            around[row] = stack[height - 1]
        stack[height] = row
        height += 1


@compiled
def _look(start, end, order, times, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    stack = np.empty(len(order), np.int64)
    height, at = 0, 0
    for number in range(len(times)):
        time = times[number]
        while at < len(order) and start[order[at]] <= time:
            row = order[at]
            while height and end[stack[height - 1]] <= start[row]:
                height -= 1
            stack[height] = row
            height += 1
            at += 1
        while height and end[stack[height - 1]] <= time:
            height -= 1
        if height:
            found[number] = stack[height - 1]
