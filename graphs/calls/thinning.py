"""Communication calls that were not written one by one, and what those that were tell of them.

Where a rank makes more calls than can be written, its record holds a sample of them, exact sums per call path, and
before every written call how long its thread was in others since the last one. What lies between two written calls thus
divides exactly into communication and own work. How much of that communication was waiting is estimated: a written call
stands for others at its place, as many times as there were calls for every one that was written at its level of
thinning, scaled to the exact seconds of the place (a ratio estimate, Cochran 1977, chapter 6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.calls.gaps import Gaps
from scalana.graphs.calls.located import Located
from scalana.graphs.metrics import gap_locations
from scalana.graphs.readers.gather import Gathered
from scalana.graphs.readers.parts import UnwrittenTime
from scalana.graphs.timeline import Calls, Instances, Timeline


@dataclass(slots=True)
class Stays:
    """How long threads were in unwritten calls up to each written one, sorted by thread."""

    thread: IntArray
    """``[stays]``"""
    until_ns: IntArray
    """When the written call was entered ``[stays]``."""
    wall_ns: IntArray
    """``[stays]``"""
    cpu_ns: IntArray
    """``[stays]``"""

    @classmethod
    def of(cls, unwritten: UnwrittenTime) -> Stays:
        """Those of a run."""
        rows = np.argsort(unwritten.thread, kind="stable")
        until = unwritten.end_ns[rows]
        return cls(unwritten.thread[rows], until, until - unwritten.start_ns[rows], unwritten.cpu_ns[rows])

    def __len__(self) -> int:
        return len(self.thread)


def put_into_gaps(gaps: Gaps, located: Located, stays: Stays) -> None:
    """Tell the gaps of a portion what they hold of unwritten calls, and take the CPU time of these from theirs."""
    threads = located.portion.threads
    low, high = np.searchsorted(stays.thread, (threads.start, threads.stop))
    location = located.threads.location[stays.thread[low:high] - threads.start]
    known = np.flatnonzero(location >= 0)
    if not len(known):
        return
    location, at = location[known], low + known
    # A gap ends where the written call begins.
    origin = min(int(gaps.end_ns.min()), int(stays.until_ns[at].min()))
    span = max(int(gaps.end_ns.max()), int(stays.until_ns[at].max())) - origin + 1
    ends = gaps.location * span + (gaps.end_ns - origin)
    gap = np.minimum(np.searchsorted(ends, location * span + (stays.until_ns[at] - origin)), len(ends) - 1)
    here = gaps.location[gap] == location
    gap, at = gap[here], at[here]
    unwritten, cpu = np.zeros(len(gaps.location), np.int64), np.zeros(len(gaps.location), np.int64)
    np.add.at(unwritten, gap, stays.wall_ns[at])
    np.add.at(cpu, gap, stays.cpu_ns[at])
    gaps.unwritten_ns = np.minimum(unwritten, gaps.end_ns - gaps.start_ns)
    gaps.cpu_ns = np.where(gaps.cpu_ns >= 0, np.maximum(gaps.cpu_ns - cpu, 0), gaps.cpu_ns)


def weights(
    located: list[Located], calls: Calls, instances: Instances, rank_of_location: IntArray, totals: Sums
) -> FloatArray:
    """How many seconds of calls at its place each second of a written call stands for ``[calls]``.

    A call that waits for an operation of which not all members were written tells nothing, and stands for none.
    """
    level = np.concatenate([np.zeros(0, np.int64), *(part.spans.level for part in located)]).astype(np.int64)
    of_instance = np.zeros(len(instances), np.int64)
    np.maximum.at(of_instance, np.repeat(np.arange(len(instances)), np.diff(instances.first)), level[instances.members])
    caller = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    np.maximum.at(level, caller, of_instance[calls.waits])
    tells = np.ones(len(calls), np.bool_)
    tells[caller[~instances.complete[calls.waits]]] = False

    place = totals.place(calls.vertex, rank_of_location[calls.location])
    seconds = calls.exit_s - calls.enter_s
    told = np.bincount(place, weights=np.where(tells, seconds, 0.0), minlength=len(totals.wall_s))
    more = np.where(tells, (2.0**level - 1.0) * seconds, 0.0)
    expected = np.bincount(place, weights=more, minlength=len(totals.wall_s))
    missing = np.maximum(totals.wall_s - told, 0.0)
    scale = np.divide(missing, expected, out=np.zeros_like(missing), where=expected > 0.0)
    result = 1.0 + (2.0**level - 1.0) * scale[place]
    result[~tells & (expected > 0.0)[place]] = 0.0
    return np.asarray(result)


@dataclass(slots=True)
class Sums:
    """Exact sums over all calls of a place: a vertex on a rank."""

    ranks: int
    wall_s: FloatArray
    """``[vertices * ranks]``"""
    cpu_s: FloatArray
    """``[vertices * ranks]``"""

    @classmethod
    def of(cls, data: Gathered, rows: IntArray, vertex: IntArray, vertices: int, ranks: int) -> Sums:
        """Of some rows of the totals, whose vertices are ``vertex``."""
        totals, size = data.totals, vertices * ranks
        place = vertex * ranks + data.rank[totals.process[rows]]
        wall, cpu = to_seconds(totals.wall_ns[rows]), to_seconds(totals.cpu_ns[rows])
        return cls(ranks, *(np.asarray(np.bincount(place, of, size), np.float64) for of in (wall, cpu)))

    def place(self, vertex: IntArray, rank: IntArray) -> IntArray:
        """Number of a place."""
        return vertex.astype(np.int64) * self.ranks + rank


def add_unwritten(metrics: dict[str, FloatArray], timeline: Timeline, sums: Sums) -> None:
    """Add the unwritten calls of main threads to ``time_s`` and ``cpu_s``, which then add up to the time recorded.

    Which places they were at follows from the exact sums, of all threads together.
    """
    unwritten, calls, locations = timeline.unwritten, timeline.calls, timeline.locations
    if unwritten is None:
        return
    location = gap_locations(timeline)
    main = locations.is_main[location]
    gap_s = np.bincount(locations.rank[location][main], unwritten.gap_s[main], timeline.ranks)
    place = sums.place(calls.vertex, locations.rank[calls.location])

    def more(exact: FloatArray, written: FloatArray) -> FloatArray:
        """What the exact sums have more than the written calls ``[vertices, ranks]``."""
        result = np.maximum(exact - np.bincount(place, written, len(exact)), 0.0)
        return np.asarray(result.reshape(-1, timeline.ranks))

    wall = more(sums.wall_s, calls.exit_s - calls.enter_s)
    all_s = wall.sum(axis=0)
    of_main = np.divide(gap_s, all_s, out=np.zeros_like(gap_s), where=all_s > 0.0)
    metrics["time_s"] += wall * of_main
    metrics["cpu_s"] += more(sums.cpu_s, calls.cpu_s) * of_main
