"""Rests until other threads of a rank are done, which get shorter with what makes these be done earlier."""

from __future__ import annotations

import numpy as np

from scalana.detectors.delays.join_waits import JoinedThreads, joined_threads
from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.timeline import Timeline


def with_joined_threads(changes: list[Change], timeline: Timeline, replay: Replay) -> list[Change]:
    """The same changes, with what they take from rests until other threads are done."""
    joined = joined_threads(timeline)
    if not len(joined):
        return changes
    _, exit_s, _ = replay.times_s(Change.of(np.zeros(len(timeline.calls) + len(timeline.locations))))
    return [shortened(joined, change, exit_s - replay.times_s(change)[1]) for change in changes]


def shortened(joined: JoinedThreads, change: Change, earlier_s: FloatArray) -> Change:
    """A change that shortens the rests, too, as far as calls end ``earlier_s`` with it ``[calls]``."""
    shorter = np.clip(earlier_s[joined.call], 0.0, joined.length_s)
    kept = ~np.isin(change.gap, joined.gap)
    gap = np.concatenate((change.gap[kept], joined.gap))
    removed_s = np.concatenate((change.removed_s[kept], shorter))
    order = np.argsort(gap, kind="stable")
    return Change(gap[order], removed_s[order], change.earlier_s, change.call, change.shorter_s)
