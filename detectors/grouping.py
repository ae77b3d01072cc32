"""Joining waits that are the same thing over and over, and summing what ranks did in their stretches.

Sampling at 200 Hz does not resolve one 10 ms stretch. Over all instances with the same waiter, the same culprit and
the same places the sums do, and because the culprit is part of the key, a fault that moves stays apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from scalana.detectors.segments import number_rows, quantile_by_key, sum_by_key, weighted_count
from scalana.detectors.stretches import Stretches
from scalana.detectors.targets import Numbering
from scalana.detectors.waits import WaitStates
from scalana.graphs.timeline import FloatArray, IntArray, Timeline


@dataclass(slots=True)
class Groups:
    """Two levels: a *comparison* (one culprit, all members), and inside it a *wait group* per waiter."""

    comparison: IntArray
    """Comparison of each row of :class:`Stretches` ``[rows]``."""
    comparison_culprit: IntArray
    """Culprit's location ``[comparisons]``."""
    comparison_vertex: IntArray
    """Vertex of the culprit's late call ``[comparisons]``."""
    comparison_count: IntArray
    """Instances joined ``[comparisons]``."""
    present_location: IntArray
    """Locations of the members of each comparison other than its culprit, in order; see ``present_first``."""
    present_first: IntArray
    """``[comparisons + 1]``"""
    wait_group: IntArray
    """Wait group of each row that waited, -1 for the others ``[rows]``."""
    group_comparison: IntArray
    """``[wait groups]``"""
    group_waiter: IntArray
    """Waiter's location ``[wait groups]``."""
    group_vertex: IntArray
    """Vertex of the call that waited ``[wait groups]``."""
    group_wait_s: FloatArray
    """Seconds waited ``[wait groups]``."""
    group_count: IntArray
    """Waits joined ``[wait groups]``."""
    group_of_call: IntArray
    """Wait group of each call of the timeline, -1 where it did not wait ``[calls]``."""


@dataclass(slots=True)
class Sums:
    """Seconds by (comparison, location, target), sorted by that key, each key once."""

    comparison: IntArray
    location: IntArray
    target: IntArray
    seconds: FloatArray


def group_waits(timeline: Timeline, stretches: Stretches) -> Groups:
    """Assign rows of ``stretches`` to comparisons and wait groups."""
    calls, instances = timeline.calls, timeline.instances
    culprit_location = calls.location[stretches.culprit]
    since_vertex = np.where(
        stretches.since_culprit >= 0, calls.vertex[np.maximum(stretches.since_culprit, 0)], np.int64(-1)
    )
    key = np.stack(
        [
            culprit_location,
            calls.vertex[stretches.culprit],
            instances.communicator[stretches.instance],
            since_vertex,
        ],
        axis=1,
    )
    place, _ = number_rows(key)
    event, _ = number_rows(np.stack([stretches.instance, stretches.culprit], axis=1))
    size_class = _size_classes(place, event, stretches.wait_s)
    comparison, chosen = number_rows(np.stack([place, size_class], axis=1))
    pairs = np.unique(np.stack([comparison, event], axis=1), axis=0) if len(event) else np.zeros((0, 2), np.int64)
    comparison_count = np.bincount(pairs[:, 0].astype(np.int64), minlength=len(chosen))

    present = np.unique(np.stack([comparison, calls.location[stretches.call]], axis=1), axis=0)

    waited = np.nonzero(stretches.wait_s > 0.0)[0]
    call = stretches.call[waited]
    group, first = number_rows(np.stack([comparison[waited], calls.location[call], calls.vertex[call]], axis=1))
    wait_group = np.full(len(stretches), -1, dtype=np.int64)
    wait_group[waited] = group
    group_of_call = np.full(len(calls), -1, dtype=np.int64)
    group_of_call[call] = group
    size = len(first)
    return Groups(
        comparison=comparison,
        comparison_culprit=culprit_location[chosen],
        comparison_vertex=calls.vertex[stretches.culprit[chosen]],
        comparison_count=comparison_count,
        present_location=present[:, 1],
        present_first=np.searchsorted(present[:, 0], np.arange(len(chosen) + 1)).astype(np.int64),
        wait_group=wait_group,
        group_comparison=comparison[waited][first],
        group_waiter=calls.location[call][first],
        group_vertex=calls.vertex[call][first],
        group_wait_s=weighted_count(group, stretches.wait_s[waited], size),
        group_count=np.bincount(group, minlength=size),
        group_of_call=group_of_call,
    )


