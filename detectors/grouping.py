"""Joining waits that are the same thing over and over, and summing what ranks did in their stretches.

Sampling at 200 Hz does not resolve one 10 ms stretch. Over all instances with the same waiter, the same culprit and
the same places the sums do, and because the culprit is part of the key, a fault that moves stays apart.

Where many wait for one culprit, they are one group: what they did is known well enough from some of them, and the cost
stays proportional to the calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from scalana.detectors.segments import grown, quantile_by_key, sort_values, weighted_count
from scalana.detectors.stretches import Stretches
from scalana.detectors.targets import Numbering
from scalana.detectors.waits import WaitStates
from scalana.graphs.hashing import number_columns, ordered
from scalana.graphs.metrics import own_first
from scalana.graphs.portions import chunks, each
from scalana.graphs.tables import concatenate
from scalana.graphs.timeline import FloatArray, IntArray, Timeline

POOLED = 48
"""Waiters of one comparison above which they are one group."""
SAMPLED = 24
"""Of so many waiters, and as many members that did not wait, those whose stretches are looked at."""


@dataclass(slots=True)
class Groups:
    """Two levels: a *comparison* (one culprit, all members), and inside it a *wait group* per waiter, or one for all
    waiters where they are many."""

    comparison: IntArray
    """Comparison of each row of :class:`Stretches` ``[rows]``."""
    sampled: np.ndarray
    """Whether the stretch of a row is looked at: all are, but for those of pooled comparisons ``[rows]``."""
    comparison_culprit: IntArray
    """Culprit's location ``[comparisons]``."""
    comparison_vertex: IntArray
    """Vertex of the culprit's late call ``[comparisons]``."""
    comparison_count: IntArray
    """Instances joined ``[comparisons]``."""
    present_location: IntArray
    """Locations, of sampled rows, of the members of each comparison other than its culprit, in order; see
    ``present_first``."""
    present_waits: np.ndarray
    """Whether that location waited in any of the comparison's instances."""
    present_first: IntArray
    """``[comparisons + 1]``"""
    wait_group: IntArray
    """Wait group of each row that waited, -1 for the others ``[rows]``."""
    group_comparison: IntArray
    """``[wait groups]``, ascending"""
    group_waiter: IntArray
    """Waiter's location; of a pool, one that waited longest ``[wait groups]``."""
    group_waiters: IntArray
    """Waiters that a group stands for: 1, or all those of its comparison ``[wait groups]``."""
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
    since_vertex = np.where(
        stretches.since_culprit >= 0, calls.vertex[np.maximum(stretches.since_culprit, 0)], np.int64(-1)
    )
    place, _ = number_columns(
        calls.location[stretches.culprit],
        calls.vertex[stretches.culprit],
        instances.communicator[stretches.instance],
        since_vertex,
    )
    event, _ = number_columns(stretches.instance, stretches.culprit)
    comparison, chosen = number_columns(place, _size_classes(place, event, stretches.wait_s))
    location = calls.location[stretches.call]
    size = np.bincount(comparison, minlength=len(chosen))
    waited = stretches.wait_s > 0.0
    row_first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    sampled, pooled, count, present, present_waits, present_first = _sample(
        ordered(comparison, len(chosen)),
        row_first,
        location,
        waited,
        event,
        len(timeline.locations),
        int(event.max(initial=-1)) + 1,
        POOLED,
        SAMPLED,
    )
    waiting = np.nonzero(waited)[0]
    call = stretches.call[waiting]
    waiter = np.where(pooled[comparison[waiting]] > 0, -1, location[waiting])
    group, first = number_columns(comparison[waiting], waiter, calls.vertex[call])
    seconds = stretches.wait_s[waiting]
    length = len(first)
    # Of a pool, the row that waited longest.
    longest = _largest(group, seconds, length)
    wait_group = np.full(len(stretches), -1, dtype=np.int64)
    wait_group[waiting] = group
    group_of_call = np.full(len(calls), -1, dtype=np.int64)
    group_of_call[call] = group
    return Groups(
        comparison=comparison,
        sampled=sampled,
        comparison_culprit=calls.location[stretches.culprit[chosen]],
        comparison_vertex=calls.vertex[stretches.culprit[chosen]],
        comparison_count=count,
        present_location=present,
        present_waits=present_waits,
        present_first=present_first,
        wait_group=wait_group,
        group_comparison=comparison[waiting][first],
        group_waiter=location[waiting][longest],
        group_waiters=np.maximum(pooled[comparison[waiting][first]], 1),
        group_vertex=calls.vertex[call][first],
        group_wait_s=weighted_count(group, seconds, length),
        group_count=np.bincount(group, minlength=length),
        group_of_call=group_of_call,
    )


