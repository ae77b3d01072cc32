"""What a device and its host did, as stretches of time that do not overlap.

Of kernels that run at once on several streams, the one that began first has the time: a device is one resource, and the
seconds of a rank must add up to its time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from scalana.detectors.device.ends import Marks, end_together
from scalana.detectors.device.marked import Marked, work_of
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.columns import Spans
from scalana.graphs.spans.host import HostActivity
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline

_BLOCKING = re.compile(
    r"[Ss]ynchronize|Memcpy|aten::item|_local_scalar_dense|aten::nonzero|aten::is_nonzero"
    r"|\b(?:item|tolist|cpu|numpy|nonzero)\("
)
"""In names of calls of a device's runtime, of operators, and of functions of the program, and in lines of it."""


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
    windows: FloatArray
    """Where it was looked at without a break: where that begins, the first thing on the device, and where the last one
    ends ``[windows, 3]``."""
    counts: IntArray
    """How often it did each kind of work: kernels, copies, or modules where only these were recorded
    ``[kinds of work]``."""
    seconds: FloatArray
    """How long that took; of modules as many times their median, as a host may be late in some ``[kinds of work]``."""

    @property
    def total_s(self) -> float:
        """From the first thing on it to the last, wherever it was looked at."""
        return float((self.windows[:, 2] - self.windows[:, 1]).sum())

    def begin_s(self, moment_s: float) -> float:
        """Where looking at it began, up to a moment."""
        at = int(np.searchsorted(self.windows[:, 1], moment_s, side="right")) - 1
        return float(self.windows[max(at, 0), 0])

    def first_s(self, moment_s: float) -> float:
        """When the first thing on it began since then."""
        at = int(np.searchsorted(self.windows[:, 1], moment_s, side="right")) - 1
        return float(self.windows[max(at, 0), 1])


@dataclass(frozen=True, slots=True)
class Devices:
    """All ranks that have a device, and what their stretches are."""

    of_rank: dict[int, Device]
    vertex: IntArray
    """Vertex of each kind of work ``[kinds of work]``."""
    name: IntArray
    """Row in the names of the spans ``[kinds of work]``."""
    names: list[str]
    inputs: IntArray
    """Row in the names of the shapes that each kind of work is given, -1 where they are not known
    ``[kinds of work]``."""
    blocking: BoolArray
    """Whether the host waits for the device in it ``[kinds of work]``."""
    lanes: list[tuple[int, str, float, int]]
    """Rank, name, busy seconds and spans of every stream."""
    marked: bool
    """Whether jobs marked on streams what they launched, rather than a profiler every kernel."""

    def text(self, what: int) -> str:
        """The name of a kind of work."""
        return self.names[int(self.name[what])]

    def counts(self) -> IntArray:
        """How often each rank's device did each kind of work ``[ranks, kinds of work]``, ranks in their order."""
        return np.array([self.of_rank[rank].counts for rank in sorted(self.of_rank)], np.int64)


@dataclass(slots=True)
class _Doings:
    """What devices and hosts did, from spans and samples."""

    rank: IntArray
    start_s: FloatArray
    end_s: FloatArray
    what: IntArray
    """Kind of work ``[doings]``."""
    on_device: BoolArray
    thread: IntArray
    """Of the host, -1 for the device ``[doings]``."""
    span: IntArray
    """Row of the span, -1 for samples ``[doings]``."""

    def of(self, rows: IntArray) -> Stretches:
        """Some of them, without overlap."""
        return without_overlap(self.start_s[rows], self.end_s[rows], self.what[rows])


