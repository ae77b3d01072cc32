"""What culprits and members did in the stretches of each comparison, summed by target.

Sampling at 200 Hz does not resolve one 10 ms stretch. Over all instances with the same waiter, the same culprit and
the same places the sums do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from scalana.detectors.delays.classes import Groups, Runs
from scalana.detectors.delays.forks import CarriedIn
from scalana.detectors.delays.join_waits import WorkByTarget
from scalana.detectors.delays.sync_intervals import SyncIntervals
from scalana.detectors.delays.targets import Numbering
from scalana.graphs.arrays.segments import grown, sort_values
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline


@dataclass(slots=True)
class Sums:
    """Seconds by target, sorted, of the runs of some comparisons, see
    :class:`~scalana.detectors.delays.classes.Runs`."""

    first: IntArray
    """Start of each run's rows ``[runs + 1]``."""
    target: IntArray
    """``[rows]``"""
    seconds: FloatArray
    """``[rows]``"""


def sum_intervals(
    timeline: Timeline,
    wait_s: FloatArray,
    instance: IntArray,
    call_s: FloatArray,
    work: WorkByTarget,
    intervals: SyncIntervals,
    groups: Groups,
    runs: Runs,
    numbering: Numbering,
    carried: CarriedIn,
    at: slice,
) -> Sums:
    """Sum the stretches of the comparisons ``at``. Cost: linear in the rows of own work that the stretches cover.

    ``wait_s`` and ``call_s`` are the seconds of waiting, and of all, in every call, ``instance`` what it waits for
    last, -1 for nothing, each ``[calls]``.
    """
    calls = timeline.calls
    return Sums(
        *_collect(
            at.start,
            at.stop,
            runs.first,
            runs.begins,
            runs.interval,
            intervals.culprit,
            intervals.since_culprit,
            runs.met_s,
            intervals.call,
            intervals.since_call,
            intervals.met_s,
            calls.enter_s,
            calls.exit_s,
            call_s,
            calls.location,
            calls.first,
            calls.vertex,
            wait_s,
            instance,
            groups.group_of_call,
            work.row_of_burst,
            work.target,
            work.seconds,
            carried.first,
            carried.target,
            carried.seconds,
            numbering.transfer,
            numbering.wait,
            numbering.wait + len(groups.group_wait_s),
        )
    )


@numba.njit(cache=True, nogil=True)
def _add(what, amount, scratch, touched, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add an amount above 0 to a target; returns how many were touched."""
    if scratch[what] == 0.0:
        touched[count] = what
        count += 1
    scratch[what] += amount
    return count


@numba.njit(cache=True, nogil=True)
def _collect(  # type: ignore[no-untyped-def]  # pragma: no cover
    low,
    high,
    run_first,
    begins,
    interval,
    culprit,
    since_culprit,
    late_met_s,
    member,
    since_member,
    member_met_s,
    enter_s,
    exit_s,
    call_s,
    location,
    first,
    vertex,
    wait_s,
    instance,
    group_of_call,
    row_of_burst,
    own_activity,
    own_s,
    carried_first,
    carried_target,
    carried_s,
    transfer_base,
    wait_base,
    width,
):
    """Sum the stretches of each run by target: own work, transfers, waits, and what was carried in where nothing was
    in common. What a member waited in earlier parts of the same wait is that wait, and nothing that it did besides."""
    start, end = run_first[low], run_first[high]
    sum_first = np.zeros(end - start + 1, np.int64)
    capacity = max(1024, 4 * (begins[end] - begins[start]))
    target = np.empty(capacity, interval.dtype)
    seconds = np.empty(capacity, np.float64)
    used = 0
    scratch = np.zeros(width, np.float64)
    touched = np.empty(width, interval.dtype)
    comparison = low
    for run in range(start, end):
        while run_first[comparison + 1] <= run:
            comparison += 1
        of_culprit = run == run_first[comparison]
        count = np.int64(0)  # of the type that it has later, that one version of _add will do
        for place in range(begins[run], begins[run + 1]):
            row = interval[place]
            call = culprit[row] if of_culprit else member[row]
            last = since_culprit[row] if of_culprit else since_member[row]
            begin = last + 1 if last >= 0 else first[location[call]]
            for own in range(row_of_burst[begin], row_of_burst[call + 1]):
                if own_s[own] > 0.0:
                    count = _add(np.int64(own_activity[own]), own_s[own], scratch, touched, count)
            for between in range(begin, call):
                if not of_culprit and instance[call] >= 0 and instance[call] == instance[between]:
                    continue
                transfer_s = call_s[between] - wait_s[between]
                if transfer_s > 0.0:
                    count = _add(transfer_base + vertex[between], transfer_s, scratch, touched, count)
                if wait_s[between] > 0.0:
                    count = _add(wait_base + group_of_call[between], wait_s[between], scratch, touched, count)
            if last < 0:
                for carried in range(carried_first[location[call]], carried_first[location[call] + 1]):
                    if carried_s[carried] > 0.0:
                        count = _add(carried_target[carried], carried_s[carried], scratch, touched, count)
            else:
                # Of the last common operation, the part after both had come: who left it later was late from then on.
                met_s = late_met_s[row] if of_culprit else member_met_s[row]
                waited_until_s = min(enter_s[last] + wait_s[last], exit_s[last])
                before_s = waited_until_s - max(met_s, enter_s[last])
                if before_s > 0.0 and group_of_call[last] >= 0:
                    count = _add(wait_base + group_of_call[last], before_s, scratch, touched, count)
                transfer_s = exit_s[last] - max(met_s, waited_until_s)
                if transfer_s > 0.0:
                    count = _add(transfer_base + vertex[last], transfer_s, scratch, touched, count)
        if used + count > capacity:
            capacity = max(2 * capacity, used + count)
            target, seconds = grown(target, capacity), grown(seconds, capacity)
        sort_values(touched[:count])
        for at in range(count):
            target[used] = touched[at]
            seconds[used] = scratch[touched[at]]
            scratch[touched[at]] = 0.0
            used += 1
        sum_first[run - start + 1] = used
    return sum_first, target[:used], seconds[:used]
