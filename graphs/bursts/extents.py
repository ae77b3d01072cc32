"""From when to when each kind of work of a long gap was seen in it.

What is done between two calls is known by kind, not in which order. Of gaps that are long (a start-up without
communication, a run of one rank) this tells what of their work belongs to a part of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.bursts.own_work import Catalogue
from scalana.graphs.calls.gaps import Gaps
from scalana.graphs.readers.records import Samples, Threads
from scalana.graphs.timeline import Activities, OwnWork

LONG_PERIODS = 20
"""Sampling periods from which a gap is long."""


@dataclass(slots=True)
class Extents:
    """One row for each kind of work in each long gap."""

    gap: IntArray
    """Number of the gap among those of the run, before calls from 0 on ``[rows]``."""
    place: IntArray
    """Row in the :class:`~scalana.graphs.bursts.own_work.Catalogue` ``[rows]``."""
    since_ns: IntArray
    """``[rows]``"""
    until_ns: IntArray
    """``[rows]``"""


def extents_of(
    gaps: Gaps, number: IntArray, samples: Samples, threads: Threads, place_of_path: IntArray, period_ns: int
) -> Extents:
    """When samples of locations saw each place in the long ones of some gaps.

    ``number`` are the gaps' numbers in the run ``[gaps]``.

    A sample stands for the time until half a period before the next of its thread, from half a period before itself.
    """
    long = np.flatnonzero(gaps.end_ns - gaps.start_ns >= LONG_PERIODS * period_ns)
    nothing = np.zeros(0, np.int64)
    row = np.flatnonzero(threads.location[samples.thread] >= 0)
    if not len(long) or not len(row):
        return Extents(nothing, nothing, nothing, nothing)
    location, time = threads.location[samples.thread[row]], samples.time_ns[row]
    begin = int(min(gaps.start_ns[long].min(), time.min()))
    width = int(max(gaps.end_ns[long].max(), time.max())) - begin + 1
    place = np.searchsorted(gaps.location[long] * width + gaps.start_ns[long] - begin, location * width + time - begin)
    gap = long[np.maximum(place - 1, 0)]
    inside = (place > 0) & (gaps.location[gap] == location) & (time <= gaps.end_ns[gap])
    following = np.append(samples.time_ns[1:], 0)[row]
    same = np.append(samples.thread[1:] == samples.thread[:-1], False)[row]
    until = np.where(same, following, time + period_ns)[inside] - period_ns // 2
    row, gap, since = row[inside], gap[inside], time[inside] - period_ns // 2
    where = place_of_path[samples.path[row]]
    order = np.lexsort((where, gap))
    first = np.flatnonzero(np.append(True, (np.diff(gap[order]) != 0) | (np.diff(where[order]) != 0))[: len(order)])
    if not len(first):
        return Extents(nothing, nothing, nothing, nothing)
    of = gap[order][first]
    return Extents(
        number[of],
        where[order][first],
        np.maximum(np.minimum.reduceat(since[order], first), gaps.start_ns[of]),
        np.minimum(np.maximum.reduceat(until[order], first), gaps.end_ns[of]),
    )


def add_extents(own: OwnWork, activities: Activities, catalogue: Catalogue, parts: list[Extents]) -> None:
    """Tell the rows of own work when they were seen, as far as it is known."""
    gap, place, since, until = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])
        for name in ("gap", "place", "since_ns", "until_ns")
    )
    if not len(gap):
        return
    activity = np.full(len(catalogue), -1, np.int64)
    itself = np.flatnonzero(~activities.helper)
    activity[catalogue.find(activities.vertex[itself], activities.line[itself])] = itself
    key = gap * len(activities) + activity[place]
    order = np.argsort(key)
    key, since, until = key[order], since[order], until[order]
    row = np.flatnonzero(np.isin(own.gap, np.unique(gap)))
    wanted = own.gap[row].astype(np.int64) * len(activities) + own.activity[row]
    found = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    known = (key[found] == wanted) & (until[found] > since[found])
    own.seen_row = row[known]
    own.seen_s = np.stack((to_seconds(since[found[known]]), to_seconds(until[found[known]])), axis=1)
