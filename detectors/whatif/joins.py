"""Rests until other threads of a rank are done, which get shorter with what makes these be done earlier."""

from __future__ import annotations

import numpy as np

from scalana.detectors.delays.join_waits import JoinWaits, join_waits
from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.timeline import Timeline


def with_join_waits(changes: list[Change], timeline: Timeline, replay: Replay) -> list[Change]:
    """The same changes, with what they take from rests until other threads are done."""
    joined = join_waits(timeline)
    if not len(joined):
        return changes
    _, exit_s, _ = replay.times_s(Change.of(np.zeros(len(timeline.calls) + len(timeline.locations))))
    return [shortened(joined, change, exit_s - replay.times_s(change)[1]) for change in changes]


def shortened(joined: JoinWaits, change: Change, earlier_s: FloatArray) -> Change:
    """A change that shortens the rests, too, as far as calls end ``earlier_s`` with it ``[calls]``."""
    shorter = np.clip(earlier_s[joined.call], 0.0, joined.length_s)
    kept = ~np.isin(change.burst, joined.burst)
    burst = np.concatenate((change.burst[kept], joined.burst))
    removed_s = np.concatenate((change.removed_s[kept], shorter))
    order = np.argsort(burst, kind="stable")
    return Change(burst[order], removed_s[order], change.earlier_s, change.call, change.shorter_s)
