"""The run on an ideal network: transfers take no time, and everybody still waits for what they wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.types import FloatArray


@dataclass(frozen=True, slots=True)
class IdealNetwork:
    """When everything happens there."""

    enter_s: FloatArray
    """Entry of every call ``[calls]``."""
    exit_s: FloatArray
    """Exit of every call ``[calls]``."""
    end_s: FloatArray
    """End of every location ``[locations]``."""


def ideal_network_change(replay: Replay) -> Change:
    """What goes from a run on an ideal network: all that is no waiting in calls, those that were not written
    included."""
    calls, unwritten = replay.timeline.calls, replay.timeline.unwritten
    removed_s = np.zeros(len(replay.burst_s))
    if unwritten is not None:
        waiting_s = replay.waiting_s if replay.waiting_s is not None else np.zeros(len(removed_s))
        removed_s = np.maximum(unwritten.burst_s - waiting_s, 0.0)
    return Change.of(removed_s, None, calls.exit_s - calls.enter_s)


def ideal_network(replay: Replay) -> IdealNetwork:
    """Replay a run on an ideal network: one pass over its calls."""
    return IdealNetwork(*replay.times_s(ideal_network_change(replay)))
