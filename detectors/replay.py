"""What if: the run again, with some of its own time taken out.

A max-plus recurrence over the matched calls: a call is entered when its predecessor has been left and the own work
between is done, and left when the last arrival that it waits for is there, plus its transfer. Without changes the
replay gives the measured times back exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from scalana.detectors.waits import Dependencies, find_dependencies
from scalana.graphs.tables import narrow
from scalana.graphs.timeline import FloatArray, IntArray, Timeline

_FEW = 1 << 15
"""Rows up to which sorting is as fast as counting."""
_IN_BUCKET = 4
"""Rows in a stretch of time into which they are counted, on average."""


@dataclass(slots=True)
class Replay:
    """A run prepared for replays. Make it once by :func:`prepare`; every :meth:`end_s` is one pass over the calls.

    The columns stand in the order in which calls were entered, so that what is looked at together lies together.
    """

    timeline: Timeline
    order: IntArray
    """Row in the timeline of every call ``[calls]``."""
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
    """Length of every gap, numbered as in OwnWork ``[calls + locations]``."""

    def end_s(
        self,
        removed_s: FloatArray | None = None,
        earlier_start_s: FloatArray | None = None,
        shorter_transfer_s: FloatArray | None = None,
    ) -> FloatArray:
        """Return when each location ends ``[locations]``; see :meth:`times_s`."""
        return self._replayed(removed_s, earlier_start_s, shorter_transfer_s)[2]

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
        enter, leave, end = self._replayed(removed_s, earlier_start_s, shorter_transfer_s)
        return enter[self.place], leave[self.place], end

    def _replayed(
        self, removed_s: FloatArray | None, earlier_start_s: FloatArray | None, shorter_transfer_s: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The same, calls in the order in which they are here."""
        timeline, count = self.timeline, len(self.order)
        calls, locations = timeline.calls, timeline.locations
        gap = self.gap_s if removed_s is None else np.maximum(self.gap_s - removed_s, 0.0)
        start = locations.start_s if earlier_start_s is None else locations.start_s - earlier_start_s
        less = np.zeros(count) if shorter_transfer_s is None else shorter_transfer_s[self.order]
        enter, leave, end = _replay(
            self.exits,
            self.location,
            self.enter_s,
            self.exit_s,
            self.posts,
            self.wait_first,
            self.waits,
            self.rule,
            self.on,
            self.earliest,
            timeline.instances.first,
            timeline.instances.members,
            self.place,
            locations.rank,
            gap[self.order],
            start,
            less,
        )
        return np.asarray(enter), np.asarray(leave), np.asarray(end) + gap[len(calls) :]


def prepare(timeline: Timeline, dependencies: Dependencies | None = None) -> Replay:
    """Sort the entries and exits of all calls, and measure the gaps between them."""
    calls, locations = timeline.calls, timeline.locations
    pairs = dependencies or find_dependencies(timeline)
    count = len(calls)
    order = time_order(calls.enter_s)
    place = np.empty(count, order.dtype)
    place[order] = np.arange(count)
    exits = time_order(calls.exit_s)
    size = np.diff(calls.wait_first)[order]
    wait_first = np.concatenate(([0], np.cumsum(size))).astype(np.int64)
    pair = np.repeat(calls.wait_first[:-1][order] - wait_first[:-1], size) + np.arange(int(wait_first[-1]))
    on = pairs.on[pair]
    previous = np.empty(count)
    if count:
        previous[1:] = calls.exit_s[:-1]
    begins = calls.first[:-1][np.diff(calls.first) > 0]
    previous[begins] = locations.start_s[calls.location[begins]]
    last = locations.start_s.copy()
    filled = np.diff(calls.first) > 0
    last[filled] = calls.exit_s[calls.first[1:][filled] - 1]
    return Replay(
        timeline=timeline,
        order=order,
        place=place,
        exits=place[exits],
        location=narrow(calls.location[order]),
        enter_s=calls.enter_s[order],
        exit_s=calls.exit_s[order],
        posts=narrow(calls.posts[order]),
        earliest=pairs.earliest[order],
        wait_first=narrow(wait_first),
        waits=narrow(calls.waits[pair]),
        rule=narrow(pairs.rule[pair]),
        on=narrow(np.where(on >= 0, place[on], -1).astype(np.int64)) if count else on,
        gap_s=np.concatenate([calls.enter_s - previous, locations.end_s - last]),
    )


def time_order(time_s: FloatArray) -> IntArray:
    """Rows in the order of their times; equal ones as they stand. Linear in the rows where these are spread evenly."""
    count = len(time_s)
    low, high = float(np.min(time_s, initial=np.inf)), float(np.max(time_s, initial=-np.inf))
    if count <= _FEW or not low < high:
        return np.argsort(time_s, kind="stable").astype(np.int64)
    kind = np.int32 if count < 1 << 31 else np.int64
    buckets = count // _IN_BUCKET
    return np.asarray(_time_order(time_s, low, buckets / (high - low), buckets, np.empty(count, kind)))


@numba.njit(cache=True, nogil=True)
def _time_order(time, low, scale, buckets, order):  # type: ignore[no-untyped-def]  # pragma: no cover
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
        if end - first > 64:
            inside = np.argsort(key[first:end], kind="mergesort")
            order[first:end] = order[first:end][inside]
            continue
        for row in range(first + 1, end):
            held, number = key[row], order[row]
            place = row
            while place > first and key[place - 1] > held:
                key[place], order[place] = key[place - 1], order[place - 1]
                place -= 1
            key[place], order[place] = held, number
    return order


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
    start_s,
    less_s,
):
    count = len(location)
    enter = enter_s.copy()
    leave = exit_s.copy()
    now = start_s.copy()
    last_arrival = np.full(len(member_first) - 1, -np.inf)
    measured_last = np.full(len(member_first) - 1, -np.inf)
    entered = 0
    for call in exits:
        # Of the same time entries come first.
        while entered < count and enter_s[entered] <= exit_s[call]:
            enter[entered] = now[location[entered]] + gap_s[entered]
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
        transfer = max(exit_s[call] - max(then, enter_s[call]) - less_s[call], 0.0)
        if posts[call] < 0 and then > enter_s[call]:
            # The completion of an operation posted before: it goes on by itself from its release.
            left = max(this + transfer, enter[call])
        else:
            left = max(this, enter[call]) + transfer
        leave[call] = left
        now[location[call]] = left
    return enter, leave, now
