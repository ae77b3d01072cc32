"""Which stretches of two ranks are compared to explain a wait: from the last operation that both left, to this one."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from scalana.detectors.waits import WaitStates, waits_table
from scalana.graphs.hashing import number_columns, ordered
from scalana.graphs.portions import chunks, each
from scalana.graphs.timeline import FloatArray, IntArray, Timeline
from scalana.runtime.operations import OPERATIONS, Waits

MESSAGES = [row.code for row in OPERATIONS if row.name.endswith("send")]
"""Operations of messages; the instance of a message carries that of its send."""
SEARCH_LIMIT = 100_000
"""Calls walked back in search of a common operation, before the start of the record is taken for it."""
SEARCH_FURTHER = 256
"""Calls walked back behind a common operation that they did not leave together, in search of one that they did."""


@dataclass(slots=True)
class Stretches:
    """One row per (member of an instance, culprit of that instance).

    Members that did not wait have a row too (with ``wait_s`` 0): they are what is ordinary there.
    """

    call: IntArray
    """Call of the member: the one that waits, or the one in which it took part ``[rows]``."""
    culprit: IntArray
    """Call whose arrival released the instance ``[rows]``."""
    instance: IntArray
    """``[rows]``"""
    wait_s: FloatArray
    """Seconds waited ``[rows]``."""
    since_call: IntArray
    """Call with which the member left the last common operation, -1 where the record begins ``[rows]``.

    Where the culprit left that one so much later than the waiter that this alone explains half of the wait, it had been
    late before: then it is the last operation that they left together, or the beginning, if one of them is near.
    """
    since_culprit: IntArray
    """The same of the culprit's location ``[rows]``."""
    met_s: FloatArray
    """When both were there, in a common operation that they need not leave together: of what either waited in it for
    others, the part from then on belongs to the stretch. Infinite where they left together ``[rows]``."""

    def __len__(self) -> int:
        return len(self.call)


