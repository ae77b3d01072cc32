"""The Program Performance Graph: the structure of a program, once, and what every rank did in it.

:func:`build_ppg` goes from a run folder to a :class:`PPG` in steps that each have their module: choose the ranks'
records (:mod:`~scalana.graphs.load`), bring them onto one set of columns and one time axis
(:mod:`~scalana.graphs.gather`, :mod:`~scalana.graphs.clocks`), find the vertices of call paths
(:mod:`~scalana.graphs.callpaths`), make calls of events (:mod:`~scalana.graphs.calls`), match them
(:mod:`~scalana.graphs.matching`, :mod:`~scalana.graphs.signals`), divide the time between them
(:mod:`~scalana.graphs.own_work`), and add up (:mod:`~scalana.graphs.metrics`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scalana.graphs.callpaths import Placer
from scalana.graphs.calls import Spans, build_spans, select
from scalana.graphs.gather import WAIT, Gathered, gather
from scalana.graphs.held_calls import shorten_held
from scalana.graphs.load import RankRecords, choose_records
from scalana.graphs.matching import Matching, match
from scalana.graphs.metrics import add_to, timeline_metrics
from scalana.graphs.native_frames import Symbols, no_symbols, resolve_native
from scalana.graphs.own_work import Places, active_s, own_work
from scalana.graphs.placing import FrontEnd, call_vertices, no_front_end, place_paths
from scalana.graphs.psg import PSG, VertexKind
from scalana.graphs.run_info import OpenCall, RunInfo, describe_run, rate_hz
from scalana.graphs.signals import add_signals
from scalana.graphs.tables import Events, take, to_seconds
from scalana.graphs.timeline import Calls, FloatArray, IntArray, Locations, Timeline
from scalana.graphs.work_rows import Gaps

if TYPE_CHECKING:
    import networkx
    import pandas

    from scalana.runtime.record_format import RunFolder

_NS = 1e-9
_INTERVAL_TYPES = ("", "region", "step", "phase", "module", "device", "pipeline action")
_STEP = 2


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of time that the user named, or a step, phase, module or pipeline action."""

    type: str
    name: str
    rank: int
    start_s: float
    end_s: float
    cpu_s: float
    vertex: int


@dataclass(slots=True)
class PPG:
    """Structure, timeline and per-vertex numbers of one run."""

    psg: PSG
    timeline: Timeline
    metrics: dict[str, FloatArray]
    """Each ``[vertices, ranks]``, see :data:`~scalana.graphs.metrics.METRICS`. Exclusive: a vertex's own. The
    ``time_s`` of a rank add up to the time that was recorded of it."""
    run: RunInfo
    regions: list[Region] = field(default_factory=list)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The structure for networkx, with every metric as a node attribute: a list with one number per rank."""
        graph = self.psg.to_networkx()
        for name, values in self.metrics.items():
            for vertex, row in enumerate(values.tolist()):
                graph.nodes[vertex][name] = row
        return graph

    def frame(self) -> pandas.DataFrame:
        """One row per (vertex, rank) at which anything was measured, with the vertex' place and all metrics."""
        import pandas

        seen = np.zeros((len(self.psg.vertices), self.timeline.ranks), np.bool_)
        for values in self.metrics.values():
            seen |= values != 0
        vertex, rank = np.nonzero(seen)
        places = [self.psg.vertices[v] for v in vertex.tolist()]
        columns: dict[str, Any] = {
            "vertex": vertex,
            "rank": rank,
            "kind": [v.kind.value for v in places],
            "function": [self.psg.function_of(v.index) for v in places],
            "name": [v.place.name for v in places],
            "file": [v.place.file for v in places],
            "line": [v.place.line for v in places],
            "end_line": [v.place.end_line for v in places],
        }
        columns.update({name: values[vertex, rank] for name, values in self.metrics.items()})
        return pandas.DataFrame(columns)

    def inclusive(self, metric: str) -> FloatArray:
        """A metric ``[vertices, ranks]`` with every vertex' descendants added to it."""
        values = self.metrics[metric].copy()
        # Vertices are appended below existing ones, so that a parent's index is smaller than its children's.
        for vertex in reversed(self.psg.vertices):
            if vertex.parent >= 0:
                values[vertex.parent] += values[vertex.index]
        return values


