"""Which stretches of two ranks are compared to explain a wait: from the last operation that both left, to this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from scalana.detectors.delays.wait_states import WaitStates, last_arrivals_s, waits_table
from scalana.detectors.thresholds.limits import SEARCHED_BACK, SEARCHED_BEHIND
from scalana.detectors.thresholds.seconds import AT_ONCE_S
from scalana.detectors.thresholds.shares import MAJORITY, SUBSTANTIAL
from scalana.graphs.arrays.columns import concatenate
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.hashing import ordered
from scalana.graphs.arrays.shards import each, portions_of, rows_of_ranges
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import ROW, Timeline
from scalana.runtime.operations import MESSAGES, Waits


@dataclass(slots=True)
class SyncIntervals:
    """What is compared to explain the waits, in two levels: *latenesses*, and in each the members of its instance.

    A lateness is a culprit that comes late to an instance, as it is for the members that it last met in one and the
    same operation. Members that did not wait have a row too (with ``wait_s`` 0): they are what is ordinary there.
    """

    culprit: IntArray
    """Call whose arrival released the instance ``[latenesses]``."""
    instance: IntArray
    """``[latenesses]``"""
    since_culprit: IntArray
    """Call with which the culprit's location left the last common operation, -1 where the record begins
    ``[latenesses]``.

    Where the culprit left that one so much later than the waiter that this alone explains half of the wait (of a
    collective a fifth), it had been late before; where it left so much earlier, the waiter did before what the culprit
    did after. Then it is the last operation that they left together, or the beginning, if one of them is near.
    """
    event: IntArray
    """Number of (instance, culprit), in ascending order ``[latenesses]``."""
    first: IntArray
    """Start of each lateness' rows ``[latenesses + 1]``."""
    call: IntArray
    """Call of the member: the one that waits, or the one in which it took part ``[rows]``."""
    wait_s: FloatArray
    """Seconds waited ``[rows]``."""
    since_call: IntArray
    """Call with which the member left the last common operation, -1 where the record begins ``[rows]``."""
    met_s: FloatArray
    """From when on the last common operation belongs to the stretch: what either waited in it for others, and what it
    took to leave it. That is when both were there, or all were, where all leave together but for what keeps one of
    them (it has no core, say). Infinite where nothing of it does ``[rows]``."""

    def __len__(self) -> int:
        return len(self.call)

    def instance_of(self, rows: IntArray) -> IntArray:
        """Instance of some rows."""
        return self.instance[np.searchsorted(self.first, rows, side="right") - 1]

    def rows_of(self, latenesses: IntArray) -> IntArray:
        """Rows of some latenesses, one after the other."""
        first, size = self.first[latenesses], self.first[latenesses + 1] - self.first[latenesses]
        return rows_of_ranges(first, size)


