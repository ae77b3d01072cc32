"""What one process does between phases with what it got from others, before it hands it out: a driver's own work."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME

_GOT = np.array([BY_NAME[name].code for name in ("result", "get")])
_GOT_AT_ROOT = np.array([BY_NAME[name].code for name in ("gather", "reduce")])
_GIVES = np.array([BY_NAME[name].code for name in ("submit", "put", "send", "blocking_send")])
_GIVES_AS_ROOT = np.array([BY_NAME[name].code for name in ("scatter", "broadcast")])


def handled(timeline: Timeline, location: int, outside: BoolArray) -> IntArray:
    """Calls by which a location hands out what it got by the call right before, both outside of phases ``[calls]``.

    ``outside``: of each of its calls whether it is made outside of phases ``[calls of the location]``.
    """
    calls, instances = timeline.calls, timeline.instances
    first, end = (int(each) for each in calls.first[location : location + 2])
    at = np.arange(first, end)
    operation, posts = calls.operation[at], calls.posts[at].astype(np.int64)
    root = np.append(instances.root, -1)[posts]
    is_root = (posts >= 0) & (root == timeline.locations.rank[location])
    got = np.isin(operation, _GOT) | (np.isin(operation, _GOT_AT_ROOT) & is_root)
    gives = np.isin(operation, _GIVES) | (np.isin(operation, _GIVES_AS_ROOT) & is_root)
    both = got[:-1] & gives[1:] & outside[:-1] & outside[1:]
    return at[1:][both]


def place_of(timeline: Timeline, handed: IntArray) -> tuple[int, int, float]:
    """Vertex and line of what most of the time before some calls was spent on, and how much all of it is; -1 and 0
    where nothing was sampled."""
    calls, own = timeline.calls, timeline.own
    seconds: FloatArray = calls.enter_s[handed] - calls.exit_s[np.maximum(handed - 1, 0)]
    rows = np.flatnonzero(np.isin(own.burst, handed))
    if not len(rows):
        return -1, 0, float(seconds.sum())
    most = int(np.bincount(own.activity[rows].astype(np.int64), own.seconds[rows]).argmax())
    activities = timeline.activities
    return int(activities.vertex[most]), int(activities.line[most]), float(seconds.sum())