Reader = Callable[["RunFolder", Symbols, Callable[[str], None]], tuple[RankRecords, Gathered]]
"""Reads a run folder: which records stand for which rank, and what they hold. Native frames are found by the symbols;
the last argument is told what is being done."""


def read_here(folder: RunFolder, symbols: Symbols, done: Callable[[str], None]) -> tuple[RankRecords, Gathered]:
    """Read all records in this process.

    Raises:
        RecordError: not one can be read.
    """
    done("reading records")
    chosen = choose_records(resolve_native(folder.processes(), symbols))
    done("gathering")
    return chosen, gather(chosen)


def build_ppg(
    folder: RunFolder,
    *,
    reader: Reader = read_here,
    front_end: FrontEnd = no_front_end,
    symbols: Symbols = no_symbols,
    progress: Callable[[str, int, int], None] | None = None,
) -> PPG:
    """Read a run folder and put everything together.

    ``reader`` reads the records, here or elsewhere. ``front_end`` reads the structure of the program from its source;
    without one there are functions and calls, but no loops. ``symbols`` finds the functions and lines of native code.
    ``progress`` is called with what is being done, how many steps are done, and how many there are.

    Raises:
        RecordError: the folder holds no record that can be read.
    """
    done = _Progress(progress)
    chosen, data = reader(folder, symbols, done)
    done("placing call paths")
    psg, places, placer = place_paths(data, front_end)
    done("matching communication")
    spans, locations = _locate(build_spans(data.events), data)
    vertex = call_vertices(placer, places, spans.path, _meant(spans, data))
    rank = data.threads.rank[data.events.thread]
    call_of_event = np.full(len(data.events), -1, np.int64)
    posts = np.flatnonzero(spans.post >= 0)
    call_of_event[spans.post[posts]] = posts
    sizes = np.array([len(communicator.ranks) for communicator in data.communicators], np.int64)
    matching = match(data.events, rank, call_of_event, sizes)
    calls = _calls(spans, data, vertex, matching.of_event)
    matching.instances = add_signals(
        calls, matching.instances, data.events, call_of_event, locations.rank, data.communicators
    )
    period_ns = round(1e9 / rate_hz(folder, data))
    shorten_held(spans, calls, matching.instances, data.samples, data.threads, places, period_ns)
    stuck = np.union1d(data.open_events, _given_up(data, matching))
    open_calls = _open_calls(data, stuck, places, placer)
    total_vertex = _total_vertices(data, places, placer, spans, vertex)
    outer = take(data.events, spans.outer)
    data.events = take(data.events, slice(0))  # from here on the calls tell it all
    done("dividing own work")
    gaps = _gaps(spans, data, locations, calls, places, psg)
    del spans, vertex, rank, call_of_event, posts
    own, activities = own_work(gaps, data.samples, data.threads, places, period_ns)
    del gaps
    ranks = max(chosen.world_size, int(data.rank.max(initial=-1)) + 1)
    timeline = Timeline(ranks, locations, calls, matching.instances, own, activities, period_ns * _NS, _steps(data))
    done("adding up")
    metrics = timeline_metrics(timeline, len(psg.vertices))
    _add_samples(metrics, data, places, period_ns)
    if data.thinned[data.is_own].any():
        _add_totals(metrics, data, outer, total_vertex)
    run = describe_run(folder, chosen, data, open_calls, timeline, ranks)
    if matching.mixed:
        run.warnings.append(f"ranks called different operations at the same place {matching.mixed} times")
    return PPG(psg, timeline, metrics, run, _regions(data, places))


