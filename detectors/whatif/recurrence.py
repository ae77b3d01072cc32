"""The recurrence of replays: a max-plus recurrence over the matched calls.

A call is entered when its predecessor has been left and the own work between is done, and left when the last arrival
that it waits for is there, plus its transfer. What is read of a call is the same for all changes that are replayed side
by side. Every rank goes on until it has to wait for another, so that what is looked at together lies together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import ROW

MEETING = np.dtype(
    [
        ("last_s", np.float64),  # when the last member came, as it was measured
        ("lacking", ROW),  # members that have not come yet
        ("waiting", ROW),  # the first location of those that wait for one of them, -1 if none does
    ]
)
"""An instance, while a replay is under way."""


class Run(NamedTuple):
    """A run as it was."""

    first: IntArray
    """Start of each location's calls ``[locations + 1]``."""
    enter_s: FloatArray
    """``[calls]``, as the next four."""
    exit_s: FloatArray
    location: IntArray
    posts: IntArray
    earliest: npt.NDArray[np.bool_]
    """Whether the first arrival is enough."""
    wait_first: IntArray
    """Start of what each call waits for ``[calls + 1]``."""
    rule: IntArray
    """How it waits, see Dependencies ``[pairs]``, as the next two."""
    instance: IntArray
    """For which instance."""
    on: IntArray
    """For which call."""
    waiting_s: FloatArray
    """What of every burst was waiting in unwritten calls ``[bursts]``, empty where all were written."""
    member_first: IntArray
    """Start of each instance's members ``[instances + 1]``."""
    members: IntArray
    rank: IntArray
    """``[locations]``"""


class Changes(NamedTuple):
    """Some changes, side by side."""

    least_gap_s: FloatArray
    """The least that a burst takes ``[changes]``."""
    row: IntArray
    """Row of every call in the next two, -1 where nothing changes ``[calls]``."""
    removed_s: FloatArray
    """What goes from the burst before ``[rows, changes]``, without rows where nothing goes from any."""
    shorter_s: FloatArray
    """What goes from the transfer, likewise."""