def devices_of(spans: Spans, timeline: Timeline, host: HostActivity, psg: PSG) -> Devices:
    """Sort out what the ranks' devices and hosts did.

    Args:
        spans: of all processes.
        timeline: of the run.
        host: what threads did, where no span tells it.
        psg: the program.
    """
    doings, kinds, names = _doings(spans, host, psg)
    vertex, name, inputs = kinds
    blocks = np.array([_BLOCKING.search(text) is not None for text in names], np.bool_)[name]
    for kind in np.flatnonzero(~blocks & (name >= len(spans.names))).tolist():
        blocks[kind] = _BLOCKING.search(f"{psg.function_of(int(vertex[kind]))}(") is not None
    table = spans.table
    marked = np.append(_marked(spans), False)[doings.span]
    communicates = np.append((spans.texts("collective") >= 0) | (table.event >= 0), False)[doings.span]
    call = np.append(spans.call.astype(np.int64), -1)[doings.span]
    posts = timeline.calls.posts.astype(np.int64)
    instance = np.where(call >= 0, posts[np.maximum(call, 0)] if len(posts) else -1, -1)
    start, end = doings.start_s.copy(), doings.end_s.copy()
    _end_together(doings, np.flatnonzero(marked & communicates & (instance >= 0)), instance, spans, timeline)
    of_rank, lanes = {}, []
    for number in np.unique(doings.rank[doings.on_device]).tolist():
        mine = doings.rank == number
        device = mine & doings.on_device
        own = np.flatnonzero(mine & ~doings.on_device)
        main = int(doings.thread[own].min(initial=1 << 40))
        beside, own = own[doings.thread[own] != main], own[doings.thread[own] == main]
        talk = np.flatnonzero(device & communicates)
        talk = talk[np.argsort(doings.start_s[talk], kind="stable")]
        helpers, busy_host = doings.of(beside), doings.of(own)
        if (device & marked).any():
            waits = own[blocks[doings.what[own]]]
            talk = talk[marked[talk]]
            rows = np.flatnonzero(device & marked)
            between = _between(spans, doings.span[rows], start[rows], end[rows], communicates[rows])
            work = _marked_work(between, doings.what[rows], doings.of(waits))
            kernels = np.flatnonzero(device & ~marked & ~communicates)
            work = _with_kernels(work, doings, kernels, table.step[doings.span[kernels]].astype(np.int64))
            modules = np.flatnonzero(device & ~communicates)
            seconds = _medians(doings.what[modules], end[modules] - start[modules], len(vertex))
            shown = _joined(work, doings.of(talk))
        else:
            work, shown = doings.of(np.flatnonzero(device & ~communicates)), doings.of(np.flatnonzero(device))
            seconds = np.bincount(work.what, work.end_s - work.start_s, len(vertex)).astype(np.float64)
        begun, ended = doings.start_s[talk], doings.end_s[talk]
        of_rank[number] = Device(
            work,
            Communication(begun, ended, instance[talk], call[talk], np.maximum.accumulate(ended)),
            helpers,
            busy_host,
            shown,
            _windows(doings, mine, device, spans),
            np.bincount(doings.what[device & ~communicates], minlength=len(vertex)),
            seconds,
        )
        lanes += _streams(spans, number, doings, device)
    return Devices(of_rank, vertex, name, names, inputs, blocks, lanes, bool(marked.any()))


