"""What threads that communicate did, by their samples: the host's side of devices, where no trace tells it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable, to_seconds
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.folder.records import Samples, Threads


def _none() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class HostActivity(ColumnTable):
    """Stretches of time of threads, one after the other, each with where the thread was."""

    rank: IntArray = field(default_factory=_none)
    """``[stretches]``"""
    thread: IntArray = field(default_factory=_none)
    """Row in the run's threads ``[stretches]``."""
    start_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """``[stretches]``"""
    end_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """``[stretches]``"""
    vertex: IntArray = field(default_factory=_none)
    """``[stretches]``"""


def host_activity(samples: Samples, threads: Threads, places: Places, period_ns: int) -> HostActivity:
    """The activity of all threads that communicate.

    A sample stands for the time up to half way to its neighbours; beyond the first and the last for half a period. What
    the first of a rank's threads waits for is what it does; another one that waits has nothing to do.
    """
    rows = np.flatnonzero(threads.location[samples.thread.astype(np.int64)] >= 0)
    if not len(rows):
        return HostActivity()
    thread, time = samples.thread[rows].astype(np.int64), samples.time_ns[rows].astype(np.int64)
    vertex = places.vertex[samples.path[rows].astype(np.int64)].astype(np.int64)
    same = np.append(False, thread[1:] == thread[:-1])
    middle = np.append(0, (time[1:] + time[:-1]) // 2)
    start = np.where(same, middle, time - period_ns // 2)
    end = np.append(np.where(same[1:], middle[1:], time[:-1] + period_ns // 2), time[-1] + period_ns // 2)
    rank = threads.rank[thread].astype(np.int64)
    main = np.full(rank.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(main, rank, thread)
    runs_ns = (samples.cpu_ns[rows] + samples.core_wait_ns[rows]).astype(np.int64)
    passed_ns = np.where(same, time - np.append(0, time[:-1]), period_ns)
    kept = np.flatnonzero((thread == main[rank]) | (2 * runs_ns >= passed_ns))
    thread, vertex, start, end = thread[kept], vertex[kept], start[kept], end[kept]
    joined = (thread[1:] == thread[:-1]) & (vertex[1:] == vertex[:-1]) & (start[1:] <= end[:-1])
    first = np.flatnonzero(~np.append(False, joined))
    last = np.append(first[1:], len(kept)) - 1
    return HostActivity(
        threads.rank[thread[first]].astype(np.int64), thread[first], to_seconds(start[first]), to_seconds(end[last]),
        vertex[first],
    )  # fmt: skip