@compiled
def replay(run, changed, before_s, now, meetings, arrival, times):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Replay all changes at once: columns of two-dimensional arrays are of one change each.

    Every location goes on until it waits for an arrival that is not known yet, and goes on from there when it is.
    ``before_s`` and ``now`` begin with the starts of the locations, as they were measured and as they are now,
    ``arrival`` with -inf. ``times`` are entries and exits, which are filled in, the latter if they have rows. Returns
    the ends of the last calls.
    """
    # One loop, as parts of it take eight times as long: numba counts references to all columns at each call of a part.
    (
        first, entry_s, left_s, location, posts, earliest, wait_first, rules, instances, on, waiting_s, member_first,
        members, rank,
    ) = run  # fmt: skip
    least_gap_s, row_of, removed_s, shorter_s = changed
    enter, leave = times
    locations, changes = len(now), len(least_gap_s)
    at, entered, pair_of = first[:-1].copy(), np.zeros(locations, np.bool_), np.zeros(locations, np.int64)
    # Who waits is in the list of the instance or, if for the entry of one call, in that of this call's location.
    waiting, following = np.full(locations, -1), np.full(locations, -1)
    waits_in, awaited = np.full(locations, -1), np.full(locations, -1)
    ready, count = np.arange(locations)[::-1].copy(), locations
    this, will = np.empty(changes), np.empty(changes)
    ahead = np.empty(changes)  # of when a call was entered, as it was measured
    while True:
        if count == 0:
            here = _first_stuck(first, at, left_s)
            if here < 0:
                return now
            # A circle, as clocks that differ can make it: the first to go on did so with what it had.
            if awaited[here] >= 0:
                waiting[waits_in[here]] = _without(waiting[waits_in[here]], following, here)
            else:
                meetings[waits_in[here]].waiting = _without(meetings[waits_in[here]].waiting, following, here)
            pair_of[here] = wait_first[at[here] + 1]
            ready[0], count = here, 1
        count -= 1
        here = ready[count]
        while at[here] < first[here + 1]:
            call = at[here]
            enter_s, exit_s = entry_s[call], left_s[call]
            row, instance, end = row_of[call], posts[call], wait_first[call + 1]
            if not entered[here]:
                entered[here], pair_of[here] = True, wait_first[call]
                burst_s = enter_s - before_s[here]
                if len(waiting_s):
                    burst_s = max(burst_s - waiting_s[call], 0.0)
                for change in range(changes):
                    burst = burst_s - (removed_s[row, change] if row >= 0 and len(removed_s) else 0.0)
                    now[here, change] += max(burst, least_gap_s[change])
                    enter[call, change] = now[here, change]
                    if instance >= 0:
                        arrival[instance, change] = max(arrival[instance, change], now[here, change])
                if instance >= 0:
                    meetings[instance].lacking -= 1
                    if meetings[instance].lacking == 0:
                        other = meetings[instance].waiting
                        while other >= 0:
                            ready[count], count, other = other, count + 1, following[other]
                        meetings[instance].waiting = -1
                if waiting[here] >= 0:
                    count = _wake(waiting, following, here, awaited, call, ready, count)
            pair, waited_in = pair_of[here], -1
            while pair < end:
                rule, met = rules[pair], instances[pair]
                if rule == 1:
                    if meetings[met].lacking > 0 and (meetings[met].last_s <= exit_s or not earliest[call]):
                        waited_in, awaited[here] = met, -1
                elif rule == 2:
                    other = on[pair]
                    there = location[other]
                    to_come = at[there] < other or (at[there] == other and not entered[there])
                    if to_come and (entry_s[other] <= exit_s or not earliest[call]):
                        waited_in, awaited[here] = there, other
                elif rule == 3:
                    for entry in range(member_first[met], member_first[met + 1]):
                        member = members[entry]
                        lower = rank[location[member]] < rank[here]
                        if lower and _is_to_come(member, exit_s, entry_s, location, at, entered):
                            waited_in, awaited[here] = location[member], member
                if waited_in >= 0:
                    break
                pair += 1
            pair_of[here] = pair
            if waited_in >= 0:
                waits_in[here] = waited_in
                if awaited[here] >= 0:
                    following[here], waiting[waited_in] = waiting[waited_in], here
                else:
                    following[here], meetings[waited_in].waiting = meetings[waited_in].waiting, here
                break
            # The release, as it was measured and as it is now. Where it left before what released it, by clocks that
            # differ, it does so now; and what is not known is as much earlier as the location is here.
            any_rule = False
            then = -np.inf
            for change in range(changes):
                this[change], ahead[change] = -np.inf, enter_s - enter[call, change]
            for pair in range(wait_first[call], end):
                was = -np.inf
                rule, met = rules[pair], instances[pair]
                if rule == 1:
                    came_s = meetings[met].last_s
                    known = came_s <= exit_s or not earliest[call]
                    was = min(came_s, exit_s) if known else came_s
                    for change in range(changes):
                        will[change] = arrival[met, change] - (came_s - was) if known else came_s - ahead[change]
                elif rule == 2:
                    other = on[pair]
                    there = location[other]
                    came_s = entry_s[other]
                    released = came_s <= exit_s or not earliest[call]
                    known = released and (at[there] > other or (at[there] == other and entered[there]))
                    was = min(came_s, exit_s) if released else came_s
                    for change in range(changes):
                        will[change] = enter[other, change] - (came_s - was) if known else was - ahead[change]
                elif rule == 3:
                    for change in range(changes):
                        will[change] = -np.inf
                    for entry in range(member_first[met], member_first[met + 1]):
                        member = members[entry]
                        if rank[location[member]] < rank[here]:
                            came_s = min(entry_s[member], exit_s)
                            was = max(was, came_s)
                            known = _has_come(member, exit_s, entry_s, location, at, entered)
                            for change in range(changes):
                                comes_s = enter[member, change] if known else came_s - ahead[change]
                                will[change] = max(will[change], comes_s)
                else:
                    continue
                then = was if not any_rule else min(then, was) if earliest[call] else max(then, was)
                for change in range(changes):
                    if not any_rule:
                        this[change] = will[change]
                    elif earliest[call]:
                        this[change] = min(this[change], will[change])
                    else:
                        this[change] = max(this[change], will[change])
                any_rule = True
            then = min(then, exit_s)
            inside = exit_s - max(then, enter_s)
            for change in range(changes):
                transfer = max(inside - (shorter_s[row, change] if row >= 0 and len(shorter_s) else 0.0), 0.0)
                if instance < 0 and then > enter_s:
                    # The completion of an operation posted before: it goes on by itself from its release.
                    now[here, change] = max(this[change] + transfer, enter[call, change])
                else:
                    now[here, change] = max(this[change], enter[call, change]) + transfer
                if len(leave):
                    leave[call, change] = now[here, change]
            entered[here] = False
            at[here], before_s[here] = call + 1, exit_s


@compiled
def _has_come(call, exit_s, entry_s, location, at, entered):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether a call is known to have been entered, as it was when another one was left."""
    there = location[call]
    return entry_s[call] <= exit_s and (at[there] > call or (at[there] == call and entered[there]))


@compiled
def _is_to_come(call, exit_s, entry_s, location, at, entered):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether a call had been entered when another one was left, and is not known to be yet."""
    return entry_s[call] <= exit_s and not _has_come(call, exit_s, entry_s, location, at, entered)


@compiled
def _wake(waiting, following, which, awaited, call, ready, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put those of a list that wait for nothing behind a call with what is ready; returns how many are."""
    location = waiting[which]
    waiting[which] = -1
    while location >= 0:
        after = following[location]
        if awaited[location] <= call:
            ready[count] = location
            count += 1
        else:
            following[location], waiting[which] = waiting[which], location
        location = after
    return count


@compiled
def _first_stuck(first, at, left_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Of the locations that have not come to their end the one that left its call first, -1 where all have."""
    result = -1
    for here in range(len(at)):
        if at[here] < first[here + 1] and (result < 0 or left_s[at[here]] < left_s[at[result]]):
            result = here
    return result


@compiled
def _without(first, following, location):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Take a location out of a list; returns the first of those that are left."""
    if first == location:
        return following[location]
    before = first
    while following[before] != location:
        before = following[before]
    following[before] = following[location]
    return first
