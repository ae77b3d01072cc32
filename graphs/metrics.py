"""Per-vertex, per-rank numbers from a timeline. Every metric is exclusive: a vertex's own, without its children's."""

from __future__ import annotations

import mmap

import numba
import numpy as np

from scalana.graphs.timeline import FloatArray, IntArray, Timeline

_LARGE_BYTES = 1 << 22

METRICS = {
    "time_s": "wall seconds of the rank's main thread: its own work and its communication",
    "cpu_s": "of time_s, on a CPU",
    "core_wait_s": "of time_s outside communication, runnable but waiting for a core",
    "stall_s": "of time_s outside communication, neither on a CPU nor waiting for a core",
    "comm_s": "wall seconds in communication calls, of all threads that communicate",
    "wait_s": "of comm_s, waiting for other ranks; filled by the detectors",
    "calls": "communication calls, posts and completions counted apart",
    "bytes": "payload of the communication calls",
    "samples": "samples of threads that communicate, and of the main thread",
    "helper_s": "seconds in which other threads and child processes of the rank were active",
    "helper_cpu_s": "of helper_s, on a CPU",
}
"""Name of every metric and what it means."""


def timeline_metrics(timeline: Timeline, vertices: int) -> dict[str, FloatArray]:
    """All metrics as ``[vertices, ranks]``; those that need more than the timeline are zero."""
    metrics = {name: _zeros(vertices, timeline.ranks) for name in METRICS}
    calls, own, locations = timeline.calls, timeline.own, timeline.locations
    if len(locations) == 0:
        return metrics
    location = gap_locations(timeline)[own.gap]
    main = locations.is_main[location]
    vertex, rank = timeline.activities.vertex[own.activity][main], locations.rank[location][main]
    seconds, cpu, core_wait = own.seconds[main], own.cpu_s[main], own.core_wait_s[main]
    add_to(metrics["time_s"], vertex, rank, seconds)
    add_to(metrics["cpu_s"], vertex, rank, cpu)
    add_to(metrics["core_wait_s"], vertex, rank, core_wait)
    add_to(metrics["stall_s"], vertex, rank, np.maximum(seconds - cpu - core_wait, 0.0))

    rank, main = locations.rank[calls.location], locations.is_main[calls.location]
    inside = calls.exit_s - calls.enter_s
    add_to(metrics["comm_s"], calls.vertex, rank, inside)
    add_to(metrics["calls"], calls.vertex, rank, np.ones(len(calls)))
    add_to(metrics["bytes"], calls.vertex, rank, calls.nbytes.astype(np.float64))
    add_to(metrics["time_s"], calls.vertex[main], rank[main], inside[main])
    add_to(metrics["cpu_s"], calls.vertex[main], rank[main], calls.cpu_s[main])
    return metrics


def gap_locations(timeline: Timeline) -> IntArray:
    """Location of every gap ``[calls + locations]``."""
    return np.concatenate((timeline.calls.location, np.arange(len(timeline.locations), dtype=np.int64)))


def own_first(timeline: Timeline) -> IntArray:
    """Start of the rows of own work of every gap ``[gaps + 1]``."""
    gaps = len(timeline.calls) + len(timeline.locations)
    return np.concatenate(([0], np.cumsum(np.bincount(timeline.own.gap, minlength=gaps)))).astype(np.int64)


def add_to(metric: FloatArray, vertex: IntArray, rank: IntArray, amount: FloatArray) -> None:
    """Add ``amount`` to ``metric[vertex, rank]``, row by row."""
    _add(metric, vertex, rank, amount)


@numba.njit(cache=True, nogil=True)
def _add(metric, vertex, rank, amount):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(len(vertex)):
        if amount[row] != 0.0:  # what stays zero takes no memory
            metric[vertex[row], rank[row]] += amount[row]


def _zeros(vertices: int, ranks: int) -> FloatArray:
    """Zeros that take memory only where something is added, and then as little as can be: most stay zero."""
    size = vertices * ranks * 8
    if size < _LARGE_BYTES:
        return np.zeros((vertices, ranks))
    return np.frombuffer(mmap.mmap(-1, size), np.float64).reshape(vertices, ranks)
