"""What ranks did in windows of time: there at all, outside communication, on a core, and on an ideal network.

Each of these is a function of time that grows along straight lines between the edges of calls; a window has what it
grows by. So any number of windows (steps, regions, the run) costs two look-ups each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scalana.detectors.efficiency.ideal_network import IdealNetwork
from scalana.detectors.efficiency.pop_factors import Totals
from scalana.detectors.thresholds.limits import RANKS_AT_ONCE
from scalana.graphs.arrays.shards import chunks, each
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.steps.periods import Periods
from scalana.graphs.timeline import Timeline

_AMOUNTS = ("there", "ideal", "outside", "own", "cpu", "core_wait")
"""What is counted of a rank in a window, in seconds: there at all, on an ideal network, outside communication, what is
known of that, and of this on a core and ready to run without one."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of time, alike numbered on all ranks."""

    periods: Periods
    each_row: bool = False
    """Whether each period of a rank is a window of its own; else all of them together are one."""

    @property
    def count(self) -> int:
        """How many windows there are."""
        return int(np.diff(self.periods.first).max(initial=0)) if self.each_row else 1

    def of_rank(self, rank: int) -> slice:
        """The rows of the periods of a rank."""
        return slice(int(self.periods.first[rank]), int(self.periods.first[rank + 1]))


class _Course(NamedTuple):
    """How the amounts of a location grow over time."""

    time_s: FloatArray
    """Edges of calls, ascending ``[edges]``."""
    grown_s: FloatArray
    """All of :data:`_AMOUNTS` but the first, until each ``[5, edges]``."""
    seen_time_s: FloatArray
    """More such edges, inside of long bursts ``[edges seen]``."""
    seen_s: FloatArray
    """By how much more of the last three had grown until then ``[3, edges seen]``."""

    def within(self, start_s: FloatArray, end_s: FloatArray) -> FloatArray:
        """By how much each amount grows between two times ``[6, windows]``."""
        start_s = np.clip(start_s, self.time_s[0], self.time_s[-1])
        end_s = np.clip(end_s, start_s, self.time_s[-1])
        grown = [np.interp(end_s, self.time_s, row) - np.interp(start_s, self.time_s, row) for row in self.grown_s]
        if len(self.seen_time_s):
            for number, row in enumerate(self.seen_s, len(grown) - len(self.seen_s)):
                more = (np.interp(at, self.seen_time_s, row, left=0.0, right=0.0) for at in (end_s, start_s))
                grown[number] = grown[number] + next(more) - next(more)
        return np.stack([end_s - start_s, *grown])


