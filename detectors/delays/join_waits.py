"""Threads that rest while another one of their rank communicates, until it is done: a main thread that waits for those
of a pool, or that has left all communication to one thread.

What makes the other thread be done earlier makes such a rest shorter. Only a rest that is most of a thread's time is
looked at: shorter ones are divided over the threads that work in them (see :mod:`scalana.graphs.bursts.own_work`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.shares import EXPLAINED, MAJORITY, MINOR
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.timeline import Timeline


@dataclass(slots=True)
class JoinWaits(ColumnTable):
    """Bursts in which a location rests until another one of its rank is done."""

    burst: IntArray
    """``[rests]``, ascending."""
    length_s: FloatArray
    """How long it rests ``[rests]``."""
    call: IntArray
    """The last call of the other location in it ``[rests]``."""


def join_waits(timeline: Timeline) -> JoinWaits:
    """Find them. O(rows of own work) where ranks have several locations, and nothing else."""
    calls, locations, own = timeline.calls, timeline.locations, timeline.own
    none = np.zeros(0, dtype=np.int64)
    several = np.bincount(locations.rank, minlength=timeline.ranks) > 1
    if not several.any():
        return JoinWaits(none, np.zeros(0), none)
    helped = timeline.activities.helper[own.activity] & ~_own_work_beside(timeline, several)
    at_rest = np.where(helped, 0.0, own.seconds - own.cpu_s - own.core_wait_s)
    bursts = len(calls) + len(locations)
    length_s, rest_s = (weighted_count(own.burst, seconds, bursts) for seconds in (own.seconds, at_rest))
    location = burst_locations(timeline)
    span_s = (locations.end_s - locations.start_s)[location]
    wanted = (length_s >= MAJORITY * span_s) & (rest_s >= MAJORITY * length_s) & several[locations.rank[location]]
    found: list[tuple[int, float, int]] = []
    for burst in np.flatnonzero(wanted & (length_s > 0.0)).tolist():
        here = int(location[burst])
        until_s = float(calls.enter_s[burst]) if burst < len(calls) else float(locations.end_s[here])
        last, length = -1, float(length_s[burst])
        for other in np.flatnonzero(locations.rank == locations.rank[here]).tolist():
            ends = calls.exit_s[calls.first[other] : calls.first[other + 1]]
            before = int(np.searchsorted(ends, until_s, side="right")) - 1
            if other != here and before >= 0 and ends[before] >= until_s - MINOR * length:
                call = int(calls.first[other]) + before
                last = call if last < 0 or calls.exit_s[call] > calls.exit_s[last] else last
        if last >= 0:
            found.append((burst, float(rest_s[burst]), last))
    if not found:
        return JoinWaits(none, np.zeros(0), none)
    return JoinWaits(*(np.array(column) for column in zip(*found, strict=True)))


def _own_work_beside(timeline: Timeline, several: BoolArray) -> BoolArray:
    """Rows of helpers at places where a location of the same rank works itself: a thread that communicates, and whose
    own rows say what it does. ``several`` says which ranks have more than one ``[ranks]``."""
    own, activities = timeline.own, timeline.activities
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst]]
    rows = np.flatnonzero(several[rank])
    place = number_columns(activities.vertex, activities.line)[0][own.activity[rows]]
    key = rank[rows] * (len(activities.vertex) + 1) + place
    helper = activities.helper[own.activity[rows]]
    result = np.zeros(len(own.burst), np.bool_)
    result[rows[helper & np.isin(key, key[~helper])]] = True
    return result


@dataclass(slots=True)
class WorkByTarget:
    """Own work by burst, with what rests were for in their place."""

    row_of_burst: IntArray
    """Start of the rows of every burst ``[bursts + 1]``."""
    target: IntArray
    """``[rows]``"""
    seconds: FloatArray
    """``[rows]``"""


def work_by_target(
    timeline: Timeline,
    row_of_burst: IntArray,
    wait_s: FloatArray,
    call_s: FloatArray,
    group_of_call: IntArray,
    transfer: int,
    wait: int,
) -> WorkByTarget:
    """Who rests until another thread of its rank is done is late with what that one did meanwhile, and waited for.

    ``wait_s`` and ``call_s`` are the seconds of waiting, and of all, in every call, ``group_of_call`` their wait groups
    ``[calls]``; ``transfer`` and ``wait`` the first numbers of such targets.
    """
    own, calls = timeline.own, timeline.calls
    joined = join_waits(timeline)
    if not len(joined):
        return WorkByTarget(row_of_burst, own.activity, own.seconds)
    targets, seconds = [], []
    size, done = np.diff(row_of_burst), 0
    for burst, last in zip(joined.burst.tolist(), joined.call.tolist(), strict=True):
        rows = np.arange(row_of_burst[burst], row_of_burst[burst + 1])
        rests = own.cpu_s[rows] + own.core_wait_s[rows] <= (1.0 - EXPLAINED) * own.seconds[rows]
        other, begin_s = int(calls.location[last]), _begin_s(burst, timeline)
        first = int(calls.first[other])
        first += int(np.searchsorted(calls.enter_s[first : last + 1], begin_s))
        inside = np.arange(first, last + 1)
        of_other = np.arange(row_of_burst[first], row_of_burst[last + 1])
        waits = inside[wait_s[inside] > 0.0]
        what = np.concatenate((own.activity[of_other], transfer + calls.vertex[inside], wait + group_of_call[waits]))
        long_s = np.concatenate((own.seconds[of_other], (call_s - wait_s)[inside], wait_s[waits]))
        part = min(1.0, float(own.seconds[rows[rests]].sum()) / max(float(long_s.sum()), 1e-300))
        targets += [own.activity[done : rows[0]], own.activity[rows[~rests]], what]
        seconds += [own.seconds[done : rows[0]], own.seconds[rows[~rests]], part * long_s]
        size[burst] = len(rows) - int(rests.sum()) + len(what)
        done = int(row_of_burst[burst + 1])
    targets.append(own.activity[done:])
    seconds.append(own.seconds[done:])
    first_row = np.concatenate(([0], np.cumsum(size))).astype(row_of_burst.dtype)
    return WorkByTarget(first_row, np.concatenate(targets).astype(own.activity.dtype), np.concatenate(seconds))


def _begin_s(burst: int, timeline: Timeline) -> float:
    calls, locations = timeline.calls, timeline.locations
    location = burst - len(calls) if burst >= len(calls) else int(calls.location[burst])
    before = int(calls.first[location + 1]) - 1 if burst >= len(calls) else burst - 1
    return float(calls.exit_s[before] if before >= calls.first[location] else locations.start_s[location])