def _meant(spans: Spans, data: Gathered) -> IntArray:
    """The operation that every call is there for: of a wait, what it waits for, if that is one thing."""
    operation = spans.operation.copy()
    single = np.flatnonzero((operation == WAIT) & (np.diff(spans.wait_first) == 1))
    operation[single] = data.events.operation[spans.waits[spans.wait_first[single]]]
    return operation


class _Progress:
    """Counts the steps of an analysis for whoever wants to know."""

    steps = 6

    def __init__(self, report: Callable[[str, int, int], None] | None) -> None:
        self._report = report
        self._done = 0

    def __call__(self, what: str) -> None:
        if self._report is not None:
            self._report(what, self._done, self.steps)
        self._done += 1


def _locate(spans: Spans, data: Gathered) -> tuple[Spans, Locations]:
    """Number the locations (in ``data.threads`` too), and sort the calls by (location, enter)."""
    threads = data.threads
    speaks = np.bincount(spans.thread, minlength=len(threads)) > 0
    rows = np.flatnonzero(speaks | threads.is_main)
    rows = rows[np.lexsort((rows, ~threads.is_main[rows], threads.rank[rows]))]
    threads.location[rows] = np.arange(len(rows))
    location = threads.location[spans.thread]
    if (location[1:] < location[:-1]).any():
        spans = select(spans, np.argsort(location, kind="stable"))
    process = threads.process[rows]
    start, end = data.start_ns[process].copy(), data.end_ns[process].copy()
    # The time of other threads than the main one is known from their first sign of life to their last.
    first, last = _lifetimes(spans, data)
    other = ~threads.is_main[rows]
    start[other], end[other] = first[rows][other], last[rows][other]
    start = np.minimum(start, np.where(speaks[rows], first[rows], start))
    end = np.maximum(end, np.where(speaks[rows], last[rows], end))
    return spans, Locations(threads.rank[rows], threads.is_main[rows], to_seconds(start), to_seconds(end))


def _lifetimes(spans: Spans, data: Gathered) -> tuple[IntArray, IntArray]:
    """When every thread was first and last seen, sampled or communicating ``[threads]``."""
    first = np.full(len(data.threads), np.iinfo(np.int64).max, np.int64)
    last = np.full(len(data.threads), np.iinfo(np.int64).min, np.int64)
    for thread, begin, end in (
        (data.samples.thread, data.samples.time_ns, data.samples.time_ns),
        (spans.thread, spans.enter_ns, spans.exit_ns),
    ):
        np.minimum.at(first, thread, begin)
        np.maximum.at(last, thread, end)
    return first, last


def _calls(spans: Spans, data: Gathered, vertex: IntArray, instance_of_event: IntArray) -> Calls:
    location = data.threads.location[spans.thread]
    locations = int((data.threads.location >= 0).sum())
    posts = np.where(spans.post >= 0, instance_of_event[spans.post], -1)
    waits = instance_of_event[spans.waits]
    # A wait for what meets nobody (its post was not recorded, its sender is unknown) waits for no instance.
    owner = np.repeat(np.arange(len(spans)), np.diff(spans.wait_first))[waits >= 0]
    known = (spans.cpu_enter_ns >= 0) & (spans.cpu_exit_ns >= 0)
    inside = np.where(known, np.maximum(spans.cpu_exit_ns - spans.cpu_enter_ns, 0), 0)
    return Calls(
        location=location,
        vertex=vertex,
        operation=spans.operation,
        enter_s=to_seconds(spans.enter_ns),
        exit_s=to_seconds(spans.exit_ns),
        cpu_s=to_seconds(np.minimum(inside, spans.exit_ns - spans.enter_ns)),
        nbytes=spans.nbytes,
        posts=posts,
        first=np.searchsorted(location, np.arange(locations + 1)).astype(np.int64),
        wait_first=np.searchsorted(owner, np.arange(len(spans) + 1)).astype(np.int64),
        waits=waits[waits >= 0],
    )


