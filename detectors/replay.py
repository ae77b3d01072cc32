"""What if: the run again, with some of its own time taken out.

A max-plus recurrence over the matched calls: a call is entered when its predecessor has been left and the own work
between is done, and left when the last arrival that it waits for is there, plus its transfer. Without changes the
replay gives the measured times back exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from scalana.detectors.waits import Dependencies, find_dependencies
from scalana.graphs.portions import each, rows_of_ranges
from scalana.graphs.timeline import ROW, FloatArray, IntArray, Timeline

_FEW = 1 << 15
"""Rows up to which sorting is as fast as counting."""
_IN_BUCKET = 4
"""Rows in a stretch of time into which they are counted, on average."""
_IN_LARGE = 64
"""A stretch with more rows is sorted by numpy: numba's own sort takes a second to compile."""


@dataclass(slots=True)
class _Ordered:
    """The calls of a run in the order in which they were entered, so that what is looked at together lies together."""

    place: IntArray
    """Row here of every call of the timeline ``[calls]``."""
    exits: IntArray
    """Rows here in the order of exits ``[calls]``."""
    location: IntArray
    """``[calls]``"""
    enter_s: FloatArray
    """``[calls]``"""
    exit_s: FloatArray
    """``[calls]``"""
    posts: IntArray
    """Instance to which each call contributes, -1 for none ``[calls]``."""
    earliest: npt.NDArray[np.bool_]
    """Whether a call returns with the earliest of its instances rather than the latest ``[calls]``."""
    wait_first: IntArray
    """Into ``waits``, ``rule`` and ``on`` ``[calls + 1]``."""
    waits: IntArray
    """Instances that calls wait for ``[pairs]``."""
    rule: IntArray
    """See :class:`~scalana.detectors.waits.Rule` ``[pairs]``."""
    on: IntArray
    """Row here of the call that a pair depends on, where it is one ``[pairs]``."""
    gap_s: FloatArray
    """Length of the gap before every call ``[calls]``."""