class Courses:
    """How the amounts of all ranks grow over time."""

    def __init__(self, timeline: Timeline, ideal: IdealNetwork) -> None:
        own, calls, count = timeline.own, timeline.calls, len(timeline.calls)
        self._timeline, self._ideal = timeline, ideal
        bursts = count + len(timeline.locations)
        cpu_s = np.clip(own.cpu_s, 0.0, own.seconds)
        self._own = np.stack((own.seconds, cpu_s, np.clip(own.core_wait_s, 0.0, own.seconds - cpu_s)))
        """Seconds of own work, on a core, and without one ``[3, rows]``."""
        self._burst_s = np.stack([np.bincount(own.burst, row, bursts) for row in self._own])
        """The same of bursts ``[3, bursts]``."""
        self._unwritten_s = np.zeros(bursts) if timeline.unwritten is None else timeline.unwritten.burst_s
        burst = own.burst[own.seen_row]
        of_call = calls.location[np.minimum(burst, count - 1)] if count else burst
        location = np.where(burst < count, of_call, burst - count)
        self._seen = np.argsort(location, kind="stable")
        """What was seen, by location ``[rows seen]``."""
        self._first_seen = np.searchsorted(location[self._seen], np.arange(len(timeline.locations) + 1))
        """Start of what was seen at each location ``[locations + 1]``."""

    def totals(self, windows: Windows) -> Totals:
        """What the main threads of all ranks did in some windows."""
        locations = np.flatnonzero(self._timeline.locations.is_main)
        parts = each(lambda at: self._of(locations[at], windows), chunks(len(locations), RANKS_AT_ONCE))
        most, added = (np.zeros((3, windows.count)) for _ in range(2))
        ranks = np.zeros(windows.count)
        for there, longest, total in parts:
            np.maximum(most, longest, out=most)
            added += total
            ranks += there
        return Totals(ranks, *most, *added)

    def _of(self, locations: IntArray, windows: Windows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of some locations how many were there ``[windows]``; the most of being there, that on an ideal network, and
        outside communication; and the sums of the last, of time on a core and without one, each ``[3, windows]``."""
        ranks = np.zeros(windows.count)
        most, added = (np.zeros((3, windows.count)) for _ in range(2))
        for location in locations.tolist():
            rows = windows.of_rank(int(self._timeline.locations.rank[location]))
            if rows.start == rows.stop:
                continue
            amounts = self._course(location).within(windows.periods.start_s[rows], windows.periods.end_s[rows])
            if not windows.each_row:
                amounts = amounts.sum(axis=1, keepdims=True)
            here = slice(0, amounts.shape[1])
            there, ideal, outside, own, cpu, core_wait = amounts
            # What is not known of the time outside communication is as what is; where nothing is, it is work.
            scale = np.divide(outside, own, out=np.zeros(len(own)), where=own > 0.0)
            cpu = np.where(own > 0.0, cpu * scale, outside)
            ranks[here] += there > 0.0
            np.maximum(most[:, here], np.stack((there, ideal, outside)), out=most[:, here])
            added[:, here] += np.stack((outside, cpu, core_wait * scale))
        return ranks, most, added

    def _course(self, location: int) -> _Course:
        """How the amounts of a location grow."""
        calls, locations = self._timeline.calls, self._timeline.locations
        made = slice(int(calls.first[location]), int(calls.first[location + 1]))
        bursts = np.append(np.arange(made.start, made.stop), len(calls) + location)
        # The begin and the end of every burst, one after the other.
        begin = np.concatenate(([locations.start_s[location]], calls.exit_s[made]))
        end = np.concatenate((calls.enter_s[made], [locations.end_s[location]]))
        edges = np.maximum.accumulate(np.stack((begin, end), axis=1).ravel())
        long_s = edges[1::2] - edges[::2]
        outside_s = np.maximum(long_s - self._unwritten_s[bursts], 0.0)
        grown = np.stack([_by_bursts(row) for row in (outside_s, *self._burst_s[:, bursts])])
        ideal_end = np.concatenate((self._ideal.enter_s[made], [self._ideal.end_s[location]]))
        ideal_begin = np.concatenate(([ideal_end[0] - outside_s[0]], self._ideal.exit_s[made]))
        ideal = np.maximum.accumulate(np.stack((ideal_begin, ideal_end), axis=1).ravel())
        return _Course(edges, np.concatenate((ideal[None], grown)), *self._ahead(location, edges, made))

    def _ahead(self, location: int, edges: FloatArray, made: slice) -> tuple[FloatArray, FloatArray]:
        """What is known of when in its burst work was done: by how much it is ahead of an even course, at some times.
        ``edges`` are those of all bursts of the location."""
        own = self._timeline.own
        which = self._seen[self._first_seen[location] : self._first_seen[location + 1]]
        row = own.seen_row[which]
        number = np.where(
            own.burst[row] < len(self._timeline.calls), own.burst[row] - made.start, made.stop - made.start
        )
        begin, end = edges[2 * number], edges[2 * number + 1]
        since, until = (np.clip(at, begin, end) for at in own.seen_s[which].T)
        known = until > since
        amount = self._own[:, row[known]]
        since, until, begin, end = since[known], until[known], begin[known], end[known]
        seen, even = amount / (until - since), amount / (end - begin)
        time = np.concatenate((since, until, begin, end))
        order = np.argsort(time, kind="stable")
        rate = np.cumsum(np.concatenate((seen, -seen, -even, even), axis=1)[:, order], axis=1)
        time = time[order]
        ahead = np.cumsum(rate[:, :-1] * np.diff(time), axis=1) if len(time) else rate
        return time, np.concatenate((np.zeros((3, min(len(time), 1))), ahead), axis=1)


def _by_bursts(seconds: FloatArray) -> FloatArray:
    """Seconds until the begin and the end of every burst, of what lies in bursts alone ``[2 bursts]``."""
    until = np.cumsum(seconds)
    return np.stack((until - seconds, until), axis=1).ravel()
