"""Joining waits that are the same thing over and over, and choosing the stretches that are looked at for them.

Sampling at 200 Hz does not resolve one 10 ms stretch. Over all instances with the same waiter, the same culprit and
the same places the sums do, and because the culprit is part of the key, a fault that moves stays apart.

Where many wait for one culprit, they are one group: what they did is known well enough from some of them, and the cost
stays proportional to the calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from scalana.detectors.segments import portions_of, quantile_by_key, sort_values, weighted_count
from scalana.detectors.stretches import Stretches
from scalana.graphs.hashing import number_columns, ordered
from scalana.graphs.portions import each
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
    """Comparison of each lateness ``[latenesses]``."""
    sampled: npt.NDArray[np.bool_]
    """Whether the stretch of a row is looked at: all are, but for those of pooled comparisons ``[rows]``."""
    comparison_culprit: IntArray
    """Culprit's location ``[comparisons]``."""
    comparison_vertex: IntArray
    """Vertex of the culprit's late call ``[comparisons]``."""
    comparison_count: IntArray
    """Instances joined ``[comparisons]``."""
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
    group_operation: IntArray
    """Code of the operation that it waited in; of a completion, that of what it completed ``[wait groups]``."""
    group_wait_s: FloatArray
    """Seconds waited, also in calls that others stand for ``[wait groups]``."""
    group_seen_s: FloatArray
    """Seconds waited in written calls alone, which their stretches are to explain ``[wait groups]``."""
    group_count: IntArray
    """Waits joined ``[wait groups]``."""
    group_of_call: IntArray
    """Wait group of each call of the timeline, -1 where it did not wait ``[calls]``."""


@dataclass(slots=True)
class Runs:
    """The stretches that are looked at, those of one location in one comparison after each other.

    Of every comparison the culprit's run comes first, then those of its members, by location.
    """

    first: IntArray
    """Start of each comparison's runs ``[comparisons + 1]``."""
    location: IntArray
    """``[runs]``"""
    waits: npt.NDArray[np.bool_]
    """Whether that location waited in any of the comparison's instances ``[runs]``."""
    begins: IntArray
    """Start of each run's stretches ``[runs + 1]``."""
    stretch: IntArray
    """Row of a member's stretch; of the culprit's, its lateness ``[stretches looked at]``."""
    met_s: FloatArray
    """Of a culprit's stretch, when it met the first of the members that are looked at ``[latenesses]``."""


def group_waits(timeline: Timeline, stretches: Stretches) -> tuple[Groups, Runs]:
    """Assign rows of ``stretches`` to comparisons and wait groups, and choose those that are looked at."""
    calls, instances = timeline.calls, timeline.instances
    culprit, since = stretches.culprit, stretches.since_culprit
    place, _ = number_columns(
        calls.location[culprit],
        calls.vertex[culprit],
        instances.communicator[stretches.instance],
        np.where(since >= 0, calls.vertex[np.maximum(since, 0)], np.int64(-1)),
    )
    comparison, chosen = number_columns(place, _size_classes(place, stretches))
    culprit = culprit[chosen]
    sampled, pooled, count, runs = _choose(timeline, stretches, comparison, calls.location[culprit])
    waiting = np.flatnonzero(stretches.wait_s > 0.0)
    call, seconds = stretches.call[waiting], stretches.wait_s[waiting]
    all_s = seconds if timeline.unwritten is None else seconds * timeline.unwritten.stands_for[call]
    of_waiting = np.repeat(comparison, np.diff(stretches.first))[waiting]
    waiter = calls.location[call]
    group, first = number_columns(of_waiting, np.where(pooled[of_waiting] > 0, -1, waiter), calls.vertex[call])
    group = group.astype(stretches.call.dtype)
    wait_group, group_of_call = np.full(len(stretches), -1, group.dtype), np.full(len(calls), -1, group.dtype)
    wait_group[waiting] = group
    group_of_call[call] = group
    return Groups(
        comparison=comparison,
        sampled=sampled,
        comparison_culprit=calls.location[culprit],
        comparison_vertex=calls.vertex[culprit],
        comparison_count=count,
        wait_group=wait_group,
        group_comparison=of_waiting[first],
        group_waiter=waiter[_longest(group, seconds, call, len(first))],
        group_waiters=np.maximum(pooled[of_waiting[first]], 1),
        group_vertex=calls.vertex[call[first]],
        group_operation=instances.operation[stretches.instance_of(waiting[first])],
        group_wait_s=weighted_count(group, all_s, len(first)),
        group_seen_s=weighted_count(group, seconds, len(first)),
        group_count=np.bincount(group, minlength=len(first)),
        group_of_call=group_of_call,
    ), runs


