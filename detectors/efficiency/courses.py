"""What ranks did in windows of time: there at all, outside communication, on a core, and on an ideal network.

Each of these is a function of time that grows along straight lines between the edges of calls; a window has what it
grows by. So any number of windows (steps, regions, the run) costs two look-ups each.
"""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(slots=True)
class _Sums:
    """What has been added up of some windows."""

    ranks: FloatArray
    """How many were there ``[windows]``."""
    most_s: FloatArray
    """The most of being there, that on an ideal network, and outside communication ``[3, windows]``."""
    added_s: FloatArray
    """Sums of the time outside communication, of that on a core, and ready to run without one ``[3, windows]``."""

    @classmethod
    def of(cls, windows: Windows) -> _Sums:
        """None yet."""
        return cls(np.zeros(windows.count), *np.zeros((2, 3, windows.count)))

    def add(self, amounts: FloatArray) -> None:
        """Add a rank: the amounts of its first windows ``[6, some windows]``."""
        here = slice(0, amounts.shape[1])
        there, ideal, outside, own, cpu, core_wait = amounts
        # What is not known of the time outside communication is as what is; where nothing is, it is work.
        scale = np.divide(outside, own, out=np.zeros(len(own)), where=own > 0.0)
        self.ranks[here] += there > 0.0
        np.maximum(self.most_s[:, here], np.stack((there, ideal, outside)), out=self.most_s[:, here])
        self.added_s[:, here] += np.stack((outside, np.where(own > 0.0, cpu * scale, outside), core_wait * scale))

    def join(self, other: _Sums) -> None:
        """Add other ranks."""
        self.ranks += other.ranks
        np.maximum(self.most_s, other.most_s, out=self.most_s)
        self.added_s += other.added_s


class Courses:
    """How the amounts of all ranks grow over time."""

    def __init__(self, timeline: Timeline, ideal: IdealNetwork) -> None:
        own, calls, count = timeline.own, timeline.calls, len(timeline.calls)
        self._timeline, self._ideal = timeline, ideal
        bursts = count + len(timeline.locations)
        cpu_s = np.clip(own.cpu_s, 0.0, own.seconds)
        self._own = np.stack((own.seconds, cpu_s, np.clip(own.core_wait_s, 0.0, own.seconds - cpu_s)))
        """Seconds of own work, on a core, and without one ``[3, rows]``."""
        self._unwritten_s = np.zeros(bursts) if timeline.unwritten is None else timeline.unwritten.burst_s
        burst = own.burst[own.seen_row]
        of_call = calls.location[np.minimum(burst, count - 1)] if count else burst
        location = np.where(burst < count, of_call, burst - count)
        self._seen = np.argsort(location, kind="stable")
        """What was seen, by location ``[rows seen]``."""
        self._first_seen = np.searchsorted(location[self._seen], np.arange(len(timeline.locations) + 1))
        """Start of what was seen at each location ``[locations + 1]``."""

    def totals(self, *windows: Windows) -> list[Totals]:
        """What the main threads of all ranks did in some windows, and in some others, and so on."""
        locations = np.flatnonzero(self._timeline.locations.is_main)
        sums = [_Sums.of(one) for one in windows]
        for part in each(lambda at: self._of(locations[at], windows), chunks(len(locations), RANKS_AT_ONCE)):
            for one, more in zip(sums, part, strict=True):
                one.join(more)
        return [Totals(one.ranks, *one.most_s, *one.added_s) for one in sums]

    def _of(self, locations: IntArray, windows: Sequence[Windows]) -> list[_Sums]:
        """What some locations did in some windows."""
        sums = [_Sums.of(one) for one in windows]
        low, high, first = int(locations[0]), int(locations[-1]) + 1, self._timeline.calls.first
        behind = len(self._timeline.calls)
        made_s = self._burst_s(slice(int(first[low]), int(first[high])))
        behind_s = self._burst_s(slice(behind + low, behind + high))
        for location in locations.tolist():
            made = slice(*(first[location : location + 2] - first[low]).tolist())
            at = location - low
            own_s = np.concatenate((made_s[:, made], behind_s[:, at : at + 1]), axis=1)
            course, rank = self._course(location, own_s), int(self._timeline.locations.rank[location])
            for one, total in zip(windows, sums, strict=True):
                rows = one.of_rank(rank)
                if rows.start == rows.stop:
                    continue
                amounts = course.within(one.periods.start_s[rows], one.periods.end_s[rows])
                total.add(amounts if one.each_row else amounts.sum(axis=1, keepdims=True))
        return sums

    def _burst_s(self, bursts: slice) -> FloatArray:
        """Own work in some bursts, on a core, and without one ``[3, bursts]``."""
        burst = self._timeline.own.burst
        rows = slice(*np.searchsorted(burst, np.array([bursts.start, bursts.stop], burst.dtype)).tolist())
        at, count = burst[rows] - bursts.start, bursts.stop - bursts.start
        return np.stack([np.bincount(at, row[rows], count) for row in self._own])

    def _course(self, location: int, own_s: FloatArray) -> _Course:
        """How the amounts of a location grow; ``own_s`` is :meth:`_burst_s` of its bursts."""
        calls, locations = self._timeline.calls, self._timeline.locations
        made = slice(int(calls.first[location]), int(calls.first[location + 1]))
        bursts = np.append(np.arange(made.start, made.stop), len(calls) + location)
        # The begin and the end of every burst, one after the other.
        begin = np.concatenate(([locations.start_s[location]], calls.exit_s[made]))
        end = np.concatenate((calls.enter_s[made], [locations.end_s[location]]))
        edges = np.maximum.accumulate(np.stack((begin, end), axis=1).ravel())
        long_s = edges[1::2] - edges[::2]
        outside_s = np.maximum(long_s - self._unwritten_s[bursts], 0.0)
        grown = np.stack([_by_bursts(row) for row in (outside_s, *own_s)])
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
