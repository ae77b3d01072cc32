"""Marks on a stream, as a job records them around modules and collectives, as what the device did.

Between two marks that follow each other the device did what was launched between them. From when the host recorded
the later one, all of that is launched, and the device is busy with it up to that mark. Before, the device may have
waited for the host: how much of that it worked is not known. It counts as none of it, but for the time in which the
host itself waited for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.shares import SHARE_OF_ITS_OWN
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Marked:
    """What is between two marks each; of one rank, in any order."""

    start_s: FloatArray
    """``[spans]``"""
    end_s: FloatArray
    """``[spans]``"""
    start_host_s: FloatArray
    """When the host recorded the mark where it begins ``[spans]``."""
    end_host_s: FloatArray
    """When it recorded that where it ends ``[spans]``."""
    communicates: BoolArray
    """Whether it is the device's side of a collective ``[spans]``."""


def in_order(marks_s: FloatArray, host_s: FloatArray, stream: IntArray) -> FloatArray:
    """When the device came to some marks, none before those that the host put on the same stream earlier ``[marks]``.

    The clock of a device is set anew for each step, to some microseconds: by it the first mark of a step may come
    before the last one of the step before.

    Args:
        marks_s: when the device came to each ``[marks]``.
        host_s: when the host recorded each ``[marks]``.
        stream: on which it lies ``[marks]``.
    """
    found = marks_s.copy()
    order = np.lexsort((marks_s, host_s, stream))
    for rows in np.split(order, np.flatnonzero(np.diff(stream[order])) + 1):
        found[rows] = np.maximum.accumulate(marks_s[rows])
    return found


Stretches = tuple[FloatArray, FloatArray]
"""Begins and ends, in order ``[stretches]`` each."""


def work_of(spans: Marked, idle_s: Stretches, awaited_s: Stretches) -> tuple[FloatArray, FloatArray, IntArray]:
    """Begin, end and innermost span (-1 for none) of the stretches in which the device worked ``[stretches]``.

    Args:
        spans: of one rank.
        idle_s: in which the host waited for the device.
        awaited_s: in which collectives ran that C++ has the stream wait for, with no mark (DDP's reducer): outside of
            modules the stream does so.
    """
    count = len(spans.start_s)
    times = np.concatenate((spans.start_s, spans.end_s))
    of = np.tile(np.arange(count), 2)
    ends = np.repeat([False, True], count)
    # At one moment what began last ends first, and then others begin.
    order = np.lexsort((np.where(ends, -spans.start_s[of], spans.start_s[of]), ~ends, times))
    begins, stops, inside = [], [], []
    open_: list[int] = []
    before = 0.0
    for place, mark in enumerate(order.tolist()):
        span, ending, time = int(of[mark]), bool(ends[mark]), float(times[mark])
        launched = float(spans.end_host_s[span] if ending else spans.start_host_s[span])
        waits = ending and bool(spans.communicates[span]) and bool(spans.end_s[span] > spans.start_s[span])
        if place and time > before and not waits:
            innermost = open_[-1] if open_ else -1
            known = min(max(launched, before), time)
            if known - before < SHARE_OF_ITS_OWN * (time - before):
                known = before
            for low, high in _besides_all([*_overlaps(before, known, idle_s), (known, time)], innermost, awaited_s):
                if high > low:
                    begins.append(low)
                    stops.append(high)
                    inside.append(innermost)
        before = max(before, time)
        if spans.communicates[span]:
            continue
        if ending:
            if span in open_:
                open_.remove(span)
        else:
            open_.append(span)
    return np.array(begins, np.float64), np.array(stops, np.float64), np.array(inside, np.int64)


def _besides_all(
    stretches: list[tuple[float, float]], innermost: int, awaited_s: Stretches
) -> list[tuple[float, float]]:
    """What of some stretches is work: outside of modules (-1) the stream waits for collectives."""
    if innermost >= 0:
        return stretches
    return [piece for low, high in stretches for piece in _besides(low, high, awaited_s)]


def _besides(begin_s: float, end_s: float, stretches: Stretches) -> list[tuple[float, float]]:
    """What of the time between two moments lies in none of some stretches."""
    found, at = [], begin_s
    for low, high in _overlaps(begin_s, end_s, stretches):
        found.append((at, low))
        at = high
    return [*found, (at, end_s)]


def _overlaps(begin_s: float, end_s: float, stretches: Stretches) -> list[tuple[float, float]]:
    starts, ends = stretches
    low, high = int(np.searchsorted(ends, begin_s)), int(np.searchsorted(starts, end_s))
    return [
        (max(float(starts[row]), begin_s), min(float(ends[row]), end_s))
        for row in range(low, high)
        if min(float(ends[row]), end_s) > max(float(starts[row]), begin_s)
    ]
