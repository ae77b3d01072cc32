"""What a device and its host did, as stretches of time that do not overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.streams.activities import Doings, Kinds, doings_of, marked_spans
from scalana.detectors.streams.ends import Marks, end_together
from scalana.detectors.streams.marked import Marked, in_order, work_of
from scalana.detectors.streams.stretches import Stretches, clipped, without_overlap
from scalana.detectors.streams.weights import stood_for
from scalana.detectors.streams.windows import all_windows
from scalana.detectors.thresholds.seconds import SAME_TIME_S
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.device_waits import copies_at, waits_at, waits_by_name
from scalana.graphs.spans.host import HostActivity
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline


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
    """Kernels and copies but for communication, in the windows."""
    communication: Communication
    helpers: Stretches
    """What threads of the host beside the main one did."""
    main: Stretches
    """What the main thread of the host did."""
    busy: Stretches
    """Everything on the device, between windows too, where it was seen to be behind its host."""
    windows: FloatArray
    """Where it was looked at without a break: where that begins, the first thing on the device, and where the last one
    ends ``[windows, 3]``."""
    stands_for: FloatArray
    """Steps of the run that a step of each stands for, on average ``[windows]``."""
    counts: IntArray
    """How often it did each kind of work: kernels, copies, or modules where only these were recorded
    ``[kinds of work]``."""
    seconds: FloatArray
    """How long that took; of modules as many times their median, as a host may be late in some ``[kinds of work]``."""
    elements: FloatArray
    """Of the first tensor that each module is given, on average; NaN where that is not known ``[kinds of work]``."""
    launched_s: FloatArray
    """When the host had launched each stretch of :attr:`work`, or that before it where it is not known
    ``[stretches of work]``."""
    marks_s: FloatArray
    """When its host recorded marks, ascending; none where a profiler recorded ``[marks]``."""

    @property
    def total_s(self) -> float:
        """From the first thing on it to the last, wherever it was looked at."""
        return float((self.windows[:, 2] - self.windows[:, 1]).sum())

    @property
    def stood_for_s(self) -> float:
        """The same of the whole run, as far as what was looked at tells it."""
        return float(((self.windows[:, 2] - self.windows[:, 1]) * self.stands_for).sum())

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
    kinds: Kinds
    weight: FloatArray
    """Steps of the run that the step of each operation stands for ``[instances]``."""
    step: IntArray
    """The step of each operation, -1 where it is not known ``[instances]``."""
    stands_for: dict[int, float]
    """The same of every step that was marked, by its number; empty where a profiler recorded."""
    blocking: BoolArray
    """Whether the host waits for the device in it ``[kinds of work]``."""
    lanes: list[tuple[int, str, float, int]]
    """Rank, name, busy seconds and spans of every stream."""
    marked: bool
    """Whether jobs marked on streams what they launched, rather than a profiler every kernel."""

    def weight_of(self, rank: int, number: int) -> float:
        """Steps of the run that an operation stands for, by its row in the communication of a rank."""
        instance = int(self.of_rank[rank].communication.instance[number])
        return float(self.weight[instance]) if instance >= 0 else 1.0

    def counts(self) -> IntArray:
        """How often each rank's device did each kind of work ``[ranks, kinds of work]``, ranks in their order."""
        return np.array([self.of_rank[rank].counts for rank in sorted(self.of_rank)], np.int64)


@dataclass(frozen=True, slots=True)
class _Attributes:
    """What the attributes of all spans say, read once for all ranks."""

    queued_s: FloatArray
    """From when the host put the first mark on the stream until the device came to it ``[spans]``."""
    behind_s: FloatArray
    """The same of the last mark ``[spans]``."""
    stream: IntArray
    """The name of the stream that the marks lie on ``[spans]``."""
    elements: FloatArray
    """Of the inputs of a module, negative where it is none ``[spans]``."""
    marks: BoolArray
    """Whether it lies between marks ``[spans]``."""

    @classmethod
    def of(cls, spans: Spans) -> _Attributes:
        on, lane = spans.texts("stream"), spans.lanes.name[spans.table.lane].astype(np.int64)
        return cls(
            spans.integers("queued_ns", 0).astype(np.float64) * 1e-9,
            spans.integers("behind_ns", 0).astype(np.float64) * 1e-9,
            np.where(on >= 0, on, lane),
            spans.integers("elements").astype(np.float64),
            marked_spans(spans),
        )


