"""What a device and its host did, as stretches of time that do not overlap.

Of kernels that run at once on several streams, the one that began first has the time: a device is one resource, and the
seconds of a rank must add up to its time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.columns import Spans
from scalana.graphs.timeline import Timeline

_BLOCKING = re.compile(r"Synchronize|Memcpy|aten::item|_local_scalar_dense|aten::nonzero|aten::is_nonzero")


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches of time, sorted, without overlap, each with what it is."""

    start_s: FloatArray
    """``[stretches]``"""
    end_s: FloatArray
    """``[stretches]``"""
    what: IntArray
    """Row in :attr:`Devices.vertex` and :attr:`Devices.name` ``[stretches]``."""
    before_s: FloatArray
    """Seconds of all stretches before each ``[stretches]``."""

    def __len__(self) -> int:
        return len(self.start_s)

    def covered_s(self, times_s: FloatArray) -> FloatArray:
        """Seconds of all stretches up to some times ``[times]``."""
        if not len(self):
            return np.zeros(len(times_s))
        at = np.searchsorted(self.start_s, times_s, side="right") - 1
        row = np.maximum(at, 0)
        inside = np.minimum(times_s, self.end_s[row]) - self.start_s[row]
        return np.where(at >= 0, self.before_s[row] + inside, 0.0)

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


@dataclass(frozen=True, slots=True)
class Communication:
    """The device's sides of communication, of one rank, in the order in which they began."""

    start_s: FloatArray
    end_s: FloatArray
    instance: IntArray
    """Row of the timeline's instances, -1 where it is not known."""
    call: IntArray
    """Row of the timeline's calls, -1 where it is not known."""
    latest_s: FloatArray
    """When the last of those up to each ended."""

    def within(self, begin_s: float, end_s: float) -> range:
        """Rows of those that may run between two times."""
        first = int(np.searchsorted(self.latest_s, begin_s, side="right"))
        return range(first, int(np.searchsorted(self.start_s, end_s)))


@dataclass(frozen=True, slots=True)
class Device:
    """One rank."""

    work: Stretches
    """Kernels and copies but for communication."""
    communication: Communication
    helpers: Stretches
    """What threads of the host beside the main one did."""
    main: Stretches
    """What the main thread of the host did."""
    busy: Stretches
    """Everything on the device."""
    begin_s: float
    """Where the record begins."""
    first_s: float
    """Where the first thing on the device begins."""
    last_s: float
    """Where the last one ends."""
    kernels: int
    """Kernels and copies but for communication."""


@dataclass(frozen=True, slots=True)
class Devices:
    """All ranks that have a device, and what their stretches are."""

    of_rank: dict[int, Device]
    vertex: IntArray
    """Vertex of each kind of work ``[kinds of work]``."""
    name: IntArray
    """Row in the names of the spans ``[kinds of work]``."""
    names: list[str]
    blocking: BoolArray
    """Whether the host waits for the device in it ``[kinds of work]``."""
    lanes: list[tuple[int, str, float, int]]
    """Rank, name, busy seconds and spans of every stream."""

    def text(self, what: int) -> str:
        """The name of a kind of work."""
        return self.names[int(self.name[what])]


def devices_of(spans: Spans, timeline: Timeline) -> Devices:
    """Sort out what the ranks' devices and hosts did."""
    on_device, active = spans.device_lanes()[spans.table.lane], spans.activity_lanes()[spans.table.lane]
    rows = np.flatnonzero(on_device | active)
    vertex, name = spans.vertex[rows].astype(np.int64), spans.table.name[rows].astype(np.int64)
    width = len(spans.names) + 1
    kinds, what = np.unique(vertex * width + name, return_inverse=True)
    start, end = spans.start_s(rows), spans.end_s(rows)
    rank, lane = spans.rank[rows], spans.table.lane[rows].astype(np.int64)
    communicates = spans.texts("collective")[rows] >= 0
    communicates |= spans.table.event[rows] >= 0
    call = spans.call[rows].astype(np.int64)
    posts = timeline.calls.posts.astype(np.int64)
    instance = np.where(call >= 0, posts[np.maximum(call, 0)] if len(posts) else -1, -1)
    thread = spans.lanes.thread[lane].astype(np.int64)
    of_rank, lanes = {}, []
    for number in np.unique(rank[on_device[rows]]).tolist():
        mine = rank == number
        device = mine & on_device[rows]
        work, talk = np.flatnonzero(device & ~communicates), np.flatnonzero(device & communicates)
        talk = talk[np.argsort(start[talk], kind="stable")]
        host = np.flatnonzero(mine & active[rows])
        main = int(thread[host].min(initial=1 << 40))
        beside, own = host[thread[host] != main], host[thread[host] == main]
        of_rank[number] = Device(
            without_overlap(start[work], end[work], what[work]),
            Communication(start[talk], end[talk], instance[talk], call[talk], np.maximum.accumulate(end[talk])),
            without_overlap(start[beside], end[beside], what[beside]),
            without_overlap(start[own], end[own], what[own]),
            without_overlap(start[device], end[device], what[device]),
            float(start[mine].min()),
            float(start[device].min()),
            float(end[device].max()),
            len(work),
        )
        lanes += _streams(spans, number, rows, device, lane, start, end)
    blocks = np.array([_BLOCKING.search(text) is not None for text in spans.names], np.bool_)
    return Devices(of_rank, kinds // width, kinds % width, spans.names, blocks[kinds % width], lanes)


def _streams(
    spans: Spans, rank: int, rows: IntArray, device: BoolArray, lane: IntArray, start: FloatArray, end: FloatArray
) -> list[tuple[int, str, float, int]]:
    found = []
    for stream in np.unique(lane[device]).tolist():
        here = np.flatnonzero(device & (lane == stream))
        busy = without_overlap(start[here], end[here], here)
        seconds = float((busy.end_s - busy.start_s).sum())
        found.append((rank, spans.names[int(spans.lanes.name[stream])], seconds, len(here)))
    return found