@numba.njit(cache=True)
def _largest(number, value, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The first row with the largest value of every number."""
    result = np.full(length, -1, dtype=np.int64)
    for row in range(len(number)):
        best = result[number[row]]
        if best < 0 or value[row] > value[best]:
            result[number[row]] = row
    return result


@numba.njit(cache=True)
def _sample(order, first, location, waited, event, locations, events, most, wanted):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Choose the members of each comparison whose stretches are looked at.

    ``order`` holds the rows of comparison ``c`` in ``first[c]:first[c + 1]``. A location is chosen with all its rows.
    Returns, among others, how many waiters of each comparison are pooled (0: none).
    """
    comparisons = len(first) - 1
    sampled = np.ones(len(order), dtype=np.bool_)
    pooled = np.zeros(comparisons, dtype=np.int64)
    count = np.zeros(comparisons, dtype=np.int64)
    present = np.empty(len(order), dtype=np.int64)
    present_waits = np.zeros(len(order), dtype=np.bool_)
    present_first = np.zeros(comparisons + 1, dtype=np.int64)
    seen_event = np.full(events, -1, dtype=np.int64)
    seen = np.full(locations, -1, dtype=np.int64)
    waits = np.zeros(locations, dtype=np.bool_)
    chosen = np.zeros(locations, dtype=np.bool_)
    used = 0
    for comparison in range(comparisons):
        begin = used
        for at in range(first[comparison], first[comparison + 1]):
            row = order[at]
            here = location[row]
            if seen_event[event[row]] != comparison:
                seen_event[event[row]] = comparison
                count[comparison] += 1
            if seen[here] != comparison:
                seen[here] = comparison
                waits[here] = False
                chosen[here] = True
                present[used] = here
                used += 1
            waits[here] |= waited[row]
        sort_values(present[begin:used])
        waiters = 0
        for at in range(begin, used):
            waiters += waits[present[at]]
        others = used - begin - waiters
        pooled[comparison] = waiters if waiters > most else 0
        if waiters > most or others > most:
            stride = (waiters + wanted - 1) // wanted if waiters > most else 1
            other_stride = (others + wanted - 1) // wanted if others > most else 1
            number = 0
            other_number = 0
            for at in range(begin, used):
                here = present[at]
                if waits[here]:
                    chosen[here] = number % stride == 0
                    number += 1
                else:
                    chosen[here] = other_number % other_stride == 0
                    other_number += 1
            for at in range(first[comparison], first[comparison + 1]):
                sampled[order[at]] = chosen[location[order[at]]]
            kept = begin
            for at in range(begin, used):
                if chosen[present[at]]:
                    present[kept] = present[at]
                    kept += 1
            used = kept
        for at in range(begin, used):
            present_waits[at] = waits[present[at]]
        present_first[comparison + 1] = used
    return sampled, pooled, count, present[:used].copy(), present_waits[:used].copy(), present_first


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
    carried = timeline.locations.start_s - timeline.locations.start_s.min(initial=np.inf)
    # One row of work per stretch: the members', and the culprit's once per (comparison, instance).
    rows = np.flatnonzero(groups.sampled)
    number, first = number_columns(
        groups.comparison[rows], stretches.instance[rows], stretches.culprit[rows], stretches.since_culprit[rows]
    )
    late = rows[first]
    late_met_s = np.full(len(late), np.inf)
    np.minimum.at(late_met_s, number, stretches.met_s[rows])
    comparison = np.concatenate([groups.comparison[rows], groups.comparison[late]])
    end = np.concatenate([stretches.call[rows], stretches.culprit[late]])
    since = np.concatenate([stretches.since_call[rows], stretches.since_culprit[late]])
    run, _ = number_columns(comparison, calls.location[end])
    count = int(run.max(initial=-1)) + 1
    order = ordered(run, count)
    met_s = np.concatenate([stretches.met_s[rows], late_met_s])
    transfer_s = np.maximum(calls.exit_s - calls.enter_s - waits.wait_s, 0.0)
    row_of_gap = own_first(timeline)

    def collect(at: slice) -> Sums:
        """The sums of some rows of ``order``, which hold whole runs."""
        return Sums(
            *_collect(
                order[at],
                run,
                comparison,
                end,
                since,
                met_s,
                calls.enter_s,
                calls.location,
                calls.first,
                calls.vertex,
                transfer_s,
                waits.wait_s,
                groups.group_of_call,
                row_of_gap,
                timeline.own.activity,
                timeline.own.seconds,
                carried,
                numbering.transfer,
                numbering.carried_in,
                numbering.wait,
                numbering.wait + len(groups.group_wait_s),
            )
        )

    # A run is all that is after each other in ``order`` with one number.
    sizes = np.concatenate(([0], np.cumsum(np.bincount(run, minlength=count)))).tolist()
    return concatenate(
        each(collect, (slice(sizes[at.start], sizes[at.stop]) for at in chunks(count, max(count // 8, 256)))), Sums
    )


@numba.njit(cache=True, nogil=True)
def _collect(  # type: ignore[no-untyped-def]  # pragma: no cover
    order,
    run,
    comparison,
    end,
    since,
    met_s,
    enter_s,
    location,
    first,
    vertex,
    transfer_s,
    wait_s,
    group_of_call,
    row_of_gap,
    own_activity,
    own_s,
    carried_s,
    transfer_base,
    carried_in,
    wait_base,
    width,
):
    """Sum the stretches of each run by target: own work, transfers, waits, and what was carried in where nothing was
    in common. The stretches of a run are neighbours in ``order``."""
    capacity = max(1024, 4 * len(order))
    of_comparison = np.empty(capacity, dtype=np.int64)
    of_location = np.empty(capacity, dtype=np.int64)
    target = np.empty(capacity, dtype=np.int64)
    seconds = np.empty(capacity, dtype=np.float64)
    used = 0
    scratch = np.zeros(width, dtype=np.float64)
    seen = np.zeros(width, dtype=np.bool_)
    touched = np.empty(width, dtype=np.int64)
    count = 0
    for place in range(len(order)):
        row = order[place]
        call = end[row]
        begin = since[row] + 1 if since[row] >= 0 else first[location[call]]
        for own in range(row_of_gap[begin], row_of_gap[call + 1]):
            what = own_activity[own]
            if not seen[what]:
                seen[what] = True
                touched[count] = what
                count += 1
            scratch[what] += own_s[own]
        for between in range(begin, call):
            if transfer_s[between] > 0.0:
                what = transfer_base + vertex[between]
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
        last = since[row]
        if last >= 0 and group_of_call[last] >= 0:
            # Of what was waited in the last common operation, the part after both had come.
            still_s = enter_s[last] + wait_s[last] - max(met_s[row], enter_s[last])
            if still_s > 0.0:
                what = wait_base + group_of_call[last]
                if not seen[what]:
                    seen[what] = True
                    touched[count] = what
                    count += 1
                scratch[what] += still_s
        if since[row] < 0 and carried_s[location[call]] > 0.0:
            if not seen[carried_in]:
                seen[carried_in] = True
                touched[count] = carried_in
                count += 1
            scratch[carried_in] += carried_s[location[call]]
        if place + 1 < len(order) and run[order[place + 1]] == run[row]:
            continue
        if used + count > capacity:
            size = max(2 * capacity, used + count)
            of_comparison = grown(of_comparison, size)
            of_location = grown(of_location, size)
            target = grown(target, size)
            seconds = grown(seconds, size)
            capacity = size
        sort_values(touched[:count])
        for t in range(count):
            what = touched[t]
            of_comparison[used] = comparison[row]
            of_location[used] = location[call]
            target[used] = what
            seconds[used] = scratch[what]
            scratch[what] = 0.0
            seen[what] = False
            used += 1
        count = 0
    return of_comparison[:used], of_location[:used], target[:used], seconds[:used]