def devices_of(spans: Spans, timeline: Timeline, host: HostActivity, psg: PSG) -> Devices:
    """Sort out what the ranks' devices and hosts did.

    Args:
        spans: of all processes.
        timeline: of the run.
        host: what threads did, where no span tells it.
        psg: the program.
    """
    doings, kinds = doings_of(spans, host, psg)
    blocks = np.array([waits_by_name(text) for text in kinds.names], np.bool_)[kinds.name]
    for kind in np.flatnonzero(~blocks & (kinds.name >= len(spans.names))).tolist():
        blocks[kind] = waits_at(int(kinds.vertex[kind]), psg)
    copies = np.zeros(len(kinds), np.bool_)
    copies[blocks] = [copies_at(int(vertex), psg) for vertex in kinds.vertex[blocks]]
    table = spans.table
    marked = np.append(marked_spans(spans), False)[doings.span]
    communicates = np.append((spans.texts("collective") >= 0) | (table.event >= 0), False)[doings.span]
    call = np.append(spans.call.astype(np.int64), -1)[doings.span]
    posts = timeline.calls.posts.astype(np.int64)
    instance = np.where(call >= 0, posts[np.maximum(call, 0)] if len(posts) else -1, -1)
    start, end = doings.start_s.copy(), doings.end_s.copy()
    begins = communicates & marked & (start == end)  # C++ waits for these, and marks no end
    step = np.append(table.step.astype(np.int64), -1)[doings.span]
    weights = _weights(spans, np.unique(step[marked & (step >= 0)]))
    weight = np.ones(len(timeline.instances))
    known = np.flatnonzero(communicates & (instance >= 0))
    weight[instance[known]] = [weights.get(number, 1.0) for number in step[known].tolist()]
    step_of = np.full(len(timeline.instances), -1, np.int64)
    step_of[instance[known]] = step[known]
    _end_together(doings, np.flatnonzero(marked & communicates & (instance >= 0)), instance, spans, timeline)
    every = _Every(
        doings, _Attributes.of(spans), blocks & ~copies, marked, communicates, begins, call, instance, start, end,
        step, len(kinds),
    )  # fmt: skip
    of_rank, lanes = {}, []
    windows, steps_of = all_windows(doings, spans)
    for number in windows:
        steps = np.array([np.mean([weights.get(one, 1.0) for one in some]) for some in steps_of[number]])
        of_rank[number] = every.of_rank(number, windows[number], steps)
        lanes += _streams(spans, number, doings, (doings.rank == number) & doings.on_device)
    return Devices(of_rank, kinds, weight, step_of, weights, blocks, lanes, bool(marked.any()))


@dataclass(frozen=True, slots=True)
class _Every:
    """What the devices and hosts of all ranks did, ``[doings]`` each but for some."""

    doings: Doings
    told: _Attributes
    blocks: BoolArray
    """Whether a host blocks in it until its device has nothing left to do ``[kinds of work]``."""
    marked: BoolArray
    """Whether it lies between marks."""
    communicates: BoolArray
    begins: BoolArray
    """Whether C++ waits for it, and marks no end."""
    call: IntArray
    """-1 for none."""
    instance: IntArray
    """-1 for none."""
    start_s: FloatArray
    """As it was marked."""
    end_s: FloatArray
    step: IntArray
    kinds: int
    """How many kinds of work there are."""

    def of_rank(self, rank: int, windows: FloatArray, steps: FloatArray) -> Device:
        """What a rank's device and host did; ``steps`` are how many steps each window stands for."""
        doings, told, marked, communicates = self.doings, self.told, self.marked, self.communicates
        start, end = self.start_s, self.end_s
        mine = doings.rank == rank
        device = mine & doings.on_device
        own = np.flatnonzero(mine & ~doings.on_device)
        main = int(doings.thread[own].min(initial=1 << 40))
        beside, own = own[doings.thread[own] != main], own[doings.thread[own] == main]
        talk = np.flatnonzero(device & communicates)
        talk = talk[np.argsort(doings.start_s[talk], kind="stable")]
        helpers, busy_host = doings.of(beside), doings.of(own)
        rows, modules = np.flatnonzero(device & (marked | ~communicates)), np.flatnonzero(device & ~communicates)
        if (device & marked).any():
            waits = own[self.blocks[doings.what[own]]]  # a copy goes on when the device has nothing left to do
            talk = talk[marked[talk]]
            marks = np.flatnonzero(device & marked)
            between = _between(told, doings.span[marks], start[marks], end[marks], communicates[marks])
            awaited = doings.of(np.flatnonzero(device & self.begins))
            work = _marked_work(between, doings.what[marks], doings.of(waits), awaited)
            kernels = np.flatnonzero(device & ~marked & ~communicates)
            work = _with_kernels(work, doings, kernels, self.step[kernels])
            seconds = _medians(doings.what[modules], end[modules] - start[modules], self.kinds)
            shown = _joined(work, doings.of(talk))
            marks_s = np.unique(np.concatenate((between.start_host_s, between.end_host_s)))
        else:
            work, shown = doings.of(modules), doings.of(np.flatnonzero(device))
            seconds = np.bincount(work.what, work.end_s - work.start_s, self.kinds).astype(np.float64)
            marks_s = np.zeros(0)
        begun, ended = doings.start_s[talk], doings.end_s[talk]
        work = clipped(work, windows[:, 1], windows[:, 2])
        return Device(
            work,
            Communication(begun, ended, self.instance[talk], self.call[talk], np.maximum.accumulate(ended)),
            helpers,
            busy_host,
            shown,
            windows,
            steps,
            np.bincount(doings.what[modules], minlength=self.kinds),
            seconds,
            _elements(told.elements, doings, modules, self.kinds),
            _launched_s(work, told, doings.span[rows], start[rows], end[rows]),
            marks_s,
        )


