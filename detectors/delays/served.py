"""Threads that do but what others call them for: of a server of remote procedure calls, or of an actor.

Such a thread that has nothing to do is none in which its process waits, and its time is none of its process' either: a
server has as many of them as it pleases.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import BoolArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME, GIVING, TAKING

_TAKE = BY_NAME["take"].code


def served_threads(timeline: Timeline) -> BoolArray:
    """Which locations are such threads: none of main threads ``[locations]``."""
    return serving_threads(timeline) & ~timeline.locations.is_main


def serving_threads(timeline: Timeline) -> BoolArray:
    """The same with main threads that do no more than that beside others which do it, too ``[locations]``."""
    if timeline.locations.is_main.all():
        return np.zeros(len(timeline.locations.is_main), dtype=bool)
    calls, locations = timeline.calls, timeline.locations
    count = len(locations)
    takes = np.bincount(calls.location[calls.operation == _TAKE], minlength=count) > 0
    if not takes.any():
        return takes
    other = np.bincount(calls.location[~np.isin(calls.operation, (*GIVING, *TAKING))], minlength=count) > 0
    serving = takes & ~other
    beside = np.bincount(locations.rank[serving & ~locations.is_main], minlength=timeline.ranks) > 0
    return np.asarray(serving & (beside[locations.rank] | ~locations.is_main))


def all_recorded_s(timeline: Timeline) -> float:
    """Seconds that the record holds of all other threads that communicate, and of main threads."""
    return recorded_s(timeline, -np.inf, np.inf)


def recorded_s(timeline: Timeline, begin_s: float, end_s: float) -> float:
    """The same from ``begin_s`` to ``end_s``."""
    locations = timeline.locations
    inside_s = np.minimum(locations.end_s, end_s) - np.maximum(locations.start_s, begin_s)
    return float(np.maximum(inside_s, 0.0)[~served_threads(timeline)].sum())