def find_stretches(timeline: Timeline, waits: WaitStates) -> Stretches:
    """Find for every wait, and for the other members of its instance, the stretches to compare.

    Cost: linear in the rows, where ranks meet often.
    """
    calls, instances = timeline.calls, timeline.instances
    done = _done_calls(timeline)
    left = _left_calls(timeline, done)
    waiting = np.nonzero(waits.wait_s > 0.0)[0]
    call = waiting
    culprit = waits.culprit[waiting]
    instance = waits.instance[waiting]
    # The members that did not wait for this culprit.
    _, first = number_columns(instance, culprit)
    events = np.stack([instance[first], culprit[first]], axis=1)
    sizes = instances.first[events[:, 0] + 1] - instances.first[events[:, 0]]
    events = events[sizes > 2]
    sizes = sizes[sizes > 2]
    event_of = np.repeat(np.arange(len(events)), sizes)
    offset = np.arange(len(event_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    entry = instances.first[events[event_of, 0]] + offset
    other_call, other_culprit, other_instance = done[entry], events[event_of, 1], events[event_of, 0]
    keep = calls.location[other_call] != calls.location[other_culprit]
    keep &= waits.instance[other_call] != other_instance
    # In an epoch a member may have waited with one call and completed with another.
    twice = np.nonzero(keep & (_waits_of(instances.operation[other_instance]) == Waits.NAMED))[0]
    if len(twice):
        width = len(timeline.locations)
        waited = instance * width + calls.location[call]
        keep[twice] = ~np.isin(other_instance[twice] * width + calls.location[other_call[twice]], waited)
    call = np.concatenate([call, other_call[keep]])
    culprit = np.concatenate([culprit, other_culprit[keep]])
    instance = np.concatenate([instance, other_instance[keep]])
    wait_s = np.concatenate([waits.wait_s[waiting], np.zeros(int(keep.sum()))])
    row_of, member_location = ordered(culprit, len(calls)), calls.location[instances.members]
    member_enter_s, apart = calls.enter_s[instances.members], _apart(instances.operation)
    since_call, since_culprit, entry_call, entry_culprit = (np.full(len(call), -1, dtype=np.int64) for _ in range(4))

    def search(rows: IntArray) -> None:
        _common_operations(
            rows, call, culprit, instance, calls.location, calls.first, calls.posts, calls.wait_first, calls.waits,
            instances.first, member_location, left, wait_s, member_enter_s, calls.exit_s, apart, SEARCH_LIMIT,
            SEARCH_FURTHER, since_call, since_culprit, entry_call, entry_culprit,
        )  # fmt: skip

    # Rows of one culprit after each other: they look at the same calls.
    each(search, (row_of[at] for at in chunks(len(call))))
    met_s = _met(timeline, since_call, since_culprit, entry_call, entry_culprit)
    return Stretches(call, culprit, instance, wait_s, since_call, since_culprit, met_s)


def _met(
    timeline: Timeline, since_call: IntArray, since_culprit: IntArray, entry_call: IntArray, entry_culprit: IntArray
) -> FloatArray:
    """See :attr:`Stretches.met_s`; the entries are those of the common operation in the table of members."""
    calls, instances = timeline.calls, timeline.instances
    met = np.full(len(since_call), np.inf)
    rows = np.nonzero(since_call >= 0)[0]
    instance = np.searchsorted(instances.first, entry_call[rows], side="right") - 1
    rows = rows[_apart(instances.operation[instance])]
    enter = calls.enter_s[instances.members]
    both = np.maximum(enter[entry_call[rows]], enter[entry_culprit[rows]])
    there = calls.exit_s[since_culprit[rows]] >= both  # the member may have left before, with what it had to hand over
    met[rows[there]] = both[there]
    return met


def _waits_of(operation: IntArray) -> IntArray:
    table = waits_table()
    return np.asarray(table[np.clip(operation, 0, len(table) - 1)])


def _apart(operation: IntArray) -> np.ndarray:
    """Whether the members of an instance need not leave it together, by its operation."""
    return np.asarray(_waits_of(operation) != Waits.ALL)


def _done_calls(timeline: Timeline) -> IntArray:
    """Call with which each member of each instance left it: its last wait for it, or the post itself ``[members]``."""
    calls, instances = timeline.calls, timeline.instances
    done = instances.members.copy()
    _wait_calls(
        calls.wait_first, calls.waits, calls.posts, calls.location, instances.first,
        calls.location[instances.members], done,
    )  # fmt: skip
    return done


@numba.njit(cache=True, nogil=True)
def _wait_calls(wait_first, waits, posts, location, first, member_location, done):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put the last call of each location that waits for an instance in place of its post."""
    for call in range(len(posts)):
        for wait in range(wait_first[call], wait_first[call + 1]):
            if waits[wait] != posts[call]:
                entry = _member_at(waits[wait], location[call], first, member_location)
                if entry >= 0:
                    done[entry] = max(done[entry], call)


def _left_calls(timeline: Timeline, done: IntArray) -> IntArray:
    """Call after which each member of each instance had left it for the comparison of stretches ``[members]``.

    That is the call in which it completed. A message, though, that was complete before anybody asked for it was left
    when both sides had posted it: what its sender or receiver then waited for came after it.
    """
    calls, instances = timeline.calls, timeline.instances
    sizes = np.diff(instances.first)
    message = np.isin(instances.operation, MESSAGES) & (sizes == 2) & instances.complete
    entry = np.nonzero(np.repeat(message, sizes) & (done > instances.members))[0]
    instance_of = np.repeat(np.arange(len(instances), dtype=np.int64), sizes)[entry]
    enter = calls.enter_s[instances.members]
    both_s = np.maximum(enter[instances.first[instance_of]], enter[instances.first[instance_of] + 1])
    left = done.copy()
    early = both_s <= calls.enter_s[done[entry]]
    entry, both_s = entry[early], both_s[early]
    left[entry] = _last_before(instances.members[entry], done[entry], both_s, calls.exit_s)
    return left


@numba.njit(cache=True, nogil=True)
def _last_before(post, done, time_s, exit_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The last call from each post on, before its completion, that was over at a given time; at least the post."""
    result = np.empty_like(post)
    for row in range(len(post)):
        at = done[row] - 1
        while at > post[row] and exit_s[at] > time_s[row]:
            at -= 1
        result[row] = at
    return result


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _common_operations(  # type: ignore[no-untyped-def]  # pragma: no cover
    rows,
    call,
    culprit,
    instance,
    location,
    first,
    posts,
    wait_first,
    waits,
    member_first,
    member_location,
    left,
    wait_s,
    member_enter_s,
    exit_s,
    apart,
    limit,
    further,
    since_call,
    since_culprit,
    entry_call,
    entry_culprit,
):
    """For each of ``rows``, walk the culprit's calls back to the last instance that both locations have left.

    Fills in the calls with which each left it, and the entry of each in the table of members.
    """
    for row in rows:
        mine, late = call[row], culprit[row]
        here, there = location[mine], location[late]
        begin = max(first[there], late - limit)
        at = late - 1
        together = False
        while at >= begin and not together:
            touched = wait_first[at + 1] - wait_first[at]
            for t in range(touched + 1):
                other = waits[wait_first[at] + t] if t < touched else posts[at]
                if other < 0 or other == instance[row]:
                    continue
                entry = _member_at(other, here, member_first, member_location)
                if entry < 0 or left[entry] >= mine:
                    continue
                own = _member_at(other, there, member_first, member_location)
                if own < 0 or left[own] >= late:
                    continue
                both_s = max(member_enter_s[entry], member_enter_s[own])
                together = (
                    not apart[other]
                    or exit_s[left[own]] - exit_s[left[entry]] <= 0.5 * wait_s[row]
                    or min(exit_s[left[entry]], exit_s[left[own]]) >= both_s
                    or wait_s[row] <= 0.0
                )
                if together or since_culprit[row] < 0:
                    begin = max(begin, at - further)
                    since_call[row] = left[entry]
                    since_culprit[row] = left[own]
                    entry_call[row] = entry
                    entry_culprit[row] = own
                if together:
                    break
            at -= 1
        if not together and begin == first[there]:  # as late as it is since the record began
            since_call[row] = since_culprit[row] = entry_call[row] = entry_culprit[row] = -1
