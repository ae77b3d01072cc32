"""Threads that rest while another one of their rank communicates, until it is done: a main thread that waits for those
of a pool, or that has left all communication to one thread.

What makes the other thread be done earlier makes such a rest shorter. Only a rest that is most of a thread's time is
looked at: shorter ones are divided over the threads that work in them (see :mod:`scalana.graphs.own_work`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.replay import Change, Replay
from scalana.detectors.segments import weighted_count
from scalana.graphs.metrics import gap_locations
from scalana.graphs.timeline import FloatArray, IntArray, Timeline

MOST = 0.5
"""Part of a location's time that a gap must take."""
AT_REST = 0.8
"""Part of a gap that must be neither work on a CPU nor waiting for one, or for a helper."""
SOON = 0.1
"""Part of a gap within which it must end when the other thread is done."""


@dataclass(slots=True)
class JoinedThreads:
    """Gaps in which a location rests until another one of its rank is done."""

    gap: IntArray
    """``[rests]``, ascending."""
    length_s: FloatArray
    """``[rests]``"""
    call: IntArray
    """The last call of the other location in it ``[rests]``."""

    def __len__(self) -> int:
        return len(self.gap)

    def shortened(self, change: Change, earlier_s: FloatArray) -> Change:
        """A change that shortens the rests, too, as far as calls end ``earlier_s`` with it ``[calls]``."""
        shorter = np.clip(earlier_s[self.call], 0.0, self.length_s)
        kept = ~np.isin(change.gap, self.gap)
        gap = np.concatenate((change.gap[kept], self.gap))
        removed_s = np.concatenate((change.removed_s[kept], shorter))
        order = np.argsort(gap, kind="stable")
        return Change(gap[order], removed_s[order], change.earlier_s, change.call, change.shorter_s)


def joined_threads(timeline: Timeline) -> JoinedThreads:
    """Find them. O(rows of own work) where ranks have several locations, and nothing else."""
    calls, locations, own = timeline.calls, timeline.locations, timeline.own
    none = np.zeros(0, dtype=np.int64)
    several = np.bincount(locations.rank, minlength=timeline.ranks) > 1
    if not several.any():
        return JoinedThreads(none, np.zeros(0), none)
    at_rest = np.where(timeline.activities.helper[own.activity], 0.0, own.seconds - own.cpu_s - own.core_wait_s)
    gaps = len(calls) + len(locations)
    length_s, rest_s = (weighted_count(own.gap, seconds, gaps) for seconds in (own.seconds, at_rest))
    location = gap_locations(timeline)
    span_s = (locations.end_s - locations.start_s)[location]
    wanted = (length_s >= MOST * span_s) & (rest_s >= AT_REST * length_s) & several[locations.rank[location]]
    found: list[tuple[int, float, int]] = []
    for gap in np.flatnonzero(wanted & (length_s > 0.0)).tolist():
        here = int(location[gap])
        until_s = float(calls.enter_s[gap]) if gap < len(calls) else float(locations.end_s[here])
        last, length = -1, float(length_s[gap])
        for other in np.flatnonzero(locations.rank == locations.rank[here]).tolist():
            ends = calls.exit_s[calls.first[other] : calls.first[other + 1]]
            before = int(np.searchsorted(ends, until_s, side="right")) - 1
            if other != here and before >= 0 and ends[before] >= until_s - SOON * length:
                call = int(calls.first[other]) + before
                last = call if last < 0 or calls.exit_s[call] > calls.exit_s[last] else last
        if last >= 0:
            found.append((gap, length, last))
    if not found:
        return JoinedThreads(none, np.zeros(0), none)
    return JoinedThreads(*(np.array(column) for column in zip(*found, strict=True)))


def with_joined_threads(changes: list[Change], timeline: Timeline, replay: Replay) -> list[Change]:
    """The same changes, with what they take from rests until other threads are done."""
    joined = joined_threads(timeline)
    if not len(joined):
        return changes
    _, exit_s, _ = replay.times_s(Change.of(np.zeros(len(timeline.calls) + len(timeline.locations))))
    return [joined.shortened(change, exit_s - replay.times_s(change)[1]) for change in changes]
