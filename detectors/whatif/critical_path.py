"""The critical path: from the end of a stretch of time back to its begin, always along what came last.

At a call that waited the path goes on at the arrival that released it, on the rank whose arrival that was; at any other
call, and between calls, it stays with its rank. What lies on it follows without a gap, so that its parts add up to the
stretch (Böhme et al., "Scalable critical-path based performance analysis", IPDPS 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Seconds on the critical path of a stretch of time."""

    burst_s: FloatArray
    """Between calls, numbered as in OwnWork ``[calls + locations]``."""
    call_s: FloatArray
    """In calls, without waiting for others ``[calls]``."""
    unknown_s: float
    """Before anything was recorded where the path leads to."""

    @property
    def total_s(self) -> float:
        """All of it: the stretch."""
        return float(self.burst_s.sum() + self.call_s.sum()) + self.unknown_s


class _Columns(NamedTuple):
    first: IntArray
    """``[locations + 1]``"""
    location: IntArray
    """``[calls]``"""
    enter_s: FloatArray
    exit_s: FloatArray
    released_s: FloatArray
    """When the last arrival was there that a call waited for; its entry where it waited for none ``[calls]``."""
    culprit: IntArray
    """Whose arrival that was, -1 for none ``[calls]``."""
    start_s: FloatArray
    """``[locations]``"""
    main: IntArray
    """The location of the main thread of the same rank ``[locations]``."""


def critical_path(timeline: Timeline, waits: WaitStates, begin_s: float, end_s: float) -> CriticalPath:
    """The path from ``end_s`` back to ``begin_s``; it starts on the main thread that made the last call before
    ``end_s``, and where there are no calls, on that which ends last. O(calls + locations)."""
    calls, locations = timeline.calls, timeline.locations
    count = len(calls)
    burst_s, call_s = np.zeros(count + len(locations)), np.zeros(count)
    if not len(locations) or end_s <= begin_s:
        return CriticalPath(burst_s, call_s, 0.0)
    columns = _Columns(
        calls.first,
        calls.location,
        calls.enter_s,
        calls.exit_s,
        calls.enter_s + waits.wait_s,
        waits.culprit,
        locations.start_s,
        _main_of(timeline),
    )
    start = _last_to_act(timeline, end_s)
    unknown_s = _walk(columns, start, (begin_s, end_s), burst_s, call_s)
    return CriticalPath(burst_s, call_s, float(unknown_s))


def _main_of(timeline: Timeline) -> IntArray:
    """The location of the main thread of each location's rank; itself where that has no record ``[locations]``."""
    locations = timeline.locations
    result = np.arange(len(locations))
    main = np.full(timeline.ranks + 1, -1, np.int64)
    main[locations.rank[locations.is_main]] = np.flatnonzero(locations.is_main)
    known = main[locations.rank] >= 0
    result[known] = main[locations.rank[known]]
    return result


def _last_to_act(timeline: Timeline, end_s: float) -> int:
    """The main thread that left its last call before a time last, for what it did since held all others up; without
    calls, that which has the most left to do."""
    calls, locations = timeline.calls, timeline.locations
    left_s = np.full(len(locations), -np.inf)
    before = calls.exit_s <= end_s
    np.maximum.at(left_s, calls.location[before], calls.exit_s[before])
    reached_s = np.where(np.isfinite(left_s), left_s, np.minimum(locations.end_s, end_s))
    return int(np.argmax(np.where(locations.is_main, reached_s, -np.inf)))


@compiled
def _walk(columns, here, stretch, burst_s, call_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill what lies on the path; returns the seconds in which nothing was recorded."""
    begin_s, now_s = stretch
    first = columns.first
    call = first[here] + np.searchsorted(columns.enter_s[first[here] : first[here + 1]], now_s) - 1
    for _ in range(2 * len(call_s) + len(first)):
        if now_s <= begin_s:
            return 0.0
        # Between two calls, back to the exit of the last one.
        known = call >= first[here]
        since_s = max(begin_s, columns.exit_s[call] if known else columns.start_s[here])
        if now_s > since_s:
            behind = call + 1 if known else first[here]
            burst_s[behind if behind < first[here + 1] else len(call_s) + here] += now_s - since_s
            now_s = since_s
        if now_s <= begin_s:
            return 0.0
        if not known:
            if columns.main[here] == here:
                return now_s - begin_s
            # A thread that was started: what its main thread did before.
            here = columns.main[here]
            call = first[here] + np.searchsorted(columns.enter_s[first[here] : first[here + 1]], now_s) - 1
            continue
        # In the call, back to what released it.
        arrival = columns.culprit[call]
        since_s = max(begin_s, min(columns.released_s[call], now_s))
        call_s[call] += now_s - since_s
        now_s = since_s
        if arrival >= 0:
            here = columns.location[arrival]
            call = arrival - 1
        else:
            call -= 1
    return max(now_s - begin_s, 0.0)
