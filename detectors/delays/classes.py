"""Joining waits that are the same thing over and over, and choosing the stretches that are looked at for them.

Sampling at 200 Hz does not resolve one 10 ms stretch. Over all instances with the same waiter, the same culprit and
the same places the sums do, and because the culprit is part of the key, a fault that moves stays apart.

Where many wait for one culprit, they are one group: what they did is known well enough from some of them, and the cost
stays proportional to the calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.detectors.delays.sync_intervals import SyncIntervals
from scalana.detectors.thresholds.limits import POOLED_WAITERS, SAMPLED_WAITERS
from scalana.graphs.arrays.columns import wide
from scalana.graphs.arrays.hashing import number_columns, ordered
from scalana.graphs.arrays.segments import quantile_by_key, weighted_count
from scalana.graphs.arrays.shards import each, portions_of
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import MESSAGES


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
    interval: IntArray
    """Row of a member's stretch; of the culprit's, its lateness ``[stretches looked at]``."""
    met_s: FloatArray
    """Of a culprit's stretch, when it met the first of the members that are looked at ``[latenesses]``."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared to explain the waits, and how it is joined."""

    intervals: SyncIntervals
    groups: Groups
    runs: Runs


def group_waits(timeline: Timeline, intervals: SyncIntervals) -> tuple[Groups, Runs]:
    """Assign rows of ``intervals`` to comparisons and wait groups, and choose those that are looked at."""
    calls, instances = timeline.calls, timeline.instances
    culprit, since = intervals.culprit, intervals.since_culprit
    place, _ = number_columns(
        calls.location[culprit],
        calls.vertex[culprit],
        instances.communicator[intervals.instance],
        np.where(since >= 0, calls.vertex[np.maximum(since, 0)], np.int64(-1)),
    )
    place, _ = number_columns(place, _receiver(place, timeline, intervals))
    comparison, chosen = number_columns(place, _size_classes(place, intervals))
    culprit = culprit[chosen]
    sampled, pooled, count, runs = _choose(timeline, intervals, comparison, calls.location[culprit])
    waiting = np.flatnonzero(intervals.wait_s > 0.0)
    call, seconds = intervals.call[waiting], intervals.wait_s[waiting]
    all_s = seconds if timeline.unwritten is None else seconds * timeline.unwritten.stands_for[call]
    of_waiting = np.repeat(comparison, np.diff(intervals.first))[waiting]
    waiter = calls.location[call]
    group, first = number_columns(of_waiting, np.where(pooled[of_waiting] > 0, -1, waiter), calls.vertex[call])
    group = group.astype(intervals.call.dtype)
    wait_group, group_of_call = np.full(len(intervals), -1, group.dtype), np.full(len(calls), -1, group.dtype)
    wait_group[waiting] = group
    group_of_call[call] = group
    return Groups(
        comparison=comparison,
        sampled=sampled,
        comparison_culprit=wide(calls.location[culprit]),
        comparison_vertex=wide(calls.vertex[culprit]),
        comparison_count=count,
        wait_group=wait_group,
        group_comparison=of_waiting[first],
        group_waiter=wide(waiter[_longest(group, seconds, call, len(first))]),
        group_waiters=np.maximum(pooled[of_waiting[first]], 1),
        group_vertex=wide(calls.vertex[call[first]]),
        group_operation=wide(instances.operation[intervals.instance_of(waiting[first])]),
        group_wait_s=weighted_count(group, all_s, len(first)),
        group_seen_s=weighted_count(group, seconds, len(first)),
        group_count=np.bincount(group, minlength=len(first)),
        group_of_call=group_of_call,
    ), runs


def _receiver(place: IntArray, timeline: Timeline, intervals: SyncIntervals) -> IntArray:
    """Who receives what a culprit sends from one place to a few: its stretch is there once for each of them, but what
    each of them did only once. -1 for collectives, and where those that receive are many ``[latenesses]``."""
    message = np.isin(timeline.instances.operation[intervals.instance], MESSAGES)
    receiver = np.full(len(place), -1, dtype=np.int64)
    receiver[message] = timeline.calls.location[intervals.call[intervals.first[:-1][message]]]
    _, one = number_columns(place, receiver)
    few = np.bincount(place[one]) <= POOLED_WAITERS
    return np.where(few[place], receiver, -1)


def _longest(number: IntArray, value: FloatArray, call: IntArray, length: int) -> IntArray:
    """The row with the largest value of every number, of several that with the first call."""
    largest = np.full(length, -np.inf)
    np.maximum.at(largest, number, value)
    rows = np.flatnonzero(value == largest[number])
    rows = rows[np.argsort(-call[rows], kind="stable")]
    result = np.empty(length, dtype=np.int64)
    result[number[rows]] = rows
    return result


