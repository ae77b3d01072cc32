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

from scalana.graphs.arrays.columns import ColumnTable, to_seconds
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.calls.located import Located
from scalana.graphs.metrics import burst_locations
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.folder.record_columns import UnwrittenTime
from scalana.graphs.timeline import Calls, Instances, Timeline


@dataclass(slots=True)
class ThinnedCalls(ColumnTable):
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
    def of(cls, unwritten: UnwrittenTime) -> ThinnedCalls:
        """Those of a run."""
        rows = np.argsort(unwritten.thread, kind="stable")
        until = unwritten.end_ns[rows]
        return cls(unwritten.thread[rows], until, until - unwritten.start_ns[rows], unwritten.cpu_ns[rows])


def put_into_bursts(bursts: Bursts, located: Located, thinned_calls: ThinnedCalls) -> None:
    """Tell the bursts of a portion what they hold of unwritten calls, and take the CPU time of these from theirs."""
    threads = located.shard.threads
    low, high = np.searchsorted(thinned_calls.thread, (threads.start, threads.stop))
    location = located.threads.location[thinned_calls.thread[low:high] - threads.start]
    known = np.flatnonzero(location >= 0)
    if not len(known):
        return
    location, at = location[known], low + known
    # A burst ends where the written call begins.
    origin = min(int(bursts.end_ns.min()), int(thinned_calls.until_ns[at].min()))
    span = max(int(bursts.end_ns.max()), int(thinned_calls.until_ns[at].max())) - origin + 1
    ends = bursts.location * span + (bursts.end_ns - origin)
    burst = np.minimum(np.searchsorted(ends, location * span + (thinned_calls.until_ns[at] - origin)), len(ends) - 1)
    here = bursts.location[burst] == location
    burst, at = burst[here], at[here]
    unwritten, cpu = np.zeros(len(bursts.location), np.int64), np.zeros(len(bursts.location), np.int64)
    np.add.at(unwritten, burst, thinned_calls.wall_ns[at])
    np.add.at(cpu, burst, thinned_calls.cpu_ns[at])
    bursts.unwritten_ns = np.minimum(unwritten, bursts.end_ns - bursts.start_ns)
    bursts.cpu_ns = np.where(bursts.cpu_ns >= 0, np.maximum(bursts.cpu_ns - cpu, 0), bursts.cpu_ns)


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
    location = burst_locations(timeline)
    main = locations.is_main[location]
    burst_s = np.bincount(locations.rank[location][main], unwritten.burst_s[main], timeline.ranks)
    place = sums.place(calls.vertex, locations.rank[calls.location])

    def more(exact: FloatArray, written: FloatArray) -> FloatArray:
        """What the exact sums have more than the written calls ``[vertices, ranks]``."""
        result = np.maximum(exact - np.bincount(place, written, len(exact)), 0.0)
        return np.asarray(result.reshape(-1, timeline.ranks))

    wall = more(sums.wall_s, calls.exit_s - calls.enter_s)
    all_s = wall.sum(axis=0)
    of_main = np.divide(burst_s, all_s, out=np.zeros_like(burst_s), where=all_s > 0.0)
    metrics["time_s"] += wall * of_main
    metrics["cpu_s"] += more(sums.cpu_s, calls.cpu_s) * of_main
