"""A timeline restricted to a window of time, such as some of the steps."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.shards import rows_of_ranges
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.periods import Periods
from scalana.graphs.timeline import Calls, Instances, Locations, OwnWork, Timeline, Unwritten


def window(timeline: Timeline, start_s: FloatArray, end_s: FloatArray) -> Timeline:
    """What every rank did from ``start_s`` to ``end_s``, each ``[ranks]``.

    Calls that reach over an edge are cut there, and so is the work between calls (:func:`row_parts`). What a call waits
    for is known even where a member came to it before the window, or comes after it: that one then comes at the
    window's edge.
    """
    locations, rank = timeline.locations, timeline.locations.rank
    begin = np.clip(locations.start_s, start_s[rank], end_s[rank])
    end = np.clip(locations.end_s, begin, end_s[rank])
    inside = calls_inside(timeline, start_s, end_s)
    kept = inside | _met(timeline, inside)
    row = np.flatnonzero(kept)
    number = np.cumsum(kept) - 1  # of the calls that are kept
    calls, instances = _calls(timeline, row, inside[row], begin, end)
    of = timeline.steps[:, 0].astype(np.int64)
    marked = (timeline.steps[:, 2] > begin[of]) & (timeline.steps[:, 1] < end[of])
    return Timeline(
        ranks=timeline.ranks,
        locations=Locations(rank, locations.is_main, begin, end),
        calls=calls,
        instances=instances,
        own=_own(timeline, kept, number, begin, end),
        activities=timeline.activities,
        period_s=timeline.period_s,
        steps=timeline.steps[marked],
        step_number=timeline.step_number[marked],
        unwritten=_unwritten(timeline, row, kept, number, begin, end),
        whole=timeline.whole or timeline,
        role=timeline.role,
    )


def calls_inside(timeline: Timeline, start_s: FloatArray, end_s: FloatArray) -> BoolArray:
    """Which calls lie in a window, at least in part ``[calls]``; the edges are ``[ranks]``."""
    calls = timeline.calls
    rank = timeline.locations.rank[calls.location]
    since, until = start_s[rank], end_s[rank]
    # What takes no time and lies on an edge is of the window that ends there.
    begins = (calls.enter_s < until) | ((calls.enter_s == until) & (calls.exit_s == until))
    return np.asarray((calls.exit_s > since) & begins)


def _met(timeline: Timeline, inside: BoolArray) -> BoolArray:
    """Which calls are members of what calls inside the window wait for ``[calls]``."""
    calls, instances = timeline.calls, timeline.instances
    waits = calls.waits[np.repeat(inside, np.diff(calls.wait_first))]
    awaited = np.unique(waits)
    size = (instances.first[awaited + 1] - instances.first[awaited]).astype(np.int64)
    result = np.zeros(len(calls), np.bool_)
    result[instances.members[rows_of_ranges(instances.first[awaited].astype(np.int64), size)]] = True
    return result


def _calls(
    timeline: Timeline, row: IntArray, inside: BoolArray, begin: FloatArray, end: FloatArray
) -> tuple[Calls, Instances]:
    """The calls that are kept, and the instances that they post to or wait for. Calls outside wait for nothing."""
    calls, instances = timeline.calls, timeline.instances
    location = calls.location[row].astype(np.int64)
    size = np.where(inside, np.diff(calls.wait_first)[row], 0).astype(np.int64)
    posts = calls.posts[row].astype(np.int64)
    waits = calls.waits[rows_of_ranges(calls.wait_first[row].astype(np.int64), size)].astype(np.int64)
    # What is waited for may be given by a call that posts to something else: a signal.
    found = np.unique(np.concatenate((posts[posts >= 0], waits)))
    instance = np.full(len(instances) + 1, -1, np.int64)  # the last for none
    instance[found] = np.arange(len(found))
    members_of = np.diff(instances.first)[found].astype(np.int64)
    member_rows = rows_of_ranges(instances.first[found].astype(np.int64), members_of)
    members = instances.members[member_rows].astype(np.int64)
    of = np.repeat(np.arange(len(found)), members_of)
    place = np.minimum(np.searchsorted(row, members), max(len(row) - 1, 0))
    here = row[place] == members if len(row) else np.zeros(len(members), np.bool_)
    count = np.bincount(of[here], minlength=len(found))
    enter = np.clip(calls.enter_s[row], begin[location], end[location])
    leave = np.clip(calls.exit_s[row], begin[location], end[location])
    whole = np.maximum(calls.exit_s[row] - calls.enter_s[row], 1e-300)
    kept_calls = Calls(
        location=location,
        vertex=calls.vertex[row],
        operation=calls.operation[row],
        enter_s=enter,
        exit_s=leave,
        cpu_s=calls.cpu_s[row] * ((leave - enter) / whole),
        nbytes=np.where(inside, calls.nbytes[row], 0).astype(calls.nbytes.dtype),
        posts=instance[posts],
        first=np.searchsorted(location, np.arange(len(timeline.locations) + 1)).astype(np.int64),
        wait_first=np.concatenate(([0], np.cumsum(size))),
        waits=instance[waits],
    )
    kept_instances = Instances(
        operation=instances.operation[found],
        communicator=instances.communicator[found],
        root=instances.root[found],
        first=np.concatenate(([0], np.cumsum(count))).astype(np.int64),
        members=place[here],
        complete=instances.complete[found] & (count == members_of),
    )
    return kept_calls, kept_instances


def gap_edges(timeline: Timeline) -> tuple[FloatArray, FloatArray]:
    """When every burst begins and ends, each ``[bursts]``."""
    calls, locations = timeline.calls, timeline.locations
    begin = np.empty(len(calls) + len(locations))
    begin[1 : len(calls)] = calls.exit_s[:-1]
    head = calls.first[:-1][np.diff(calls.first) > 0]
    begin[head] = locations.start_s[np.diff(calls.first) > 0]
    has = np.diff(calls.first) > 0
    begin[len(calls) :] = locations.start_s
    begin[len(calls) :][has] = calls.exit_s[calls.first[1:][has] - 1]
    return begin, np.concatenate((calls.enter_s, locations.end_s))


def periods_of_bursts(timeline: Timeline, periods: Periods) -> tuple[IntArray, IntArray]:
    """In which period of its rank the middle of each burst lies, -1 for none, and that rank, each ``[bursts]``."""
    begin, end = gap_edges(timeline)
    rank = timeline.locations.rank[burst_locations(timeline)].astype(np.int64)
    return periods.row_at(rank, (begin + end) / 2), rank


def _gap_parts(timeline: Timeline, begin: FloatArray, end: FloatArray) -> FloatArray:
    """Which part of every burst lies in the window ``[bursts]``."""
    since, until = gap_edges(timeline)
    location = burst_locations(timeline)
    inside = np.minimum(until, end[location]) - np.maximum(since, begin[location])
    return np.clip(inside / np.maximum(until - since, 1e-300), 0.0, 1.0)


def _new_gaps(timeline: Timeline, kept: BoolArray, number: IntArray) -> IntArray:
    """In which burst of the window what is in a burst comes to lie: before the next call that is kept ``[bursts]``."""
    calls, count = timeline.calls, int(kept.sum())
    locations = np.arange(len(timeline.locations))
    # The next call that is kept, from each one on; behind the last of a location, the end of that.
    following = np.where(kept, number, number + 1)
    last = np.concatenate(([0], np.cumsum(kept)))[calls.first[1:]]
    tail = following >= last[calls.location]
    return np.concatenate((np.where(tail, count + calls.location, following), count + locations))


def row_parts(own: OwnWork, rows: slice, of_burst: FloatArray, seen: FloatArray) -> FloatArray:
    """Which part of some rows of own work lies in a part of the run ``[rows]``.

    Where it is known when in its burst a kind of work was seen, it is what lies there of that time; else as much as of
    the burst. All in all it is as much of every burst's work as lies there of its time.

    Args:
        own: Own work.
        rows: Which of it.
        of_gap: The part of the burst of each row ``[rows]``.
        seen: The part of the time in which it was seen, of the rows ``own.seen_row`` among these ``[rows seen]``.
    """
    low, high = np.searchsorted(own.seen_row, [rows.start, rows.stop])
    which = own.seen_row[low:high] - rows.start
    cut = (of_burst[which] > 0.0) & (of_burst[which] < 1.0)
    if not cut.any():
        return of_burst
    part = of_burst.copy()
    part[which[cut]] = seen[cut]
    affected = np.flatnonzero((of_burst > 0.0) & (of_burst < 1.0))
    _, burst = np.unique(own.burst[rows][affected], return_inverse=True)
    seconds, share = own.seconds[rows][affected], part[affected]
    whole, inside = np.bincount(burst, seconds), np.bincount(burst, seconds * share)
    wanted = np.bincount(burst, seconds * of_burst[affected])
    less = wanted / np.maximum(inside, 1e-300)
    more = (whole - wanted) / np.maximum(whole - inside, 1e-300)
    part[affected] = np.where(inside[burst] >= wanted[burst], share * less[burst], 1.0 - (1.0 - share) * more[burst])
    return np.clip(part, 0.0, 1.0)


def _own(timeline: Timeline, kept: BoolArray, number: IntArray, begin: FloatArray, end: FloatArray) -> OwnWork:
    own = timeline.own
    location = burst_locations(timeline)[own.burst[own.seen_row]]
    since, until = own.seen_s[:, 0], own.seen_s[:, 1]
    seen = np.minimum(until, end[location]) - np.maximum(since, begin[location])
    of_burst = _gap_parts(timeline, begin, end)[own.burst]
    part = row_parts(own, slice(0, len(own)), of_burst, np.clip(seen / (until - since), 0.0, 1.0))
    row = np.flatnonzero(part > 0.0)
    burst, part = _new_gaps(timeline, kept, number)[own.burst[row]], part[row]
    order = np.argsort(burst, kind="stable")
    row, burst, part = row[order], burst[order], part[order]
    return OwnWork(
        burst=burst,
        activity=own.activity[row],
        seconds=own.seconds[row] * part,
        cpu_s=own.cpu_s[row] * part,
        core_wait_s=own.core_wait_s[row] * part,
        samples=np.ceil(own.samples[row] * part).astype(np.int64),
    )


def _unwritten(
    timeline: Timeline, row: IntArray, kept: BoolArray, number: IntArray, begin: FloatArray, end: FloatArray
) -> Unwritten | None:
    unwritten = timeline.unwritten
    if unwritten is None:
        return None
    inside = unwritten.burst_s * _gap_parts(timeline, begin, end)
    bursts = len(row) + len(timeline.locations)
    burst_s = np.bincount(_new_gaps(timeline, kept, number), weights=inside, minlength=bursts).astype(np.float64)
    return Unwritten(burst_s, unwritten.stands_for[row])
