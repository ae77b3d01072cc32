"""Per-vertex, per-rank numbers from a timeline. Every metric is exclusive: a vertex's own, without its children's."""

from __future__ import annotations

import mmap
from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.shards import chunks, each
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import ROW, Timeline
from scalana.runtime.operations import BY_NAME

_LARGE_BYTES = 1 << 22
_RANKS_AT_ONCE = 256
_TAKE = BY_NAME["take"].code

METRICS = {
    "time_s": "wall seconds of the rank's main thread: its own work and its communication",
    "cpu_s": "of time_s, on a CPU",
    "core_wait_s": "of time_s outside communication, runnable but waiting for a core",
    "stall_s": "of time_s outside communication, neither on a CPU nor waiting for a core",
    "comm_s": "wall seconds in communication calls, of all threads that communicate",
    "wait_s": "of comm_s, waiting for other ranks; filled by the detectors",
    "call_core_wait_s": "of comm_s, in which the thread that calls, or one that moves its data, waits for a core",
    "calls": "communication calls, posts and completions counted apart",
    "bytes": "payload of the communication calls",
    "samples": "samples of threads that communicate, and of the main thread",
    "helper_s": "seconds in which other threads and child processes of the rank were active",
    "helper_cpu_s": "of helper_s, on a CPU",
    "span_s": "wall seconds of the spans that began here; of those within each other, all",
    "spans": "spans that began here",
}
"""Name of every metric and what it means."""


def timeline_metrics(timeline: Timeline, vertices: int) -> dict[str, FloatArray]:
    """All metrics as ``[vertices, ranks]``; those that need more than the timeline are zero."""
    metrics = no_metrics(vertices, timeline.ranks)
    add_timeline(metrics, timeline)
    return metrics


def no_metrics(vertices: int, ranks: int) -> dict[str, FloatArray]:
    """All metrics as ``[vertices, ranks]``, and all zero."""
    return {name: _zeros(vertices, ranks) for name in METRICS}


def add_timeline(metrics: dict[str, FloatArray], timeline: Timeline) -> None:
    """Add what a timeline tells."""
    each(lambda ranks: _add_ranks(metrics, timeline, ranks), chunks(timeline.ranks, _RANKS_AT_ONCE))


def _add_ranks(metrics: dict[str, FloatArray], timeline: Timeline, ranks: slice) -> None:
    """Add what a timeline tells of some ranks that follow each other."""
    calls, own, locations = timeline.calls, timeline.own, timeline.locations
    at = np.searchsorted(locations.rank, [ranks.start, ranks.stop])
    begin, end = calls.first[at].tolist()
    # Of own work, first what lies before a call, then what lies after the last one of a location.
    edges = np.searchsorted(own.burst, [begin, end, *(len(calls) + at)]).tolist()
    for rows in (slice(*edges[:2]), slice(*edges[2:])):
        work = _Work(own.burst[rows], own.activity[rows], own.seconds[rows], own.cpu_s[rows], own.core_wait_s[rows])
        times = _Times(metrics["time_s"], metrics["cpu_s"], metrics["core_wait_s"], metrics["stall_s"])
        _add_own(work, timeline.activities.vertex, calls.location, locations.rank, locations.is_main, times)
    made = slice(begin, end)
    leave_s, idle = calls.exit_s[made], idle_takes(timeline, made)
    if idle.any():
        leave_s = np.where(idle, calls.enter_s[made], leave_s)
    some = _Made(
        calls.location[made], calls.vertex[made], calls.enter_s[made], leave_s, calls.cpu_s[made], calls.nbytes[made]
    )
    sums = _CallSums(metrics["time_s"], metrics["cpu_s"], metrics["comm_s"], metrics["calls"], metrics["bytes"])
    _add_calls(some, locations.rank, locations.is_main, sums)


def idle_takes(timeline: Timeline, made: slice) -> BoolArray:
    """Calls in which a thread beside the main one has nothing to do until it is called: none in which its process
    waits, or communicates ``[some calls]``."""
    calls, is_main = timeline.calls, timeline.locations.is_main
    idle = calls.operation[made] == _TAKE
    return idle & ~is_main[calls.location[made]] if idle.any() else idle


def burst_locations(timeline: Timeline) -> IntArray:
    """Location of every burst ``[calls + locations]``."""
    location = timeline.calls.location
    return np.concatenate((location, np.arange(len(timeline.locations), dtype=location.dtype)))


def own_by_rank(timeline: Timeline, amount: FloatArray) -> FloatArray:
    """Sum of an ``amount`` for every row of own work ``[rows]``, by rank ``[ranks]``."""
    rank = timeline.locations.rank[burst_locations(timeline)]
    return weighted_count(rank[timeline.own.burst], amount, timeline.ranks)