@numba.njit(cache=True)
def _longest(number, value, call, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The row with the largest value of every number, of several that with the first call."""
    result = np.full(length, -1, dtype=np.int64)
    for row in range(len(number)):
        best = result[number[row]]
        if best < 0 or value[row] > value[best] or (value[row] == value[best] and call[row] < call[best]):
            result[number[row]] = row
    return result


def _choose(
    timeline: Timeline, stretches: Stretches, comparison: IntArray, culprit: IntArray
) -> tuple[npt.NDArray[np.bool_], IntArray, IntArray, Runs]:
    """Choose the members of each comparison whose stretches are looked at. A location is chosen with all its rows.

    ``culprit`` is the location of that of each comparison. Returns whether a row is looked at, how many waiters of each
    comparison are pooled (0: none), its instances, and what is looked at.
    """
    count = len(culprit)
    order = ordered(comparison, count)
    first = np.concatenate(([0], np.cumsum(np.bincount(comparison, minlength=count))))
    rows = np.concatenate(([0], np.cumsum(np.diff(stretches.first)[order])))[first]
    sampled = np.ones(len(stretches), dtype=bool)
    met_s = np.full(len(stretches.culprit), np.inf)

    def choose(at: slice) -> tuple[IntArray, ...]:
        parts: tuple[IntArray, ...] = _choose_members(
            at.start, at.stop, order, first, culprit, stretches.first, stretches.call, stretches.wait_s,
            stretches.met_s, stretches.event, timeline.calls.location, len(timeline.locations),
            int(rows[at.stop] - rows[at.start]), sampled, met_s, POOLED, SAMPLED,
        )  # fmt: skip
        return parts

    parts = each(choose, portions_of(rows))
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return sampled, none, none, Runs(np.zeros(1, np.int64), none, sampled[:0], np.zeros(1, np.int64), none, met_s)
    pooled, events, runs, location, waits, size, stretch = (np.concatenate(parts) for parts in zip(*parts, strict=True))
    begins, run_first = (np.concatenate(([0], np.cumsum(column))) for column in (size, runs))
    return sampled, pooled, events, Runs(run_first, location, waits, begins, stretch, met_s)


@numba.njit(cache=True, nogil=True)
def _choose_members(  # type: ignore[no-untyped-def]  # pragma: no cover
    low, high, order, first, culprit, row_first, call, wait_s, met_s, event, location, locations, rows, sampled,
    late_met_s, most, wanted,
):  # fmt: skip
    """``order`` holds the latenesses of comparison ``c`` in ``first[c]:first[c + 1]``."""
    pooled = np.zeros(high - low, np.int64)
    events = np.zeros(high - low, np.int64)
    runs = np.zeros(high - low, np.int64)
    run_location = np.empty(rows + high - low, call.dtype)
    run_waits = np.zeros(len(run_location), np.bool_)
    run_size = np.zeros(len(run_location), call.dtype)
    stretch = np.empty(rows + first[high] - first[low], call.dtype)
    run_of = np.full(locations, -1, np.int64)  # run of a location in this comparison; below its first: in none
    next_ = np.empty(len(run_location), np.int64)
    used = 0
    written = 0
    for comparison in range(low, high):
        begin = used
        run_location[begin] = culprit[comparison]
        used += 1
        last = -1
        for at in range(first[comparison], first[comparison + 1]):
            late = order[at]
            events[comparison - low] += event[late] != last
            last = event[late]
            for row in range(row_first[late], row_first[late + 1]):
                here = location[call[row]]
                if run_of[here] < begin:
                    run_of[here] = used
                    run_location[used] = here
                    used += 1
        sort_values(run_location[begin + 1 : used])
        for run in range(begin + 1, used):
            run_of[run_location[run]] = run
        for at in range(first[comparison], first[comparison + 1]):
            for row in range(row_first[order[at]], row_first[order[at] + 1]):
                run_waits[run_of[location[call[row]]]] |= wait_s[row] > 0.0
        waiters = 0
        for run in range(begin + 1, used):
            waiters += run_waits[run]
        others = used - begin - 1 - waiters
        pooled[comparison - low] = waiters if waiters > most else 0
        stride = (waiters + wanted - 1) // wanted if waiters > most else 1
        other_stride = (others + wanted - 1) // wanted if others > most else 1
        number = 0
        other_number = 0
        kept = begin + 1
        for run in range(begin + 1, used):
            here = run_location[run]
            waits = run_waits[run]
            chosen = number % stride == 0 if waits else other_number % other_stride == 0
            number += waits
            other_number += not waits
            run_of[here] = kept if chosen else -1
            if chosen:
                run_location[kept] = here
                run_waits[kept] = waits
                kept += 1
        for run in range(kept, used):
            run_waits[run] = False
        # Those that are looked at, counted and then put in order.
        for at in range(first[comparison], first[comparison + 1]):
            late = order[at]
            looked_at = False
            for row in range(row_first[late], row_first[late + 1]):
                run = run_of[location[call[row]]]
                if run >= begin:
                    run_size[run] += 1
                    late_met_s[late] = min(late_met_s[late], met_s[row])
                    looked_at = True
                else:
                    sampled[row] = False
            run_size[begin] += looked_at
        for run in range(begin, kept):
            next_[run] = written
            written += run_size[run]
        for at in range(first[comparison], first[comparison + 1]):
            late = order[at]
            looked_at = False
            for row in range(row_first[late], row_first[late + 1]):
                if sampled[row]:
                    run = run_of[location[call[row]]]
                    stretch[next_[run]] = row
                    next_[run] += 1
                    looked_at = True
            if looked_at:
                stretch[next_[begin]] = late
                next_[begin] += 1
        runs[comparison - low] = kept - begin
        used = kept
    return (
        pooled, events, runs, run_location[:used].copy(), run_waits[:used].copy(), run_size[:used].copy(),
        stretch[:written].copy(),
    )  # fmt: skip


def _size_classes(place: IntArray, stretches: Stretches) -> IntArray:
    """Split the latenesses of a place where their waits differ much (a fault in every tenth step).

    Class 0 holds the waits above half of the 90th percentile over the place's rows, each further class those down to a
    quarter of the class before.
    """
    if not len(place):
        return np.zeros(0, dtype=np.int64)
    event = stretches.event
    begins = np.flatnonzero(np.append(True, event[1:] != event[:-1]))
    longest = np.maximum.reduceat(stretches.wait_s, stretches.first[begins])
    longest = np.repeat(longest, np.diff(np.append(begins, len(event))))
    size = np.diff(stretches.first)
    _, reference = quantile_by_key(np.repeat(place, size), np.repeat(longest, size), 0.9)
    ratio = np.maximum(reference[place], 1e-12) / np.maximum(longest, 1e-12)
    return np.clip(np.floor(np.log(np.maximum(ratio, 1e-12)) / np.log(4.0) + 0.5), 0, 3).astype(np.int64)