def _doings(spans: Spans, host: HostActivity, psg: PSG) -> tuple[_Doings, IntArray, list[str]]:
    """All of them; vertex, name and inputs of each kind of work ``[3, kinds of work]``; and the names."""
    on_device, active = spans.device_lanes()[spans.table.lane], spans.activity_lanes()[spans.table.lane]
    rows = np.flatnonzero(on_device | active)
    names = list(spans.names)
    places, place_of = np.unique(host.vertex, return_inverse=True)
    name_of = np.arange(len(places), dtype=np.int64) + len(names)
    names += [_text(psg, vertex) for vertex in places.tolist()]
    vertex = np.concatenate((spans.vertex[rows].astype(np.int64), host.vertex))
    name = np.concatenate((spans.table.name[rows].astype(np.int64), name_of[place_of]))
    inputs = np.concatenate((spans.texts("inputs")[rows], np.full(len(host), -1)))
    width = len(names) + 1
    keys, what = np.unique((vertex * width + name) * width + inputs + 1, return_inverse=True)
    kinds = np.stack((keys // width // width, keys // width % width, keys % width - 1))
    lane = spans.table.lane[rows].astype(np.int64)
    thread = np.where(on_device[rows], -1, spans.lanes.thread[lane].astype(np.int64) if len(lane) else lane)
    doings = _Doings(
        np.concatenate((spans.rank[rows], host.rank)),
        np.concatenate((spans.start_s(rows), host.start_s)),
        np.concatenate((spans.end_s(rows), host.end_s)),
        what.astype(np.int64),
        np.concatenate((on_device[rows], np.zeros(len(host), np.bool_))),
        np.concatenate((thread, host.thread)),
        np.concatenate((rows, np.full(len(host), -1))),
    )
    return doings, kinds, names


def _text(psg: PSG, vertex: int) -> str:
    """What a thread does at a vertex, in a word."""
    place = psg[vertex].place
    return place.name or psg.function_of(vertex)


def _marked(spans: Spans) -> BoolArray:
    """Which spans of devices are what a job marked itself, rather than single kernels ``[spans]``."""
    marked = (spans.texts("kind") >= 0) | (spans.integers("behind_ns") >= 0)
    begins = (spans.texts("collective") >= 0) & (spans.table.end_ns == spans.table.start_ns)  # where C++ waits
    return marked | (begins & marked.any())


def _end_together(doings: _Doings, rows: IntArray, instance: IntArray, spans: Spans, timeline: Timeline) -> None:
    """Let the kernels of collectives begin and end when they did, rather than where the streams are marked."""
    took_s: FloatArray = spans.integers("kernel_ns")[doings.span[rows]].astype(np.float64) * 1e-9
    communicator = timeline.instances.communicator[instance[rows]].astype(np.int64)
    marks = Marks(doings.rank[rows], instance[rows], communicator, doings.start_s[rows], doings.end_s[rows], took_s)
    doings.start_s[rows], doings.end_s[rows] = end_together(marks)


def _between(spans: Spans, rows: IntArray, start_s: FloatArray, end_s: FloatArray, communicates: BoolArray) -> Marked:
    """Some spans as what is between two marks each; their times as they were marked."""
    queued, behind = spans.integers("queued_ns", 0)[rows] * 1e-9, spans.integers("behind_ns", 0)[rows] * 1e-9
    return Marked(start_s, end_s, start_s - queued, end_s - behind, communicates)


def _marked_work(between: Marked, what: IntArray, waits: Stretches) -> Stretches:
    """What a device worked between marks; what lies outside of all modules is of the kind of the next thing there."""
    begin_s, end_s, inside = work_of(between, (waits.start_s, waits.end_s))
    order = np.argsort(between.start_s, kind="stable")
    after = order[np.minimum(np.searchsorted(between.start_s[order], end_s), len(order) - 1)]
    return without_overlap(begin_s, end_s, what[np.where(inside >= 0, inside, after)])


def _with_kernels(work: Stretches, doings: _Doings, rows: IntArray, step: IntArray) -> Stretches:
    """What is between marks, but for steps in which every kernel was recorded: these tell it better."""
    if not len(rows):
        return work
    _, of = np.unique(step, return_inverse=True)
    begin, end = np.full(of.max() + 1, np.inf), np.full(of.max() + 1, -np.inf)
    np.minimum.at(begin, of, doings.start_s[rows])
    np.maximum.at(end, of, doings.end_s[rows])
    kernels = doings.of(rows)
    at = np.searchsorted(np.sort(begin), work.start_s, side="right") - 1
    inside = (at >= 0) & (work.start_s < np.sort(end)[np.maximum(at, 0)])
    kept = np.flatnonzero(~inside)
    return without_overlap(
        np.concatenate((work.start_s[kept], kernels.start_s)),
        np.concatenate((work.end_s[kept], kernels.end_s)),
        np.concatenate((work.what[kept], kernels.what)),
    )


def _medians(what: IntArray, seconds: FloatArray, kinds: int) -> FloatArray:
    """Of each kind, its median times how often there is one ``[kinds]``."""
    order = np.lexsort((seconds, what))
    count = np.bincount(what, minlength=kinds)
    first = np.cumsum(count) - count
    found = np.zeros(kinds)
    some = np.flatnonzero(count)
    found[some] = count[some] * seconds[order[first[some] + count[some] // 2]]
    return found


def _joined(work: Stretches, talk: Stretches) -> Stretches:
    return without_overlap(
        np.concatenate((work.start_s, talk.start_s)),
        np.concatenate((work.end_s, talk.end_s)),
        np.concatenate((work.what, talk.what)),
    )


def _windows(doings: _Doings, mine: BoolArray, device: BoolArray, spans: Spans) -> FloatArray:
    """Where the device was looked at, without a break: begin, first thing on the device, and end of each.

    What a job marks itself is looked at from where the host began a step, as far as that is known.
    """
    rows = np.flatnonzero(device)
    rows = rows[np.argsort(doings.start_s[rows], kind="stable")]
    step = spans.table.step[doings.span[rows]].astype(np.int64)
    marked = bool(_marked(spans)[doings.span[rows]].any())
    breaks = np.flatnonzero(np.diff(step) > 1) + 1 if marked else rows[:0]
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(rows))
    first_s = doings.start_s[rows[firsts]]
    last_s = np.array([doings.end_s[rows[low:high]].max() for low, high in zip(firsts, lasts, strict=True)])
    begin_s = first_s.copy()
    if not len(breaks):
        begin_s[0] = doings.start_s[mine].min()
    if marked:
        steps = spans.rows("step")
        steps = steps[spans.rank[steps] == doings.rank[rows[0]]]
        begun = dict(zip(spans.table.step[steps].tolist(), spans.start_s(steps).tolist(), strict=True))
        begin_s = np.array(
            [
                min(begun.get(step[row], begin), first)
                for row, begin, first in zip(firsts, begin_s, first_s, strict=True)
            ]
        )
    return np.stack((begin_s, first_s, last_s), axis=1)


def _streams(spans: Spans, rank: int, doings: _Doings, device: BoolArray) -> list[tuple[int, str, float, int]]:
    found = []
    lane = np.append(spans.table.lane.astype(np.int64), -1)[doings.span]
    for stream in np.unique(lane[device]).tolist():
        here = np.flatnonzero(device & (lane == stream))
        busy = doings.of(here)
        seconds = float((busy.end_s - busy.start_s).sum())
        found.append((rank, spans.names[int(spans.lanes.name[stream])], seconds, len(here)))
    return found