def _size_classes(place: IntArray, event: IntArray, wait_s: FloatArray) -> IntArray:
    """Split the instances of a place where their waits differ much (a fault in every tenth step).

    Class 0 holds the waits above half of the place's 90th percentile, each further class those down to a quarter of
    the class before.
    """
    if not len(event):
        return np.zeros(0, dtype=np.int64)
    longest = np.zeros(int(event.max()) + 1)
    np.maximum.at(longest, event, wait_s)
    value = longest[event]
    _, reference = quantile_by_key(place, value, 0.9)
    ratio = np.maximum(reference[place], 1e-12) / np.maximum(value, 1e-12)
    return np.clip(np.floor(np.log(np.maximum(ratio, 1e-12)) / np.log(4.0) + 0.5), 0, 3).astype(np.int64)


def sum_stretches(
    timeline: Timeline, waits: WaitStates, stretches: Stretches, groups: Groups, numbering: Numbering
) -> Sums:
    """Sum what culprits and members did in the stretches of each comparison.

    The culprit's stretch is counted once per instance. Cost: linear in the rows of own work that the stretches cover.
    """
    calls = timeline.calls
    gaps = len(calls) + len(timeline.locations)
    own_first = np.searchsorted(timeline.own.gap, np.arange(gaps + 1)).astype(np.int64)
    carried = timeline.locations.start_s - timeline.locations.start_s.min(initial=np.inf)
    # One row of work per stretch: the members', and the culprit's once per (comparison, instance).
    event = np.stack([groups.comparison, stretches.instance, stretches.culprit, stretches.since_culprit], axis=1)
    distinct = np.unique(event, axis=0) if len(event) else np.zeros((0, 4), dtype=np.int64)
    comparison = np.concatenate([groups.comparison, distinct[:, 0]])
    end = np.concatenate([stretches.call, distinct[:, 2]])
    since = np.concatenate([stretches.since_call, distinct[:, 3]])
    width = numbering.wait + len(groups.group_wait_s)
    stretch, target, seconds = _collect(
        end,
        since,
        calls.location,
        calls.first,
        calls.vertex,
        np.maximum(calls.exit_s - calls.enter_s - waits.wait_s, 0.0),
        waits.wait_s,
        groups.group_of_call,
        own_first,
        timeline.own.activity,
        timeline.own.seconds,
        carried,
        numbering.transfer,
        numbering.carried_in,
        numbering.wait,
        width,
    )
    locations = max(len(timeline.locations), 1)
    key = (comparison[stretch] * locations + calls.location[end[stretch]]) * width + target
    keys, summed = sum_by_key(key, seconds)
    return Sums(keys // width // locations, keys // width % locations, keys % width, summed)


@numba.njit(cache=True)
def _collect(  # type: ignore[no-untyped-def]  # pragma: no cover
    end,
    since,
    location,
    first,
    vertex,
    transfer_s,
    wait_s,
    group_of_call,
    own_first,
    own_activity,
    own_s,
    carried_s,
    transfer_base,
    carried_in,
    wait_base,
    width,
):
    """Sum each stretch by target: own work, transfers, waits, and what was carried in where nothing was in common."""
    capacity = max(1024, 4 * len(end))
    stretch = np.empty(capacity, dtype=np.int64)
    target = np.empty(capacity, dtype=np.int64)
    seconds = np.empty(capacity, dtype=np.float64)
    used = 0
    scratch = np.zeros(width, dtype=np.float64)
    seen = np.zeros(width, dtype=np.bool_)
    touched = np.empty(width, dtype=np.int64)
    for row in range(len(end)):
        call = end[row]
        begin = since[row] + 1 if since[row] >= 0 else first[location[call]]
        count = 0
        for own in range(own_first[begin], own_first[call + 1]):
            what = own_activity[own]
            if not seen[what]:
                seen[what] = True
                touched[count] = what
                count += 1
            scratch[what] += own_s[own]
        for between in range(begin, call):
            what = transfer_base + vertex[between]
            if transfer_s[between] > 0.0:
                if not seen[what]:
                    seen[what] = True
                    touched[count] = what
                    count += 1
                scratch[what] += transfer_s[between]
            if wait_s[between] > 0.0:
                what = wait_base + group_of_call[between]
                if not seen[what]:
                    seen[what] = True
                    touched[count] = what
                    count += 1
                scratch[what] += wait_s[between]
        if since[row] < 0 and carried_s[location[call]] > 0.0:
            scratch[carried_in] = carried_s[location[call]]
            touched[count] = carried_in
            count += 1
        if used + count > capacity:
            grown = max(2 * capacity, used + count)
            stretch = np.concatenate((stretch, np.empty(grown - capacity, dtype=np.int64)))
            target = np.concatenate((target, np.empty(grown - capacity, dtype=np.int64)))
            seconds = np.concatenate((seconds, np.empty(grown - capacity, dtype=np.float64)))
            capacity = grown
        for t in range(count):
            stretch[used] = row
            target[used] = touched[t]
            seconds[used] = scratch[touched[t]]
            scratch[touched[t]] = 0.0
            seen[touched[t]] = False
            used += 1
    return stretch[:used], target[:used], seconds[:used]
