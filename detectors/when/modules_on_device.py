"""Time of modules on devices, as a job marks it there: what the host's calls of them left to do.

A module's time on a device is from the mark before it on its stream to the mark after it. In it the device may have
waited for its host: between two marks it did what was launched between them, and from when the host recorded the later
one all of that was launched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.shares import SHARE_OF_ITS_OWN
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.modules import DIRECTIONS, Module, device_calls
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods


@dataclass(frozen=True, slots=True)
class CallPlaces:
    """Whose calls some are; columns are ``[calls]``."""

    module: IntArray
    direction: IntArray
    rank: IntArray
    step: IntArray

    def key(self, steps: IntArray, ranks: int) -> IntArray:
        """One number for all calls of a module, in a direction, in one of ``steps``, on a rank ``[calls]``."""
        way = self.module * len(DIRECTIONS) + self.direction
        return (way * len(steps) + np.searchsorted(steps, self.step)) * ranks + self.rank


@dataclass(frozen=True, slots=True)
class DeviceCalls:
    """What calls of modules left to do on devices; columns are ``[calls]``."""

    places: CallPlaces
    seconds: FloatArray
    starved_s: FloatArray
    """Of these, those in which the device waited for its host, at most."""

    def in_steps(self, steps: IntArray) -> DeviceCalls:
        """Those of some steps."""
        kept = np.isin(self.places.step, steps)
        places = CallPlaces(*(getattr(self.places, name)[kept] for name in CallPlaces.__slots__))
        return DeviceCalls(places, self.seconds[kept], self.starved_s[kept])


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """What modules took on devices: means of a step ``[modules, directions, ranks]``, NaN for modules of which it is
    not known, and on ranks where modules were not timed."""

    seconds: FloatArray
    """All that is on a stream from its begin to its end; also waiting for other ranks, where they meet inside."""
    starved_s: FloatArray
    """Of these, those in which the device waited for its host, at most."""
    is_known: BoolArray
    """Whether marks tell it of a module ``[modules]``."""


def calls_on_devices(spans: Spans, modules: list[Module], waiting: Periods) -> DeviceCalls:
    """What calls of some modules left to do on devices; ``waiting`` is when hosts waited for these."""
    calls = device_calls(spans, modules)
    places = CallPlaces(calls.module, calls.direction, calls.rank, calls.step)
    start, end = spans.start_s(calls.row), spans.end_s(calls.row)
    begun = start - spans.integers("queued_ns", 0)[calls.row] * 1e-9
    ended = end - spans.integers("behind_ns", 0)[calls.row] * 1e-9
    lane = spans.table.lane[calls.row].astype(np.int64)
    starved = np.zeros(len(lane))
    for stream in np.unique(lane).tolist():
        mine = np.flatnonzero(lane == stream)
        rank = int(calls.rank[mine[0]])
        starved[mine] = _starved_s(start[mine], end[mine], begun[mine], ended[mine], rank, waiting)
    return DeviceCalls(places, end - start, starved)


def _starved_s(
    start_s: FloatArray, end_s: FloatArray, begun_s: FloatArray, ended_s: FloatArray, rank: int, waiting: Periods
) -> FloatArray:
    """Seconds of calls on one stream of a rank in which the device waited for its host, at most; with the times at
    which the host recorded their first mark and their last; all are ``[calls]``.

    While the host itself waits for the device, as in ``tensor.item()``, that is busy.
    """
    times = np.concatenate((start_s, end_s))
    order = np.argsort(times, kind="stable")
    times, recorded = times[order], np.concatenate((begun_s, ended_s))[order]
    between = np.diff(times)
    launching = np.clip(recorded[1:] - times[:-1], 0.0, between)
    launching[launching < SHARE_OF_ITS_OWN * between] = 0.0
    of_rank = np.full(len(launching), rank, np.int64)
    launching -= waiting.inside_s(of_rank, times[:-1], times[:-1] + launching)
    before = np.append(0.0, np.cumsum(launching))
    return np.asarray(before[np.searchsorted(times, end_s)] - before[np.searchsorted(times, start_s)])


def device_times(host: CallPlaces, device: DeviceCalls, modules: int, ranks: int) -> DeviceTimes | None:
    """Means of a step of what ``modules`` modules took on devices; None where no marks tell it of any.

    Steps count in which all calls of the host are marked, on all ranks: what has more marks than a step may have, and
    what a device had not come to, is left out of a record.
    """
    steps = np.unique(host.step)
    device = device.in_steps(steps)
    called, count = np.unique(host.key(steps, ranks), return_counts=True)
    key = device.places.key(steps, ranks)
    marked, times = np.unique(key, return_counts=True)
    at = np.searchsorted(marked, called)
    found = np.append(marked, -1)[at] == called
    found &= np.append(times, 0)[at] == count
    groups, of = np.unique(called // ranks, return_inverse=True)
    whole = np.bincount(of[~found], minlength=len(groups)) == 0
    shape = modules, len(DIRECTIONS)
    in_all, in_whole = (
        np.bincount(some // len(steps), minlength=modules * len(DIRECTIONS)).reshape(shape).astype(np.float64)
        for some in (groups, groups[whole])
    )
    is_known = (in_whole > 0).any(axis=1) & ((in_whole > 0) | (in_all == 0)).all(axis=1)
    if not is_known.any():
        return None
    scale = np.divide(in_all, in_whole, out=np.zeros(shape), where=in_whole > 0) / len(steps)
    counts = np.isin(key // ranks, groups[whole])
    place = device.places.module[counts], device.places.direction[counts], device.places.rank[counts]
    absent = ~np.isin(np.arange(ranks), host.rank)

    def mean(column: FloatArray) -> FloatArray:
        table = np.zeros((*shape, ranks))
        np.add.at(table, place, column[counts])
        table *= scale[:, :, np.newaxis]
        table[~is_known] = np.nan
        table[:, :, absent] = np.nan
        return table

    return DeviceTimes(mean(device.seconds), mean(device.starved_s), is_known)
