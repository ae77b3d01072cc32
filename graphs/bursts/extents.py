"""From when to when each kind of work of a long burst was seen in it.

What is done between two calls is known by kind, not in which order. Of bursts that are long (a start-up without
communication, a run of one rank) this tells what of their work belongs to a part of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.bursts.helper_waits import HelperWaits
from scalana.graphs.bursts.own_work import Catalogue
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.timeline import Activities, OwnWork

LONG_PERIODS = 20
"""Sampling periods from which a burst is long."""


@dataclass(slots=True)
class Extents:
    """One row for each kind of work in each long burst."""

    burst: IntArray
    """Number of the burst among those of the run, before calls from 0 on ``[rows]``."""
    place: IntArray
    """Row in the :class:`~scalana.graphs.bursts.own_work.Catalogue` ``[rows]``."""
    since_ns: IntArray
    """``[rows]``"""
    until_ns: IntArray
    """``[rows]``"""
    helper: BoolArray
    """Whether it is work of helpers that a location waited for ``[rows]``."""

    @classmethod
    def joined(cls, parts: Sequence[Extents]) -> Extents:
        """Several, one after the other."""

        def column(name: str) -> IntArray:
            return np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])

        helper = np.concatenate([np.zeros(0, np.bool_), *(part.helper for part in parts)])
        return cls(column("burst"), column("place"), column("since_ns"), column("until_ns"), helper)


def extents_of(
    bursts: Bursts, number: IntArray, samples: Samples, threads: Threads, place_of_path: IntArray, period_ns: int
) -> Extents:
    """When samples of locations saw each place in the long ones of some bursts.

    ``number`` are the bursts' numbers in the run ``[bursts]``.

    A sample stands for the time until half a period before the next of its thread, from half a period before itself.
    """
    long = np.flatnonzero(bursts.end_ns - bursts.start_ns >= LONG_PERIODS * period_ns)
    row = np.flatnonzero(threads.location[samples.thread] >= 0)
    if not len(long) or not len(row):
        return Extents.joined([])
    location, time = threads.location[samples.thread[row]], samples.time_ns[row]
    begin = int(min(bursts.start_ns[long].min(), time.min()))
    width = int(max(bursts.end_ns[long].max(), time.max())) - begin + 1
    place = np.searchsorted(
        bursts.location[long] * width + bursts.start_ns[long] - begin, location * width + time - begin
    )
    burst = long[np.maximum(place - 1, 0)]
    inside = (place > 0) & (bursts.location[burst] == location) & (time <= bursts.end_ns[burst])
    following = np.append(samples.time_ns[1:], 0)[row]
    same = np.append(samples.thread[1:] == samples.thread[:-1], False)[row]
    until = np.where(same, following, time + period_ns)[inside] - period_ns // 2
    row, burst, since = row[inside], burst[inside], time[inside] - period_ns // 2
    where = place_of_path[samples.path[row]]
    return _outermost(bursts, number, burst, where, (since, until), helper=False)


def helper_extents(bursts: Bursts, number: IntArray, waits: HelperWaits, period_ns: int) -> Extents:
    """When locations waited for each work of helpers in the long ones of some bursts, likewise."""
    rows = np.flatnonzero((bursts.end_ns - bursts.start_ns)[waits.burst] >= LONG_PERIODS * period_ns)
    times = waits.since_ns[rows], waits.until_ns[rows]
    return _outermost(bursts, number, waits.burst[rows], waits.work[rows], times, helper=True)


def _outermost(
    bursts: Bursts, number: IntArray, burst: IntArray, place: IntArray, times: tuple[IntArray, IntArray], helper: bool
) -> Extents:
    """Of each place in each burst the first and the last time at which it was seen."""
    order = np.lexsort((place, burst))
    first = np.flatnonzero(np.append(True, (np.diff(burst[order]) != 0) | (np.diff(place[order]) != 0))[: len(order)])
    if not len(first):
        return Extents.joined([])
    of = burst[order][first]
    return Extents(
        number[of],
        place[order][first],
        np.maximum(np.minimum.reduceat(times[0][order], first), bursts.start_ns[of]),
        np.minimum(np.maximum.reduceat(times[1][order], first), bursts.end_ns[of]),
        np.full(len(of), helper),
    )


def add_extents(own: OwnWork, activities: Activities, catalogue: Catalogue, parts: list[Extents]) -> None:
    """Tell the rows of own work when they were seen, as far as it is known."""
    whole = Extents.joined(parts)
    if not len(whole.burst):
        return
    activity = np.full(2 * len(catalogue), -1, np.int64)
    activity[2 * catalogue.find(activities.vertex, activities.line) + activities.helper] = np.arange(len(activities))
    key = whole.burst * len(activities) + activity[2 * whole.place + whole.helper]
    burst, since, until = whole.burst, whole.since_ns, whole.until_ns
    order = np.argsort(key)
    key, since, until = key[order], since[order], until[order]
    row = np.flatnonzero(np.isin(own.burst, np.unique(burst)))
    wanted = own.burst[row].astype(np.int64) * len(activities) + own.activity[row]
    found = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    known = (key[found] == wanted) & (until[found] > since[found])
    own.seen_row = row[known]
    own.seen_s = np.stack((to_seconds(since[found[known]]), to_seconds(until[found[known]])), axis=1)