def own_by_activity(timeline: Timeline, amount: FloatArray) -> FloatArray:
    """The same by kind of work ``[activities]``."""
    return weighted_count(timeline.own.activity, amount, len(timeline.activities))


def own_first(timeline: Timeline) -> IntArray:
    """Start of the rows of own work of every burst ``[bursts + 1]``."""
    burst, bursts = timeline.own.burst, len(timeline.calls) + len(timeline.locations)
    return np.asarray(_starts(burst, np.zeros(bursts + 1, ROW)))


def add_calls(metric: FloatArray, timeline: Timeline, amount: FloatArray) -> None:
    """Add an ``amount`` for every call to ``metric`` at its vertex and rank."""
    calls = timeline.calls
    _add_calls_to(metric, calls.vertex, calls.location, timeline.locations.rank, amount)


def add_to(metric: FloatArray, vertex: IntArray, rank: IntArray, amount: FloatArray) -> None:
    """Add ``amount`` to ``metric[vertex, rank]``, row by row."""
    _add(metric, vertex, rank, amount)


@compiled
def _add(metric, vertex, rank, amount):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(len(vertex)):
        if amount[row] != 0.0:  # what stays zero takes no memory
            metric[vertex[row], rank[row]] += amount[row]


@compiled
def _starts(number, first):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Where the rows of every number from 0 on begin, of rows in the order of their numbers."""
    for row in range(len(number)):
        first[number[row] + 1] += 1
    for value in range(1, len(first)):
        first[value] += first[value - 1]
    return first


@compiled
def _add_calls_to(metric, vertex, location, rank_of, amount):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(len(vertex)):
        if amount[row] != 0.0:
            metric[vertex[row], rank_of[location[row]]] += amount[row]


class _Work(NamedTuple):
    """Some rows of own work, each ``[rows]``."""

    burst: IntArray
    activity: IntArray
    seconds: FloatArray
    cpu_s: FloatArray
    core_wait_s: FloatArray


class _Times(NamedTuple):
    """Metrics that own work adds to, each ``[vertices, ranks]``."""

    time: FloatArray
    cpu: FloatArray
    core_wait: FloatArray
    stall: FloatArray


class _Made(NamedTuple):
    """Some calls, each ``[calls]``."""

    location: IntArray
    vertex: IntArray
    enter_s: FloatArray
    exit_s: FloatArray
    cpu_s: FloatArray
    nbytes: IntArray


class _CallSums(NamedTuple):
    """Metrics that calls add to, each ``[vertices, ranks]``."""

    time: FloatArray
    cpu: FloatArray
    comm: FloatArray
    calls: FloatArray
    amount: FloatArray


# What stays zero takes no memory: nothing is written where there is nothing to add.


@compiled
def _add_own(work, vertex_of, location_of, rank_of, is_main, times):  # type: ignore[no-untyped-def]  # pragma: no cover
    burst, activity, seconds, cpu_s, core_wait_s = work
    time, cpu, core_wait, stall = times
    calls = len(location_of)
    for row in range(len(burst)):
        location = location_of[burst[row]] if burst[row] < calls else burst[row] - calls
        if is_main[location]:
            vertex, rank = vertex_of[activity[row]], rank_of[location]
            still = seconds[row] - cpu_s[row] - core_wait_s[row]
            if seconds[row] != 0.0:
                time[vertex, rank] += seconds[row]
            if cpu_s[row] != 0.0:
                cpu[vertex, rank] += cpu_s[row]
            if core_wait_s[row] != 0.0:
                core_wait[vertex, rank] += core_wait_s[row]
            if still > 0.0:
                stall[vertex, rank] += still


@compiled
def _add_calls(made, rank_of, is_main, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    location_of, vertex_of, enter_s, exit_s, cpu_s, nbytes = made
    time, cpu, comm, calls, amount = sums
    for call in range(len(location_of)):
        vertex, rank = vertex_of[call], rank_of[location_of[call]]
        inside = exit_s[call] - enter_s[call]
        calls[vertex, rank] += 1.0
        if nbytes[call] != 0:
            amount[vertex, rank] += nbytes[call]
        if inside != 0.0:
            comm[vertex, rank] += inside
        if is_main[location_of[call]]:
            if inside != 0.0:
                time[vertex, rank] += inside
            if cpu_s[call] != 0.0:
                cpu[vertex, rank] += cpu_s[call]


def _zeros(vertices: int, ranks: int) -> FloatArray:
    """Zeros that take memory only where something is added, and then as little as can be: most stay zero."""
    size = vertices * ranks * 8
    if size < _LARGE_BYTES:
        return np.zeros((vertices, ranks))
    return np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.float64).reshape(
        vertices, ranks
    )