def _gaps(spans: Spans, data: Gathered, locations: Locations, calls: Calls, places: Places, psg: PSG) -> Gaps:
    """The stretches between calls. Gap ``i`` of a location comes before its call ``i``."""
    n, count = len(spans), len(locations)
    start_ns = np.rint(locations.start_s / _NS).astype(np.int64)
    end_ns = np.rint(locations.end_s / _NS).astype(np.int64)
    before_call = np.arange(n) + calls.location  # gaps in order: one more for every location before
    tail = calls.first[1:] + np.arange(count)
    head = calls.first[:-1] + np.arange(count)
    size = n + count

    def column(fill: int = -1) -> IntArray:
        return np.full(size, fill, np.int64)

    location, start, end, cpu_from, cpu_to = column(), column(), column(), column(), column()
    before, after, number, path = column(), column(), column(), column()
    location[before_call], location[tail] = calls.location, np.arange(count)
    number[before_call], number[tail] = np.arange(n), n + np.arange(count)
    start[before_call + 1], end[before_call] = spans.exit_ns, spans.enter_ns
    start[head], end[tail] = start_ns, end_ns
    cpu_from[before_call + 1], cpu_to[before_call] = spans.cpu_exit_ns, spans.cpu_enter_ns
    before[before_call + 1], after[before_call] = calls.vertex, calls.vertex
    # Where nothing else is known, a gap goes to the code around the next call, or else the last.
    path[before_call + 1] = spans.path
    path[before_call] = spans.path
    enclosing = _outside_communication(psg)
    known = path >= 0
    cpu = np.where((cpu_from >= 0) & (cpu_to >= 0), np.maximum(cpu_to - cpu_from, 0), -1)
    return Gaps(
        location=location,
        start_ns=start,
        end_ns=np.maximum(end, start),
        cpu_ns=cpu,
        before=before,
        after=after,
        number=number,
        default_vertex=np.where(known, enclosing[places.vertex[path]], 0),
        default_line=np.where(known, places.line[path], 0),
    )


def _outside_communication(psg: PSG) -> IntArray:
    """The innermost vertex at or above each one that is not inside a communication call ``[vertices]``."""
    result = np.arange(len(psg.vertices), dtype=np.int64)
    for vertex in psg.vertices:
        parent = vertex.parent
        if parent >= 0 and (vertex.kind is VertexKind.COMM or result[parent] != parent):
            result[vertex.index] = result[parent]
    return result


def _add_samples(metrics: dict[str, FloatArray], data: Gathered, places: Places, period_ns: int) -> None:
    """Count samples of locations, and the active seconds of all other threads of the ranks."""
    samples, threads = data.samples, data.threads
    if len(samples) == 0:
        return
    vertex, rank = places.vertex[samples.path], threads.rank[samples.thread]
    located = threads.location[samples.thread] >= 0
    add_to(metrics["samples"], vertex[located], rank[located], np.ones(int(located.sum())))
    active = active_s(samples, threads, places, period_ns)
    add_to(metrics["helper_s"], vertex[~located], rank[~located], active[~located])


def _total_vertices(data: Gathered, places: Places, placer: Placer, spans: Spans, vertex: IntArray) -> IntArray:
    """Vertices of the sums per call path: those of the kept calls with the same path and operation, if any."""
    totals = data.totals
    width = int(max(totals.operation.max(initial=0), spans.operation.max(initial=0))) + 1
    known, first = np.unique(spans.path * width + spans.operation, return_index=True)
    key = totals.path * width + totals.operation
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    kept = known[at] == key if len(known) else np.zeros(len(key), np.bool_)
    result = np.zeros(len(key), np.int64)
    result[kept] = vertex[first[at[kept]]]
    result[~kept] = call_vertices(placer, places, totals.path[~kept], totals.operation[~kept])
    return result


