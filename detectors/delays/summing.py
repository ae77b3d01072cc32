"""What culprits and members did in the stretches of each comparison, summed by target.

Sampling at 200 Hz does not resolve one 10 ms stretch. Over all instances with the same waiter, the same culprit and
the same places the sums do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scalana.detectors.delays.classes import Compared
from scalana.detectors.delays.forks import CarriedIn
from scalana.detectors.delays.join_waits import WorkByTarget
from scalana.detectors.delays.targets import Numbering
from scalana.graphs.arrays.compiled_loops import compiled
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


class InCalls(NamedTuple):
    """What time every call took, each ``[calls]``."""

    wait_s: FloatArray
    """Of waiting."""
    call_s: FloatArray
    """Of all."""
    instance: IntArray
    """What it waits for last, -1 for nothing."""


def sum_intervals(
    timeline: Timeline,
    inside: InCalls,
    work: WorkByTarget,
    compared: Compared,
    numbering: Numbering,
    carried: CarriedIn,
    at: slice,
) -> Sums:
    """Sum the stretches of the comparisons ``at``. Cost: linear in the rows of own work that the stretches cover."""
    calls, intervals, groups, runs = timeline.calls, compared.intervals, compared.groups, compared.runs
    return Sums(
        *_collect(
            (at.start, at.stop),
            _Runs(runs.first, runs.begins, runs.interval, runs.met_s),
            _Intervals(
                intervals.culprit, intervals.since_culprit, intervals.call, intervals.since_call, intervals.met_s
            ),
            _Calls(
                calls.enter_s, calls.exit_s, calls.location, calls.first, calls.vertex, groups.group_of_call, *inside
            ),
            _ByTarget(work.row_of_burst, work.target, work.seconds),
            _ByTarget(carried.first, carried.target, carried.seconds),
            _Targets(numbering.transfer, numbering.wait, numbering.wait + len(groups.group_wait_s)),
        )
    )


class _Runs(NamedTuple):
    """Those of :class:`~scalana.detectors.delays.classes.Runs`."""

    first: IntArray
    begins: IntArray
    interval: IntArray
    met_s: FloatArray


class _Intervals(NamedTuple):
    """Those of :class:`~scalana.detectors.delays.sync_intervals.SyncIntervals`."""

    culprit: IntArray
    since_culprit: IntArray
    call: IntArray
    since_call: IntArray
    met_s: FloatArray


class _Calls(NamedTuple):
    """Calls of the timeline, ``[calls]`` each."""

    enter_s: FloatArray
    exit_s: FloatArray
    location: IntArray
    first: IntArray
    """Start of each location's calls ``[locations + 1]``."""
    vertex: IntArray
    group: IntArray
    """Wait group, -1 where it did not wait."""
    wait_s: FloatArray
    call_s: FloatArray
    instance: IntArray


class _ByTarget(NamedTuple):
    """Seconds by target, of bursts or of locations."""

    first: IntArray
    """Start of each one's rows ``[bursts or locations + 1]``."""
    target: IntArray
    """``[rows]``"""
    seconds: FloatArray
    """``[rows]``"""


class _Targets(NamedTuple):
    """See :class:`~scalana.detectors.delays.targets.Numbering`."""

    transfer: int
    wait: int
    width: int
    """How many targets there are."""


@compiled
def _add(what, amount, scratch, touched, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add an amount to a target if it is above 0; returns how many were touched."""
    if amount > 0.0:
        if scratch[what] == 0.0:
            touched[count] = what
            count += 1
        scratch[what] += amount
    return count


@compiled
def _collect(at, runs, intervals, calls, work, carried, targets):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Sum the stretches of each run by target: own work, transfers, waits, and what was carried in where nothing was
    in common. What a member waited in earlier parts of the same wait is that wait, and nothing that it did besides."""
    low, high = at
    run_first, begins, interval, late_met_s = runs
    culprit, since_culprit, member, since_member, member_met_s = intervals
    enter_s, exit_s, location, first, vertex, group_of_call, wait_s, call_s, instance = calls
    row_of_burst, own_activity, own_s = work
    carried_first, carried_target, carried_s = carried
    transfer_base, wait_base, width = targets
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
                count = _add(np.int64(own_activity[own]), own_s[own], scratch, touched, count)
            for between in range(begin, call):
                if not of_culprit and instance[call] >= 0 and instance[call] == instance[between]:
                    continue
                transfer_s = call_s[between] - wait_s[between]
                count = _add(transfer_base + vertex[between], transfer_s, scratch, touched, count)
                count = _add(wait_base + group_of_call[between], wait_s[between], scratch, touched, count)
            if last < 0:
                for own in range(carried_first[location[call]], carried_first[location[call] + 1]):
                    count = _add(carried_target[own], carried_s[own], scratch, touched, count)
            else:
                # Of the last common operation, the part after both had come: who left it later was late from then on.
                met_s = late_met_s[row] if of_culprit else member_met_s[row]
                waited_until_s = min(enter_s[last] + wait_s[last], exit_s[last])
                before_s = waited_until_s - max(met_s, enter_s[last])
                if group_of_call[last] >= 0:
                    count = _add(wait_base + group_of_call[last], before_s, scratch, touched, count)
                transfer_s = exit_s[last] - max(met_s, waited_until_s)
                count = _add(transfer_base + vertex[last], transfer_s, scratch, touched, count)
        if used + count > capacity:
            capacity = max(2 * capacity, used + count)
            target, seconds = grown(target, capacity), grown(seconds, capacity)
        sort_values(touched[:count])
        for row in range(count):
            target[used] = touched[row]
            seconds[used] = scratch[touched[row]]
            scratch[touched[row]] = 0.0
            used += 1
        sum_first[run - start + 1] = used
    return sum_first, target[:used], seconds[:used]