def find_sync_intervals(timeline: Timeline, waits: WaitStates) -> SyncIntervals:
    """Find for every wait, and for the other members of its instance, the stretches to compare.

    Cost: linear in the rows, where ranks meet often.
    """
    calls, instances = timeline.calls, timeline.instances
    waiting, first_wait = _by_event(waits)
    member_location = calls.location[instances.members]
    done = _done_calls(timeline, member_location)
    all_s = last_arrivals_s(timeline)
    left, early_s = _left_calls(timeline, done, all_s)
    member_enter_s = calls.enter_s[instances.members]
    waited = _waited(timeline, waits, waiting, done)
    apart = _apart(timeline, done, member_enter_s)
    late_before = np.where(_waits_of(instances.operation) == Waits.ALL, SUBSTANTIAL, MAJORITY)
    instance, culprit = waits.instance[waiting[first_wait[:-1]]], waits.culprit[waiting[first_wait[:-1]]]
    most = np.diff(first_wait) + np.diff(instances.first)[instance]
    first_row = np.concatenate(([0], np.cumsum(most)))

    def participants(at: slice) -> tuple[IntArray, IntArray, FloatArray]:
        """Calls of who takes part in each event: those that wait for its culprit, and the members that waited for
        none."""
        here, late = instance[at], calls.location[culprit[at]]
        size = instances.first[here + 1] - instances.first[here]
        size[size <= 2] = 0
        event = np.repeat(np.arange(len(here)), size)
        entry = rows_of_ranges(instances.first[here], size)
        other = done[entry]
        kept = (calls.location[other] != late[event]) & (waits.instance[other] != here[event]) & ~waited[entry]
        other, event = other[kept], event[kept]
        waiters = np.diff(first_wait[at.start : at.stop + 1])
        first = np.concatenate(([0], np.cumsum(waiters + np.bincount(event, minlength=len(here)))))
        call = np.empty(first[-1], dtype=waiting.dtype)
        wait_s = np.zeros(first[-1])
        rows = np.repeat(first[:-1] - np.cumsum(waiters) + waiters, waiters) + np.arange(int(waiters.sum()))
        call[rows] = waiting[first_wait[at.start] : first_wait[at.stop]]
        wait_s[rows] = waits.wait_s[call[rows]]
        others = np.ones(len(call), dtype=bool)
        others[rows] = False
        call[others] = other
        return first, call, wait_s

    of_calls = _Calls(
        calls.location, calls.first, calls.posts, calls.wait_first, calls.waits, calls.enter_s, calls.exit_s
    )
    members = _Members(instances.first, instances.members, member_location, left, early_s, member_enter_s)
    meetings = _Meetings(apart, late_before, all_s)
    search = (SEARCHED_BACK, SEARCHED_BEHIND)

    def find(at: slice) -> SyncIntervals:
        first, call, wait_s = participants(at)
        rows = _Rows(first, call, wait_s, culprit[at], instance[at])
        since_call, since_culprit, met_s = _common_operations(rows, of_calls, members, meetings, search, MAJORITY)
        begins = _sort_by_meeting(first, since_culprit, (call, wait_s, since_call, met_s))
        event = at.start + np.searchsorted(first, begins[:-1], side="right") - 1
        return SyncIntervals(
            culprit[event], instance[event], since_culprit[begins[:-1]], event.astype(call.dtype), begins, call, wait_s,
            since_call, met_s,
        )  # fmt: skip

    parts = each(find, portions_of(first_row))
    before = 0
    for part in parts:
        part.first, before = (part.first if part is parts[-1] else part.first[:-1]) + before, before + len(part)
    if not parts:
        none: npt.NDArray[Any] = np.zeros(0, dtype=np.int32)
        return SyncIntervals(none, none, none, none, np.zeros(1, dtype=np.int64), none, np.zeros(0), none, np.zeros(0))
    return concatenate(parts, SyncIntervals)


def _by_event(waits: WaitStates) -> tuple[IntArray, IntArray]:
    """Calls that wait ``[waits]``, by instance and culprit, and where those of each pair of these begin
    ``[events + 1]``."""
    waiting = np.flatnonzero(waits.wait_s > 0.0).astype(waits.culprit.dtype)
    if not len(waiting):
        return waiting, np.zeros(1, dtype=np.int64)
    instance = waits.instance[waiting]
    order = ordered(instance, int(instance.max()) + 1)
    waiting, instance = waiting[order], instance[order]
    culprit = waits.culprit[waiting]
    same = instance[1:] == instance[:-1]
    mixed = instance[1:][same & (culprit[1:] < culprit[:-1])]
    if len(mixed):  # most instances have one culprit
        rows = np.flatnonzero(np.isin(instance, mixed))
        order = rows[np.lexsort((culprit[rows], instance[rows]))]
        waiting[rows], culprit[rows] = waiting[order], culprit[order]
    begins = np.flatnonzero(~same | (culprit[1:] != culprit[:-1])) + 1
    return waiting, np.concatenate(([0], begins, [len(waiting)]))


def _waited(timeline: Timeline, waits: WaitStates, waiting: IntArray, done: IntArray) -> npt.NDArray[np.bool_]:
    """Members of epochs that waited with another call than the one with which they completed ``[members]``."""
    calls, instances = timeline.calls, timeline.instances
    result = np.zeros(len(done), dtype=bool)
    named = _waits_of(instances.operation) == Waits.NAMED
    if named.any():
        width = len(timeline.locations)
        waiting = waiting[named[waits.instance[waiting]]]
        entries = np.flatnonzero(np.repeat(named, np.diff(instances.first)))
        instance = np.searchsorted(instances.first, entries, side="right") - 1
        of_waiter = waits.instance[waiting].astype(np.int64) * width + calls.location[waiting]
        result[entries] = np.isin(instance * width + calls.location[done[entries]], of_waiter)
    return result


def _sort_by_meeting(first: IntArray, since: IntArray, columns: tuple[np.ndarray, ...]) -> IntArray:
    """Sort the rows of each event by the last common operation, in place; returns where each lateness begins, and the
    end."""
    begins = np.zeros(len(since) + 1, dtype=bool)
    begins[first] = True
    changes = since[1:] != since[:-1]
    inside = np.flatnonzero(changes & ~begins[1:-1]) + 1
    if len(inside):
        mixed = np.unique(np.searchsorted(first, inside, side="right") - 1)
        sizes = first[mixed + 1] - first[mixed]
        event = np.repeat(mixed, sizes)
        rows = rows_of_ranges(first[mixed], sizes)
        order = rows[np.lexsort((since[rows], event))]
        for column in (since, *columns):
            column[rows] = column[order]
        begins[1:-1] |= since[1:] != since[:-1]
    return np.flatnonzero(begins)