def _choose(
    timeline: Timeline, intervals: SyncIntervals, comparison: IntArray, culprit: IntArray
) -> tuple[npt.NDArray[np.bool_], IntArray, IntArray, Runs]:
    """Choose the members of each comparison whose stretches are looked at. A location is chosen with all its rows.

    ``culprit`` is the location of that of each comparison. Returns whether a row is looked at, how many waiters of each
    comparison are pooled (0: none), its instances, and what is looked at.
    """
    count = len(culprit)
    order = ordered(comparison, count)
    first = np.concatenate(([0], np.cumsum(np.bincount(comparison, minlength=count))))
    rows = np.concatenate(([0], np.cumsum(np.diff(intervals.first)[order])))[first]
    sampled, met_s = np.ones(len(intervals), dtype=bool), np.full(len(intervals.culprit), np.inf)

    def choose(at: slice) -> tuple[npt.NDArray[Any], ...]:
        delay = order[first[at.start] : first[at.stop]]
        of_lateness = comparison[delay] - at.start
        row, size = intervals.rows_of(delay), intervals.first[delay + 1] - intervals.first[delay]
        starts = np.cumsum(size) - size
        of_row = np.repeat(of_lateness, size)
        run, one = number_columns(of_row, timeline.calls.location[intervals.call[row]])
        waits = np.bincount(run, intervals.wait_s[row] > 0.0) > 0.0
        of_run = of_row[one]
        chosen, pooled = _every_so_many(of_run, waits)
        looked_at = chosen[run]
        sampled[row] = looked_at
        met_s[delay] = np.minimum.reduceat(np.where(looked_at, intervals.met_s[row], np.inf), starts)
        late = np.logical_or.reduceat(looked_at, starts)
        # Their runs in order, with one for the culprit before those of every comparison.
        runs = np.bincount(of_run[chosen], minlength=len(pooled)) + 1
        of_culprit = np.cumsum(runs) - runs
        number = np.cumsum(chosen) + of_run
        key = np.concatenate([of_culprit[of_lateness[late]], number[run[looked_at]]])
        total = int(runs.sum())
        interval = np.concatenate([delay[late], row[looked_at]])[ordered(key, total)]
        location, run_waits = np.empty(total, dtype=np.int32), np.zeros(total, dtype=bool)
        location[of_culprit] = culprit[at]
        location[number[chosen]] = timeline.calls.location[intervals.call[row[one[chosen]]]]
        run_waits[number[chosen]] = waits[chosen]
        event = intervals.event[delay]
        another = np.append(True, (np.diff(event) != 0) | (np.diff(of_lateness) != 0))
        count = np.bincount(of_lateness[another], minlength=len(pooled))
        return pooled, count, runs, location, run_waits, np.bincount(key, minlength=total), interval

    parts = each(choose, portions_of(rows))
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return sampled, none, none, Runs(np.zeros(1, np.int64), none, sampled[:0], np.zeros(1, np.int64), none, met_s)
    pooled, events, runs, location, waits, size, interval = (np.concatenate(part) for part in zip(*parts, strict=True))
    begins, run_first = (np.concatenate(([0], np.cumsum(column))) for column in (size, runs))
    return sampled, pooled, events, Runs(run_first, location, waits, begins, interval.astype(np.int32), met_s)


def _every_so_many(comparison: IntArray, waits: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], IntArray]:
    """Which locations to look at, of those that wait in a comparison and of those that do not, and how many waiters of
    each comparison are pooled (0: none). ``comparison`` is ascending, and every number from 0 on occurs."""
    starts = np.flatnonzero(np.append(True, np.diff(comparison) != 0))
    chosen = np.zeros(len(waits), dtype=bool)
    waiters = np.add.reduceat(waits, starts, dtype=np.int64)
    others = np.add.reduceat(~waits, starts, dtype=np.int64)
    for alike, count in ((waits, waiters), (~waits, others)):
        stride = np.where(count > POOLED_WAITERS, -(-count // SAMPLED_WAITERS), 1)
        before: IntArray = np.cumsum(alike) - alike
        chosen |= alike & ((before - before[starts][comparison]) % stride[comparison] == 0)
    return chosen, np.where(waiters > POOLED_WAITERS, waiters, 0)


def _size_classes(place: IntArray, intervals: SyncIntervals) -> IntArray:
    """Split the latenesses of a place where their waits differ much (a fault in every tenth step).

    Class 0 holds the waits above half of the 90th percentile over the place's rows, each further class those down to a
    quarter of the class before.
    """
    if not len(place):
        return np.zeros(0, dtype=np.int64)
    event = intervals.event
    begins = np.flatnonzero(np.append(True, event[1:] != event[:-1]))
    longest = np.maximum.reduceat(intervals.wait_s, intervals.first[begins])
    longest = np.repeat(longest, np.diff(np.append(begins, len(event))))
    size = np.diff(intervals.first)
    _, reference = quantile_by_key(np.repeat(place, size), np.repeat(longest, size), 0.9)
    ratio = np.maximum(reference[place], 1e-12) / np.maximum(longest, 1e-12)
    return np.clip(np.floor(np.log(np.maximum(ratio, 1e-12)) / np.log(4.0) + 0.5), 0, 3).astype(np.int64)
