"""What if: the run again, with some of its own time taken out.

A max-plus recurrence over the matched calls: a call is entered when its predecessor has been left and the own work
between is done, and left when the last arrival that it waits for is there, plus its transfer. Without changes the
replay gives the measured times back exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from scalana.detectors.waits import Dependencies, find_dependencies
from scalana.graphs.timeline import FloatArray, IntArray, Timeline


@dataclass(slots=True)
class Replay:
    """A run prepared for replays. Make it once by :func:`prepare`; every :meth:`end_s` is one pass over the calls."""

    timeline: Timeline
    dependencies: Dependencies
    order: IntArray
    """Entries (call) and exits (call + number of calls) in the order of the measured times ``[2 * calls]``."""
    gap_s: FloatArray
    """Length of every gap, numbered as in OwnWork ``[calls + locations]``."""

    def end_s(
        self,
        removed_s: FloatArray | None = None,
        earlier_start_s: FloatArray | None = None,
        shorter_transfer_s: FloatArray | None = None,
    ) -> FloatArray:
        """Return when each location ends ``[locations]``; see :meth:`times_s`."""
        return self.times_s(removed_s, earlier_start_s, shorter_transfer_s)[2]

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
        timeline = self.timeline
        calls, locations = timeline.calls, timeline.locations
        gap = self.gap_s if removed_s is None else np.maximum(self.gap_s - removed_s, 0.0)
        start = locations.start_s if earlier_start_s is None else locations.start_s - earlier_start_s
        less = np.zeros(len(calls)) if shorter_transfer_s is None else shorter_transfer_s
        rank_of_call = locations.rank[calls.location]
        enter, leave, end = _replay(
            self.order,
            calls.location,
            calls.enter_s,
            calls.exit_s,
            calls.posts,
            calls.wait_first,
            calls.waits,
            self.dependencies.rule,
            self.dependencies.on,
            self.dependencies.earliest,
            timeline.instances.first,
            timeline.instances.members,
            rank_of_call,
            gap,
            start,
            less,
        )
        return np.asarray(enter), np.asarray(leave), np.asarray(end)


def prepare(timeline: Timeline, dependencies: Dependencies | None = None) -> Replay:
    """Sort the entries and exits of all calls, and measure the gaps between them."""
    calls, locations = timeline.calls, timeline.locations
    count = len(calls)
    time = np.concatenate([calls.enter_s, calls.exit_s])
    order = np.argsort(time, kind="stable")  # of the same time entries first, and then by number
    previous = np.empty(count)
    if count:
        previous[1:] = calls.exit_s[:-1]
    begins = calls.first[:-1][np.diff(calls.first) > 0]
    previous[begins] = locations.start_s[calls.location[begins]]
    last = locations.start_s.copy()
    filled = np.diff(calls.first) > 0
    last[filled] = calls.exit_s[calls.first[1:][filled] - 1]
    gap = np.concatenate([calls.enter_s - previous, locations.end_s - last])
    return Replay(timeline, dependencies or find_dependencies(timeline), order.astype(np.int64), gap)


@numba.njit(cache=True)
def _replay(  # type: ignore[no-untyped-def]  # pragma: no cover
    order,
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
    rank_of_call,
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
    for step in order:
        if step < count:
            call = step
            enter[call] = now[location[call]] + gap_s[call]
            now[location[call]] = enter[call]
            instance = posts[call]
            if instance >= 0:
                last_arrival[instance] = max(last_arrival[instance], enter[call])
                measured_last[instance] = max(measured_last[instance], enter_s[call])
            continue
        call = step - count
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
                    if rank_of_call[members[m]] < rank_of_call[call]:
                        was = max(was, enter_s[members[m]])
                        will = max(will, enter[members[m]])
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
    for place in range(len(now)):
        now[place] += gap_s[count + place]
    return enter, leave, now