def _add_totals(metrics: dict[str, FloatArray], data: Gathered, outer: Events, vertex: IntArray) -> None:
    """Replace calls, bytes and seconds of ranks whose events were thinned out by the exact sums."""
    thinned = data.is_own & data.thinned
    totals = data.totals
    # What stands for calls inside it must not be counted beside them.
    width = int(max(totals.operation.max(initial=0), outer.operation.max(initial=0))) + 1
    stands_for = np.unique(outer.path * width + outer.operation)
    rows = np.flatnonzero(thinned[totals.process] & ~np.isin(totals.path * width + totals.operation, stands_for))
    for name, amount in (
        ("calls", totals.calls[rows].astype(np.float64)),
        ("bytes", totals.nbytes[rows].astype(np.float64)),
        ("comm_s", to_seconds(totals.wall_ns[rows])),
    ):
        metrics[name][:, data.rank[thinned]] = 0.0
        add_to(metrics[name], vertex[rows], data.rank[totals.process[rows]], amount)


def _steps(data: Gathered) -> FloatArray:
    """Rows of (location, start_s, end_s) of the training steps that were marked."""
    intervals, threads = data.intervals, data.threads
    rows = np.flatnonzero((intervals.type == _STEP) & threads.is_own[intervals.thread])
    main = np.full(int(threads.rank.max(initial=0)) + 1, -1, np.int64)
    main[threads.rank[threads.is_main]] = threads.location[threads.is_main]
    location = threads.location[intervals.thread[rows]]
    location = np.where(location >= 0, location, main[intervals.rank[rows]])
    order = np.lexsort((intervals.start_ns[rows], location))
    return np.stack(
        (location.astype(np.float64), to_seconds(intervals.start_ns[rows]), to_seconds(intervals.end_ns[rows])), axis=1
    )[order]


def _regions(data: Gathered, places: Places) -> list[Region]:
    intervals = data.intervals
    return [
        Region(_INTERVAL_TYPES[kind] if kind < len(_INTERVAL_TYPES) else "", name, rank, start, end, cpu, vertex)
        for kind, name, rank, start, end, cpu, vertex in zip(
            intervals.type.tolist(),
            intervals.name,
            intervals.rank.tolist(),
            to_seconds(intervals.start_ns).tolist(),
            to_seconds(intervals.end_ns).tolist(),
            to_seconds(intervals.cpu_ns).tolist(),
            places.vertex[intervals.path].tolist(),
            strict=True,
        )
    ]


def _given_up(data: Gathered, matching: Matching) -> IntArray:
    """Last events of threads that somebody never came to: calls that raised, or were interrupted, instead of ending."""
    events = data.events
    if not len(events):
        return np.zeros(0, np.int64)
    latest = np.full(int(events.thread.max()) + 1, np.iinfo(np.int64).min, np.int64)
    np.maximum.at(latest, events.thread, events.exit_ns)
    rows = np.flatnonzero(events.exit_ns == latest[events.thread])
    last = np.full(len(latest), -1, np.int64)
    last[events.thread[rows]] = rows
    last = last[last >= 0]
    meant = np.where(events.completes[last] >= 0, events.completes[last], last)
    instance = matching.of_event[meant]
    lacking = (instance >= 0) & ~matching.instances.complete[np.maximum(instance, 0)]
    return np.asarray(last[lacking])


def _open_calls(data: Gathered, rows: IntArray, places: Places, placer: Placer) -> list[OpenCall]:
    """Calls that never returned, or not by what they waited for, by the operation that they wait for."""
    events, threads = data.events, data.threads
    meant = np.where(events.completes[rows] >= 0, events.completes[rows], rows)
    vertices = call_vertices(placer, places, events.path[rows], events.operation[meant])
    result = []
    for row, what, vertex in zip(rows.tolist(), meant.tolist(), vertices.tolist(), strict=True):
        result.append(
            OpenCall(
                rank=int(threads.rank[events.thread[row]]),
                operation=int(events.operation[what]),
                vertex=vertex,
                since_s=float(events.enter_ns[row]) * _NS,
                communicator=int(events.communicator[what]),
                seq=int(events.seq[what]),
                seconds=float(events.exit_ns[row] - events.enter_ns[row]) * _NS,
                peer=int(events.peer[what]),
            )
        )
    return sorted(result, key=lambda call: (call.rank, call.since_s))