@dataclass(slots=True)
class Replay:
    """A run prepared for replays. Make it once by :func:`prepare`; every :meth:`end_s` is one pass over the calls,
    which are put in order for the first one."""

    timeline: Timeline
    pairs: Dependencies
    gap_s: FloatArray
    """Length of every gap, numbered as in OwnWork ``[calls + locations]``."""
    _ordered: _Ordered | None = None
    _ordering: Lock = field(default_factory=Lock)

    def end_s(
        self,
        removed_s: FloatArray | None = None,
        earlier_start_s: FloatArray | None = None,
        shorter_transfer_s: FloatArray | None = None,
    ) -> FloatArray:
        """Return when each location ends ``[locations]``; see :meth:`times_s`."""
        return self._replayed(removed_s, earlier_start_s, shorter_transfer_s, np.zeros(0))[1]

    def times_s(
        self,
        removed_s: FloatArray | None = None,
        earlier_start_s: FloatArray | None = None,
        shorter_transfer_s: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Replay with ``removed_s[gap]`` less own work, locations that start earlier and calls whose transfer takes
        less (all in seconds, all at least 0).

        Returns entry and exit of every call ``[calls]`` and the end of every location ``[locations]``.
        """
        leave = np.empty(len(self.timeline.calls))
        enter, end = self._replayed(removed_s, earlier_start_s, shorter_transfer_s, leave)
        place = self._in_order().place
        enter = enter[place]
        return enter, leave[place], end

    def _replayed(
        self,
        removed_s: FloatArray | None,
        earlier_start_s: FloatArray | None,
        shorter_transfer_s: FloatArray | None,
        leave: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Entries and ends, calls in the order in which they are here; fills in when they are left, where there is room
        for it ``[calls]``."""
        timeline, count, ordered = self.timeline, len(self.timeline.calls), self._in_order()
        locations, end_gap = timeline.locations, self.gap_s[count:]
        removed, removed_at = np.zeros(0), ordered.place[:0]
        if removed_s is not None:
            end_gap = np.maximum(end_gap - removed_s[count:], 0.0)
            rows = np.flatnonzero(removed_s[:count])
            rows = rows[np.argsort(ordered.place[rows])]
            removed, removed_at = removed_s[rows], ordered.place[rows]
        start = locations.start_s if earlier_start_s is None else locations.start_s - earlier_start_s
        less = np.zeros(0)
        if shorter_transfer_s is not None and shorter_transfer_s.any():
            less = np.empty(count)
            less[ordered.place] = shorter_transfer_s
        enter, end = _replay(
            ordered.exits,
            ordered.location,
            ordered.enter_s,
            ordered.exit_s,
            ordered.posts,
            ordered.wait_first,
            ordered.waits,
            ordered.rule,
            ordered.on,
            ordered.earliest,
            timeline.instances.first,
            timeline.instances.members,
            ordered.place,
            locations.rank,
            ordered.gap_s,
            removed_s is not None,
            removed_at,
            removed,
            start,
            less,
            leave,
        )
        return np.asarray(enter), np.asarray(end) + end_gap

    def _in_order(self) -> _Ordered:
        with self._ordering:  # replays run at once
            if self._ordered is None:
                self._ordered = _put_in_order(self.timeline, self.pairs, self.gap_s)
            return self._ordered


def prepare(
    timeline: Timeline, dependencies: Dependencies | None = None, waiting_s: FloatArray | None = None
) -> Replay:
    """Measure the gaps between calls.

    ``waiting_s`` is what of the gaps was waiting in unwritten calls ``[gaps]``: it goes when what was waited for goes,
    so that only the written calls wait in a replay. The ends are then to be compared with those of a replay without
    changes.
    """
    calls, locations = timeline.calls, timeline.locations
    previous = np.empty(len(calls))
    if len(calls):
        previous[1:] = calls.exit_s[:-1]
    filled = np.diff(calls.first) > 0
    previous[calls.first[:-1][filled]] = locations.start_s[filled]
    last = locations.start_s.copy()
    last[filled] = calls.exit_s[calls.first[1:][filled] - 1]
    gap_s = np.concatenate([calls.enter_s - previous, locations.end_s - last])
    if waiting_s is not None:
        gap_s = np.maximum(gap_s - waiting_s, 0.0)
    return Replay(timeline, dependencies or find_dependencies(timeline), gap_s)


def _put_in_order(timeline: Timeline, pairs: Dependencies, gap_s: FloatArray) -> _Ordered:
    """Sort the entries and exits of all calls."""
    calls, count = timeline.calls, len(timeline.calls)
    order, exits = each(time_order, [calls.enter_s, calls.exit_s])
    kind = order.dtype
    place = np.empty(count, kind)
    place[order] = np.arange(count)
    size = np.diff(calls.wait_first)[order]
    wait_first = np.concatenate(([0], np.cumsum(size))).astype(ROW)
    one_each = len(calls.waits) == count and bool((size == 1).all())
    pair = order if one_each else rows_of_ranges(calls.wait_first[:-1][order], size)

    def on() -> IntArray:
        call = pairs.on[pair]
        return np.where(call >= 0, place[call], -1).astype(kind) if count else call

    columns: dict[str, Callable[[], npt.NDArray[Any]]] = {
        "exits": lambda: place[exits],
        "location": lambda: calls.location[order],
        "enter_s": lambda: calls.enter_s[order],
        "exit_s": lambda: calls.exit_s[order],
        "posts": lambda: calls.posts[order],
        "earliest": lambda: pairs.earliest[order],
        "waits": lambda: calls.waits[pair],
        "rule": lambda: pairs.rule[pair],
        "on": on,
        "gap_s": lambda: gap_s[order],
    }
    made = dict(zip(columns, each(lambda make: make(), columns.values()), strict=True))
    return _Ordered(place=place, wait_first=wait_first, **made)


def time_order(time_s: FloatArray) -> IntArray:
    """Rows in the order of their times; equal ones as they stand. Linear in the rows where these are spread evenly."""
    count = len(time_s)
    low, high = float(np.min(time_s, initial=np.inf)), float(np.max(time_s, initial=-np.inf))
    if count <= _FEW or not low < high:
        return np.argsort(time_s, kind="stable").astype(ROW)
    buckets = count // _IN_BUCKET
    order = np.empty(count, ROW)
    edges = _time_order(time_s, low, buckets / (high - low), buckets, order, _IN_LARGE)[: buckets + 1]
    for bucket in np.flatnonzero(np.diff(edges) > _IN_LARGE).tolist():
        rows = order[edges[bucket] : edges[bucket + 1]]
        rows[:] = rows[np.argsort(time_s[rows], kind="stable")]
    return order


@numba.njit(cache=True, nogil=True)
def _time_order(time, low, scale, buckets, order, large):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Order rows by buckets, and within each that is not ``large``. Returns where they begin ``[buckets + 2]``."""
    at = np.zeros(buckets + 2, np.int64)
    for value in time:
        at[min(int((value - low) * scale), buckets - 1) + 2] += 1
    for bucket in range(2, buckets + 2):
        at[bucket] += at[bucket - 1]
    key = np.empty(len(time), np.float64)
    for row in range(len(time)):
        bucket = min(int((time[row] - low) * scale), buckets - 1) + 1
        key[at[bucket]] = time[row]
        order[at[bucket]] = row
        at[bucket] += 1
    for bucket in range(buckets):
        first, end = at[bucket], at[bucket + 1]
        if end - first > large:
            continue
        for row in range(first + 1, end):
            held, number = key[row], order[row]
            place = row
            while place > first and key[place - 1] > held:
                key[place], order[place] = key[place - 1], order[place - 1]
                place -= 1
            key[place], order[place] = held, number
    return at


@numba.njit(cache=True, nogil=True)
def _replay(  # type: ignore[no-untyped-def]  # pragma: no cover
    exits,
    location,
    enter_s,
    exit_s,
    posts,
    wait_first,
    waits,
    rule,
    on,
    earliest,
    member_first,
    members,
    place,
    rank,
    gap_s,
    changed,
    removed_at,
    removed_s,
    start_s,
    less_s,
    leave,
):
    """The recurrence. ``removed_s`` goes from the gaps before the calls ``removed_at``, ascending."""
    count = len(location)
    enter = enter_s.copy()
    removal = 0
    now = start_s.copy()
    last_arrival = np.full(len(member_first) - 1, -np.inf)
    measured_last = np.full(len(member_first) - 1, -np.inf)
    entered = 0
    for call in exits:
        # Of the same time entries come first.
        while entered < count and enter_s[entered] <= exit_s[call]:
            gap = gap_s[entered]
            if changed:
                if removal < len(removed_at) and removed_at[removal] == entered:
                    gap -= removed_s[removal]
                    removal += 1
                gap = max(gap, 0.0)
            enter[entered] = now[location[entered]] + gap
            now[location[entered]] = enter[entered]
            instance = posts[entered]
            if instance >= 0:
                last_arrival[instance] = max(last_arrival[instance], enter[entered])
                measured_last[instance] = max(measured_last[instance], enter_s[entered])
            entered += 1
        # The release, as it was measured and as it is now.
        any_rule = False
        then = -np.inf
        this = -np.inf
        for pair in range(wait_first[call], wait_first[call + 1]):
            was = -np.inf
            will = -np.inf
            if rule[pair] == 1:
                was = measured_last[waits[pair]]
                will = last_arrival[waits[pair]]
            elif rule[pair] == 2:
                was = enter_s[on[pair]]
                will = enter[on[pair]]
            elif rule[pair] == 3:
                for m in range(member_first[waits[pair]], member_first[waits[pair] + 1]):
                    member = place[members[m]]
                    if rank[location[member]] < rank[location[call]]:
                        was = max(was, enter_s[member])
                        will = max(will, enter[member])
            else:
                continue
            if not any_rule:
                then, this = was, will
            elif earliest[call]:
                then, this = min(then, was), min(this, will)
            else:
                then, this = max(then, was), max(this, will)
            any_rule = True
        then = min(then, exit_s[call])
        less = less_s[call] if len(less_s) else 0.0
        transfer = max(exit_s[call] - max(then, enter_s[call]) - less, 0.0)
        if posts[call] < 0 and then > enter_s[call]:
            # The completion of an operation posted before: it goes on by itself from its release.
            left = max(this + transfer, enter[call])
        else:
            left = max(this, enter[call]) + transfer
        if len(leave):
            leave[call] = left
        now[location[call]] = left
    return enter, now