def _end_together(doings: Doings, rows: IntArray, instance: IntArray, spans: Spans, timeline: Timeline) -> None:
    """Let the kernels of collectives begin and end when they did, rather than where the streams are marked."""
    took_s: FloatArray = spans.integers("kernel_ns")[doings.span[rows]].astype(np.float64) * 1e-9
    communicator = timeline.instances.communicator[instance[rows]].astype(np.int64)
    marks = Marks(doings.rank[rows], instance[rows], communicator, doings.start_s[rows], doings.end_s[rows], took_s)
    doings.start_s[rows], doings.end_s[rows] = end_together(marks)


def _between(
    told: _Attributes, rows: IntArray, start_s: FloatArray, end_s: FloatArray, communicates: BoolArray
) -> Marked:
    """Some spans as what is between two marks each; their times as they were marked."""
    host_s = np.concatenate((start_s - told.queued_s[rows], end_s - told.behind_s[rows]))
    marks_s = in_order(np.concatenate((start_s, end_s)), host_s, np.tile(told.stream[rows], 2))
    begins, ends = slice(None, len(rows)), slice(len(rows), None)
    return Marked(marks_s[begins], marks_s[ends], host_s[begins], host_s[ends], communicates)


def _weights(spans: Spans, marked: IntArray) -> dict[int, float]:
    """Steps that each marked step stands for, by its number."""
    steps = np.unique(spans.table.step[spans.rows("step")].astype(np.int64))
    return dict(zip(marked.tolist(), stood_for(marked, np.union1d(steps, marked)).tolist(), strict=True))


def _marked_work(between: Marked, what: IntArray, waits: Stretches, awaited: Stretches) -> Stretches:
    """What a device worked between marks; what lies outside of all modules is of the kind of the next thing there."""
    begin_s, end_s, inside = work_of(between, (waits.start_s, waits.end_s), (awaited.start_s, awaited.end_s))
    order = np.argsort(between.start_s, kind="stable")
    after = order[np.minimum(np.searchsorted(between.start_s[order], end_s), len(order) - 1)]
    return without_overlap(begin_s, end_s, what[np.where(inside >= 0, inside, after)])


def _with_kernels(work: Stretches, doings: Doings, rows: IntArray, step: IntArray) -> Stretches:
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


def _launched_s(
    work: Stretches, told: _Attributes, spans: IntArray, start_s: FloatArray, end_s: FloatArray
) -> FloatArray:
    """When hosts had launched stretches of work ``[stretches]``: each ends with a kernel, whose launch is known, or at
    a mark that the host recorded when it had launched what lies before. ``spans`` are these, with their times."""
    known, is_marked = told.queued_s[spans] > 0.0, told.marks[spans]
    queued_s = np.where(is_marked, told.behind_s[spans], end_s - start_s + told.queued_s[spans])
    begins = np.flatnonzero(is_marked)
    at_s = np.concatenate((end_s[known | is_marked], start_s[begins]))
    launched_s = np.concatenate(((end_s - queued_s)[known | is_marked], start_s[begins] - told.queued_s[spans[begins]]))
    order = np.argsort(at_s, kind="stable")
    at_s, launched_s = np.append(at_s[order], np.inf), np.append(launched_s[order], np.inf)
    row = np.searchsorted(at_s, work.end_s - SAME_TIME_S)
    found = np.where(at_s[row] - work.end_s <= SAME_TIME_S, launched_s[row], -np.inf)
    found = np.where(np.isfinite(found), found, -np.inf)
    found = np.maximum.accumulate(np.minimum(found, work.start_s))
    return np.where(np.isfinite(found), found, work.start_s)


def _elements(elements: FloatArray, doings: Doings, rows: IntArray, kinds: int) -> FloatArray:
    """Of the inputs of modules, by kind, on average ``[kinds]``; ``elements`` are those of every span."""
    told = elements[doings.span[rows]]
    rows, told = rows[told >= 0], told[told >= 0]
    number = np.bincount(doings.what[rows], minlength=kinds)
    sums = np.bincount(doings.what[rows], told, kinds)
    return np.divide(sums, number, out=np.full(kinds, np.nan), where=number > 0)


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


def _streams(spans: Spans, rank: int, doings: Doings, device: BoolArray) -> list[tuple[int, str, float, int]]:
    found = []
    lane = np.append(spans.table.lane.astype(np.int64), -1)[doings.span]
    for stream in np.unique(lane[device]).tolist():
        here = np.flatnonzero(device & (lane == stream))
        busy = doings.of(here)
        seconds = float((busy.end_s - busy.start_s).sum())
        found.append((rank, spans.names[int(spans.lanes.name[stream])], seconds, len(here)))
    return found