def _waits_of(operation: IntArray) -> IntArray:
    table = waits_table()
    return np.asarray(table[np.clip(operation, 0, len(table) - 1)])


def _apart(timeline: Timeline, done: IntArray, member_enter_s: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether the members of an instance need not leave it together: by its operation, or as they did not (an exchange
    in which some have nothing for others) ``[instances]``."""
    instances = timeline.instances
    apart = np.asarray(_waits_of(instances.operation) != Waits.ALL)
    each(
        lambda at: _mark_early(
            timeline.calls.exit_s, done, member_enter_s, instances.first, (at.start, at.stop), AT_ONCE_S, apart
        ),
        portions_of(instances.first),
    )
    return apart


@compiled
def _mark_early(exit_s, done, enter_s, first, portion, at_once_s, apart):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Mark those of a portion of the instances that a member left before another one came."""
    for instance in range(portion[0], portion[1]):
        first_out_s, last_in_s = np.inf, -np.inf
        for entry in range(first[instance], first[instance + 1]):
            first_out_s = min(first_out_s, exit_s[done[entry]])
            last_in_s = max(last_in_s, enter_s[entry])
        if first_out_s < last_in_s - at_once_s:
            apart[instance] = True


def _done_calls(timeline: Timeline, member_location: IntArray) -> IntArray:
    """Call with which each member of each instance left it: its last wait for it, or the post itself ``[members]``."""
    calls, instances = timeline.calls, timeline.instances
    done = instances.members.astype(ROW)
    _wait_calls(calls.wait_first, calls.waits, calls.posts, calls.location, instances.first, member_location, done)
    return done


@compiled
def _wait_calls(wait_first, waits, posts, location, first, member_location, done):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put the last call of each location that waits for an instance in place of its post."""
    for call in range(len(posts)):
        for wait in range(wait_first[call], wait_first[call + 1]):
            if waits[wait] != posts[call]:
                entry = _member_at(waits[wait], location[call], first, member_location)
                if entry >= 0:
                    done[entry] = max(done[entry], call)


def _left_calls(timeline: Timeline, done: IntArray, all_s: FloatArray) -> tuple[IntArray, FloatArray]:
    """Call after which each member of each instance had left it for the comparison of stretches ``[members]``.

    That is the call in which it completed. What was complete before a member asked for it, though (a message, or a
    collective that waits for all), was left when all had posted it: what the member did from then on came after it.
    It was not complete if one who had asked for it stayed until then: it went on only when this member was back.
    The second result is when all had posted it, where that holds for a collective; -inf elsewhere ``[members]``.
    ``all_s`` is when the last member of each instance came ``[instances]``.
    """
    calls, instances = timeline.calls, timeline.instances
    sizes = np.diff(instances.first)
    message = np.isin(instances.operation, MESSAGES) & (sizes == 2)
    wanted = (message | (_waits_of(instances.operation) == Waits.ALL)) & instances.complete
    entry = np.nonzero(np.repeat(wanted, sizes) & (done > instances.members))[0]
    instance_of = np.repeat(np.arange(len(instances), dtype=np.int64), sizes)[entry]
    posted_s = all_s[instance_of]
    asked_s = calls.enter_s[done[entry]]
    first_out_s = np.full(len(instances), np.inf)
    waited = asked_s < posted_s
    np.minimum.at(first_out_s, instance_of[waited], calls.exit_s[done[entry[waited]]])
    out_s = first_out_s[instance_of]
    before = (posted_s <= asked_s) & ((asked_s > out_s) | np.isinf(out_s))
    entry, posted_s, instance_of = entry[before], posted_s[before], instance_of[before]
    left, early_s = done.copy(), np.full(len(done), -np.inf)
    left[entry] = _last_before(instances.members[entry], done[entry], posted_s, calls.exit_s)
    early_s[entry] = np.where(message[instance_of], -np.inf, posted_s)
    return left, early_s


@compiled
def _last_before(post, done, time_s, exit_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The last call from each post on, before its completion, that was over at a given time; at least the post."""
    result = np.empty_like(post)
    for row in range(len(post)):
        at = done[row] - 1
        while at > post[row] and exit_s[at] > time_s[row]:
            at -= 1
        result[row] = at
    return result


@compiled
def _member_at(instance, location, first, member_location):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Member entry of a location in an instance, -1 if it takes no part; members are ordered by location."""
    low, high = first[instance], first[instance + 1]
    if high - low == 2:  # a message: sender first
        for entry in range(low, high):
            if member_location[entry] == location:
                return entry
        return -1
    while low < high:
        middle = (low + high) // 2
        if member_location[middle] < location:
            low = middle + 1
        else:
            high = middle
    if low < first[instance + 1] and member_location[low] == location:
        return low
    return -1


class _Rows(NamedTuple):
    """Who takes part in some events."""

    first: IntArray
    """Start of each event's rows ``[events + 1]``."""
    call: IntArray
    """``[rows]``"""
    wait_s: FloatArray
    """``[rows]``"""
    culprit: IntArray
    """``[events]``"""
    instance: IntArray
    """``[events]``"""


class _Calls(NamedTuple):
    """Those of :class:`~scalana.graphs.timeline.Calls`."""

    location: IntArray
    first: IntArray
    posts: IntArray
    wait_first: IntArray
    waits: IntArray
    enter_s: FloatArray
    exit_s: FloatArray


class _Members(NamedTuple):
    """Members of all instances, ``[members]`` each."""

    first: IntArray
    """Start of each instance's members ``[instances + 1]``."""
    posted: IntArray
    location: IntArray
    left: IntArray
    early_s: FloatArray
    """The two results of :func:`_left_calls`."""
    enter_s: FloatArray


class _Meetings(NamedTuple):
    """All instances, ``[instances]`` each."""

    apart: npt.NDArray[np.bool_]
    late_before: FloatArray
    """:data:`SUBSTANTIAL` or :data:`MAJORITY`."""
    all_s: FloatArray
    """When the last member came."""


@compiled
def _common_operations(rows, calls, members, meetings, search, majority):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For each row of each event, walk the culprit's calls back to the last instance that both locations have left.

    Returns the calls with which each left it, and when both were there (see :attr:`SyncIntervals.met_s`).
    """
    first_row, call, wait_s, culprit, instance = rows
    location, first, posts, wait_first, waits, enter_s, exit_s = calls
    member_first, posted, member_location, left, early_s, member_enter_s = members
    apart, late_before, all_s = meetings
    limit, further = search
    since_call = np.full(len(call), -1, call.dtype)
    since_culprit = np.full(len(call), -1, call.dtype)
    met_s = np.full(len(call), np.inf)
    longest_s = np.zeros(len(culprit))
    for event in range(len(culprit)):
        for row in range(first_row[event], first_row[event + 1]):
            longest_s[event] = max(longest_s[event], wait_s[row])
    event = 0
    for row in range(len(call)):
        while first_row[event + 1] <= row:
            event += 1
        mine, late, this = call[row], culprit[event], np.int64(instance[event])
        here, there = location[mine], location[late]
        begin = max(first[there], late - limit)
        mine_in = _member_at(this, here, member_first, member_location)
        posted_here = posted[mine_in] if mine_in >= 0 else mine
        at = late - 1
        together = False
        while at >= begin and not together:
            touched = wait_first[at + 1] - wait_first[at]
            for t in range(touched + 1):
                other = waits[wait_first[at] + t] if t < touched else posts[at]
                if other < 0 or other == this:
                    continue
                entry = _member_at(other, here, member_first, member_location)
                if entry < 0 or left[entry] >= mine:
                    continue
                own = _member_at(other, there, member_first, member_location)
                if own < 0 or left[own] >= late:
                    continue
                # The member was still in it when it went on to this one, or came to wait here.
                if (early_s[own] > -np.inf and left[entry] >= posted_here) or early_s[entry] > enter_s[mine]:
                    continue
                both_s = max(member_enter_s[entry], member_enter_s[own])
                later_s = exit_s[left[own]] - exit_s[left[entry]]
                together = (
                    not apart[other]
                    or -majority * longest_s[event] <= later_s <= late_before[other] * longest_s[event]
                    or (later_s > 0.0 and min(exit_s[left[entry]], exit_s[left[own]]) >= both_s)
                    or wait_s[row] <= 0.0
                )
                if together or since_culprit[row] < 0:
                    begin = max(begin, at - further)
                    since_call[row] = left[entry]
                    since_culprit[row] = left[own]
                    # The member may have left before, with what it had to hand over.
                    there_s = both_s if apart[other] else all_s[other]
                    met_s[row] = there_s if exit_s[left[own]] >= there_s else np.inf
                if together:
                    break
            at -= 1
        if not together and begin == first[there]:  # as late as it is since the record began
            since_call[row] = since_culprit[row] = -1
            met_s[row] = np.inf
    return since_call, since_culprit, met_s
