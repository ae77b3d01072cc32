"""Operations in which a rank waits for some others, not for all of a communicator.

In a neighbourhood collective each rank waits for its neighbours; in an epoch of a window origins wait for the post of
each target, and targets for the completion of each origin; who takes a lock waits for whoever holds it, and an access
may have to wait until its target is in MPI. Each of these becomes *signals*: a call that gives one, and the calls that
wait for it. The wait states are those of Hermanns et al., "Understanding the formation of wait states in applications
with one-sided communication" (EuroMPI 2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numba
import numpy as np

from scalana.graphs.matching import _numbered, _running_count
from scalana.graphs.portions import chunks, each
from scalana.graphs.tables import BoolArray, Events, concatenate, take
from scalana.graphs.timeline import ROW, Calls, FloatArray, Instances, IntArray
from scalana.runtime.operations import BY_NAME, OPERATIONS

_NEIGHBOURS = BY_NAME["neighbor_collective"].code
_POST, _START, _COMPLETE, _WAIT = (BY_NAME[f"win_{name}"].code for name in ("post", "start", "complete", "wait"))
_LOCK, _UNLOCK, _FLUSH = (BY_NAME[f"win_{name}"].code for name in ("lock", "unlock", "flush"))
_ACCESS = BY_NAME["one_sided"].code
SIGNALLING = (_NEIGHBOURS, *range(_POST, _FLUSH + 1), _ACCESS)
"""Operations that signals are found from."""
_SENDS = [row.code for row in OPERATIONS if row.name.endswith("send")]
_PROGRESS_S = 1e-4
"""Partners that are away for less than this do not count."""
_BURST = 16
"""Calls that a partner may have begun since it came back."""
_EXCLUSIVE = 2
"""Tag of an exclusive lock in the record; others are shared."""
MOST_PAIRS = 10_000_000
"""Unlocks of all targets times targets up to which all of these are looked at."""


class Members(Protocol):
    """The name of a communicator and its world ranks.

    What belongs to another one has its name and a slash before its own: ``X/neighbours:3`` are those that rank 3
    receives from in X, and ``W/...`` those with whom an epoch of window W is.
    """

    @property
    def name(self) -> str: ...

    @property
    def ranks(self) -> Sequence[int]: ...


@dataclass(slots=True)
class Signals:
    """One row per call that waits for another one."""

    given: IntArray
    """Call that gives the signal ``[rows]``."""
    awaited: IntArray
    """Call that waits for it ``[rows]``."""
    operation: IntArray
    """What the instance is to be called ``[rows]``."""

    def __len__(self) -> int:
        return len(self.given)


def add_signals(
    calls: Calls,
    instances: Instances,
    events: Events,
    call_of_event: IntArray,
    rank_of_location: IntArray,
    communicators: Sequence[Members],
) -> Instances:
    """Find the signals; lets ``calls`` wait for them, and returns the instances with theirs behind the others.

    ``call_of_event`` ``[events]`` is the call of each event, -1 where it is none of its own.
    """
    rows = np.flatnonzero((call_of_event >= 0) & np.isin(events.operation, (_NEIGHBOURS, *range(_POST, _FLUSH + 1))))
    rank = rank_of_location[calls.location]
    found = [
        message_progress(calls, instances, rank, communicators),
        collective_progress(calls, instances, rank, communicators),
    ]
    if len(rows):
        accesses = np.flatnonzero((call_of_event >= 0) & (events.operation == _ACCESS))
        rows = np.union1d(rows, accesses)
        events, call = take(events, rows), call_of_event[rows]
        found += [
            neighbour_signals(calls, instances, rank, communicators),
            epoch_signals(events, call, rank[call], _windows(communicators), communicators),
            lock_signals(events, call, rank[call], calls),
            access_progress(events, call, rank[call], calls, rank, communicators),
        ]
    return _added(calls, instances, rank, concatenate(found, Signals))


def _signals(given: IntArray, awaited: IntArray, operation: int) -> Signals:
    return Signals(given, awaited, np.full(len(given), operation, np.int64))


# ---- neighbourhoods ----


def neighbour_signals(calls: Calls, instances: Instances, rank: IntArray, communicators: Sequence[Members]) -> Signals:
    """Who waits for a neighbourhood collective waits for the calls of those that it receives from."""
    owner = np.repeat(np.arange(len(calls), dtype=np.int64), np.diff(calls.wait_first))
    rows = np.flatnonzero(instances.operation[calls.waits] == _NEIGHBOURS)
    neighbours = _neighbours(communicators)
    communicator, at = instances.communicator[calls.waits[rows]], rank[owner[rows]]
    place = _numbered(communicator, at)
    order = np.argsort(place, kind="stable")
    given, awaited = [], []
    for group in np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if len(order) else ():
        me = int(at[group[0]])
        there = np.array(neighbours.get((int(communicator[group[0]]), me), ()), np.int64)
        here = rows[group]
        instance = calls.waits[here]
        # Its own call too: it may have to stay until the others come to take what it sends.
        entry, waiter = _expand(instances.first[instance], instances.first[instance + 1], owner[here])
        member = instances.members[entry]
        wanted = np.isin(rank[member], np.append(there, me))
        given.append(member[wanted])
        awaited.append(waiter[wanted])
    nothing = [np.zeros(0, np.int64)]
    return _signals(np.concatenate(given or nothing), np.concatenate(awaited or nothing), _NEIGHBOURS)


def _neighbours(communicators: Sequence[Members]) -> dict[tuple[int, int], Sequence[int]]:
    """World ranks from which a rank receives, by (communicator, rank)."""
    number = {communicator.name: row for row, communicator in enumerate(communicators)}
    found = {}
    for communicator in communicators:
        of, _, what = communicator.name.rpartition("/neighbours:")
        if of in number and what.isdigit():
            found[number[of], int(what)] = communicator.ranks
    return found


# ---- post, start, complete, wait ----


def _windows(communicators: Sequence[Members]) -> IntArray:
    """Number of the window (or communicator) that each communicator belongs to ``[communicators]``."""
    numbers: dict[str, int] = {}
    owner = [communicator.name.partition("/")[0] for communicator in communicators]
    return np.array([numbers.setdefault(name, len(numbers)) for name in owner], np.int64)


def _members(communicators: Sequence[Members]) -> tuple[IntArray, IntArray]:
    """Where the world ranks of each communicator begin ``[communicators + 1]``, and these, one behind the other."""
    size = np.array([len(communicator.ranks) for communicator in communicators], np.int64)
    first = np.r_[0, np.cumsum(size)].astype(np.int64)
    return first, np.array([member for communicator in communicators for member in communicator.ranks], np.int64)


def epoch_signals(
    events: Events, call: IntArray, rank: IntArray, windows: IntArray, communicators: Sequence[Members]
) -> Signals:
    """Origins wait for the posts of their targets, in start or complete, and targets for their origins' completes.

    The epochs of an origin and a target follow each other on both sides. Where a record lacks one, those of its window
    cannot be told.
    """
    rows = np.flatnonzero(np.isin(events.operation, (_POST, _START, _COMPLETE, _WAIT)) & (events.communicator >= 0))
    rows = rows[np.argsort(events.enter_ns[rows], kind="stable")]
    operation, own, window = events.operation[rows], rank[rows], windows[events.communicator[rows]]
    begins = np.isin(operation, (_POST, _START))
    key = _numbered(window, operation, own)
    order = np.argsort(key, kind="stable")
    count = np.empty(len(rows), np.int64)
    count[order] = _running_count(key[order])
    lacks = np.isin(window, window[begins & (events.seq[rows] != count)])
    first, members = _members(communicators)

    def partners(*codes: int) -> tuple[IntArray, IntArray, IntArray]:
        """(window, own rank, partner, which) as rows, event rows, and their codes, for some operations."""
        at = np.flatnonzero(np.isin(operation, codes) & ~lacks)
        group = events.communicator[rows[at]]
        entry, which = _expand(first[group], first[group + 1], at)
        pair = _numbered(operation[which], window[which], own[which], members[entry])
        order = np.argsort(pair, kind="stable")
        number = np.empty(len(pair), np.int64)
        number[order] = _running_count(pair[order])
        return np.stack((window[which], own[which], members[entry], number)), which, operation[which]

    def meet(giver: int, *waiters: int) -> Signals:
        one, gave, _ = partners(giver)
        two, waits, _ = partners(*waiters)
        both = np.concatenate((one[[0, 1, 2, 3]], two[[0, 2, 1, 3]]), axis=1)
        key = _numbered(*both)
        left, right = key[: len(gave)], key[len(gave) :]
        order = np.argsort(left, kind="stable")
        at = np.minimum(np.searchsorted(left[order], right), max(len(left) - 1, 0))
        known = left[order][at] == right if len(left) else np.zeros(len(right), np.bool_)
        return _signals(call[rows[gave[order][at[known]]]], call[rows[waits[known]]], giver)

    return concatenate([meet(_POST, _START, _COMPLETE), meet(_COMPLETE, _WAIT)], Signals)


# ---- locks ----


def lock_signals(events: Events, call: IntArray, rank: IntArray, calls: Calls) -> Signals:
    """Calls of an epoch that begins with a lock wait for the last conflicting one that ended while they lasted."""
    rows = np.flatnonzero(np.isin(events.operation, (_LOCK, _UNLOCK, _FLUSH)) & (events.communicator >= 0))
    if not (events.tag[rows] == _EXCLUSIVE).any():
        return _signals(np.zeros(0, np.int64), np.zeros(0, np.int64), _UNLOCK)
    rows = rows[np.lexsort((events.enter_ns[rows], events.communicator[rows]))]
    window, own, target, at = events.communicator[rows], rank[rows], events.peer[rows], call[rows]
    exclusive, last, held = _lock_epochs(events.operation[rows], _numbered(window, own, target), events.tag[rows])
    usable = last >= 0
    unlock_s = np.where(usable, calls.exit_s[at[np.maximum(last, 0)]], np.inf)
    is_unlock = events.operation[rows] == _UNLOCK
    given = _conflicting(
        window, own, target, exclusive, held, unlock_s, is_unlock & usable, calls.enter_s[at], calls.exit_s[at]
    )
    waits = np.flatnonzero(given >= 0)
    return _signals(at[given[waits]], at[waits], _UNLOCK)


def _lock_epochs(operation: IntArray, place: IntArray, tag: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Of the calls on a (window, rank, target), in order: whether their lock is exclusive, the row of their unlock (-1
    where there is none), and whether they come behind a flush, with which the lock is held at the latest.
    """
    exclusive, last = np.zeros(len(operation), np.int64), np.full(len(operation), -1, np.int64)
    order = np.argsort(place, kind="stable")
    begins = np.r_[True, place[order][1:] != place[order][:-1]] | (operation[order] == _LOCK)
    begins |= np.r_[False, (operation[order] == _UNLOCK)[:-1]]
    epoch = np.cumsum(begins) - 1
    of_epoch = np.zeros(int(epoch.max(initial=-1)) + 1, np.int64)
    np.maximum.at(of_epoch, epoch, np.where(operation[order] == _LOCK, tag[order] == _EXCLUSIVE, 0))
    end = np.full(len(of_epoch), -1, np.int64)
    unlock = operation[order] == _UNLOCK
    end[epoch[unlock]] = order[unlock]
    exclusive[order], last[order] = of_epoch[epoch], end[epoch]
    flushes = np.cumsum(operation[order] == _FLUSH)
    before = flushes - (operation[order] == _FLUSH)
    held = np.zeros(len(operation), np.bool_)
    held[order] = before > before[np.flatnonzero(begins)][epoch]
    return exclusive, last, held


@numba.njit(cache=True)
def _conflicting(window, rank, target, exclusive, held, unlock_s, is_unlock, enter_s, exit_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Row of the unlock that each call waits for, -1 for none. Rows are sorted by (window, enter).

    That is the latest unlock that another rank began during the call, of a lock on the same target of which one is
    exclusive, and that was over before the own unlock was; or that the call soon followed: who unlocks may come out
    later than who is let in. Whose lock is held waits for none.
    """
    result = np.full(len(window), -1, dtype=np.int64)
    for row in range(len(window)):
        if held[row]:
            continue
        other = row + 1
        while other < len(window) and window[other] == window[row] and enter_s[other] < exit_s[row]:
            same = target[other] == target[row] or target[other] < 0 or target[row] < 0
            if is_unlock[other] and rank[other] != rank[row] and same and (exclusive[other] or exclusive[row]):
                soon = 2.0 * (exit_s[row] - enter_s[other]) <= enter_s[other] - enter_s[row]
                if exit_s[other] <= unlock_s[row] or soon:
                    result[row] = other
            other += 1
    return result


# ---- progress ----


def message_progress(calls: Calls, instances: Instances, rank: IntArray, communicators: Sequence[Members]) -> Signals:
    """Calls for messages that ended when their partner came back to MPI, though it had posted its part before.

    A large message, or one for which there is no room, goes on only while both sides are in MPI.
    """
    by_mpi = np.array([_is_of_mpi(communicator.name) for communicator in communicators] + [False])
    message = (np.diff(instances.first) == 2) & np.isin(instances.operation, _SENDS) & by_mpi[instances.communicator]
    if not message.any():
        return _signals(np.zeros(0, np.int64), np.zeros(0, np.int64), _FLUSH)

    def staying(at: slice) -> IntArray:
        """Rows of ``calls.waits`` of some calls that stay in MPI for a message."""
        of = np.diff(calls.wait_first[at.start : at.stop + 1])
        first, last = int(calls.wait_first[at.start]), int(calls.wait_first[at.stop])
        stays = np.repeat(calls.exit_s[at] - calls.enter_s[at] >= _PROGRESS_S, of)
        return first + np.flatnonzero(stays & message[calls.waits[first:last]])

    rows = np.concatenate(each(staying, chunks(len(calls))))
    waiter = _callers(rows, calls)
    entry = instances.first[calls.waits[rows]]
    one, two = rank[instances.members[entry]], rank[instances.members[entry + 1]]
    receives = rank[waiter] != one
    until_s = np.empty(len(rows))
    for these, of_sender in ((receives, True), (~receives, False)):
        until_s[these] = _done_s(rows[these], of_sender, calls, instances, rank)
    # What its sender is done with lies with the receiver.
    asks = ~receives | (until_s > calls.enter_s[waiter])
    until_s[receives] = np.inf
    return _came_back(rows[asks], waiter[asks], np.where(receives, one, two)[asks], calls, rank, until_s[asks])


def _done_s(rows: IntArray, of_sender: bool, calls: Calls, instances: Instances, rank: IntArray) -> FloatArray:
    """When the sender, or else the receiver, was done with the message of each of ``rows`` of ``calls.waits``, in
    seconds; infinite where that is not known ``[rows]``."""
    asked = np.zeros(len(instances), np.bool_)
    asked[calls.waits[rows]] = True
    done = np.flatnonzero(asked[calls.waits])
    owner = _callers(done, calls)
    is_sender = rank[owner] == rank[instances.members[instances.first[calls.waits[done]]]]
    done, owner = done[is_sender == of_sender], owner[is_sender == of_sender]
    done_s = np.full(len(instances), np.inf)
    done_s[calls.waits[done]] = calls.exit_s[owner]
    return np.asarray(done_s[calls.waits[rows]])


def collective_progress(
    calls: Calls, instances: Instances, rank: IntArray, communicators: Sequence[Members]
) -> Signals:
    """Calls that complete a collective posted before, and ended when the last member came back to MPI to complete it.

    All had posted it, but what a member passes on to others it may pass on only while it is in MPI.
    """
    by_mpi = np.array([_is_of_mpi(communicator.name) for communicator in communicators] + [False])
    wanted = by_mpi[instances.communicator] & ~np.isin(instances.operation, (*_SENDS, *SIGNALLING)) & instances.complete
    if not wanted.any():
        return _signals(np.zeros(0, np.int64), np.zeros(0, np.int64), _FLUSH)
    completes = np.repeat(calls.posts, np.diff(calls.wait_first)) != calls.waits
    rows = np.flatnonzero(completes & wanted[calls.waits])
    owner, instance = _callers(rows, calls), calls.waits[rows]
    latest_s, last = np.full(len(instances), -np.inf), np.full(len(instances), -1, np.int64)
    np.maximum.at(latest_s, instance, calls.enter_s[owner])
    is_last = calls.enter_s[owner] == latest_s[instance]
    last[instance[is_last]] = rank[owner[is_last]]
    asks = ~is_last & (calls.exit_s[owner] - calls.enter_s[owner] >= _PROGRESS_S)
    return _came_back(rows[asks], owner[asks], last[instance[asks]], calls, rank)


def _callers(rows: IntArray, calls: Calls) -> IntArray:
    """The calls that wait for what some rows of ``calls.waits`` say."""
    return np.searchsorted(calls.wait_first, rows, side="right") - 1


def _came_back(
    rows: IntArray,
    waiter: IntArray,
    partner: IntArray,
    calls: Calls,
    rank: IntArray,
    until_s: FloatArray | float = np.inf,
) -> Signals:
    """The signals that partners give by coming back to MPI, to calls that wait for what ``rows`` of ``calls.waits``
    say. Who comes back after it has had its part (``until_s``) gives none: a waiter that stays lacks a core, say."""
    given = _returns(waiter, partner, calls, rank)
    # Where a partner came back with its part of this operation, that is known already.
    found = (given >= 0) & (calls.posts[given] != calls.waits[rows]) & (calls.enter_s[given] < until_s)
    return _signals(given[found], waiter[found], _FLUSH)


def _is_of_mpi(name: str) -> bool:
    return name == "world" or name.startswith("comm:")


def access_progress(
    events: Events,
    call: IntArray,
    rank: IntArray,
    calls: Calls,
    rank_of_call: IntArray,
    communicators: Sequence[Members],
) -> Signals:
    """Locks of, and accesses to, a target that was outside of MPI wait until it enters MPI, where they last until then.

    Where the library needs no help of the target they return at once, and have not waited. Accesses are taken to be
    waited for in the call that completes them: an unlock or a flush. An unlock of all targets may need the help of
    all, accessed or not (where there are more than :data:`MOST_PAIRS` of both, only of those accessed).
    """
    asks = np.isin(events.operation, (_LOCK, _UNLOCK, _FLUSH)) & (events.communicator >= 0)
    single = np.flatnonzero(asks & (events.peer >= 0))
    waiter, target = call[single], events.peer[single]
    several = np.flatnonzero(asks & (events.peer < 0) & (events.operation != _LOCK))
    if len(several):
        access = np.flatnonzero((events.operation == _ACCESS) & (events.peer >= 0) & (events.communicator >= 0))
        owner = _next_of_its_own(events, rank, access, several)
        pairs = np.unique(np.stack((call[owner[owner >= 0]], events.peer[access[owner >= 0]])), axis=1)
        first, members = _members(communicators)
        ends = several[events.operation[several] == _UNLOCK]
        group = events.communicator[ends]
        if float((first[group + 1] - first[group]).sum()) > MOST_PAIRS:
            group, ends = group[:0], ends[:0]
        entry, of_end = _expand(first[group], first[group + 1], ends)
        waiter = np.concatenate((waiter, pairs[0], call[of_end]))
        target = np.concatenate((target, pairs[1], members[entry]))
    given = _returns(waiter, target, calls, rank_of_call)
    found = given >= 0
    return _signals(given[found], waiter[found], _FLUSH)


def _returns(waiter: IntArray, partner: IntArray, calls: Calls, rank: IntArray) -> IntArray:
    """The call with which the partner of each waiter came back to MPI and so let it end, -1 where it did not."""
    result = np.full(len(waiter), -1, np.int64)
    if not len(waiter):
        return result

    def turns_back(at: slice) -> bool:
        at = slice(max(at.start - 1, 0), at.stop)
        step = np.diff(rank[at])
        return bool(((step < 0) | ((step == 0) & (np.diff(calls.enter_s[at]) < 0))).any())

    order, by_rank = np.arange(len(rank), dtype=ROW), rank
    if any(each(turns_back, chunks(len(rank)))):  # several threads of a rank
        order = np.lexsort((calls.enter_s, rank)).astype(ROW)
        by_rank = rank[order]
    first = np.searchsorted(by_rank, np.arange(int(max(rank.max(initial=0), partner.max(initial=0))) + 2))
    reach = np.empty(len(order))
    _last_return(waiter, partner, order, first, rank, calls.enter_s, calls.exit_s, _PROGRESS_S, reach, result)
    return result


def _next_of_its_own(events: Events, rank: IntArray, access: IntArray, several: IntArray) -> IntArray:
    """The call for all targets that completes each access: the next of its rank on its window, -1 if none is."""
    key = _numbered(events.communicator, rank)
    begin_ns = int(events.enter_ns.min())
    moment = key * (int(events.enter_ns.max()) - begin_ns + 1) + events.enter_ns - begin_ns
    later = several[np.argsort(moment[several], kind="stable")]
    position = np.searchsorted(moment[later], moment[access])
    result = np.full(len(access), -1, np.int64)
    inside = position < len(later)
    result[inside] = later[position[inside]]
    result[inside] = np.where(key[result[inside]] == key[access[inside]], result[inside], -1)
    return result


@numba.njit(cache=True, nogil=True)
def _last_return(  # type: ignore[no-untyped-def]  # pragma: no cover
    waiter, partner, order, first, rank, enter_s, exit_s, least_s, reach, result
):
    """The call with which a partner came back during each waiter, after it was away, and soon before the waiter ended.

    Away: for at least half of the time from the waiter's entry on. Soon: within half of the time that it was away.
    ``order`` are the calls by rank and entry, those of a rank from ``first[rank]`` on. ``reach`` is room ``[calls]``,
    ``result`` what comes out ``[waiters]``, -1 everywhere before.
    """
    for here in range(len(first) - 1):
        latest = -np.inf
        for place in range(first[here], first[here + 1]):
            latest = max(latest, exit_s[order[place]])
            reach[place] = latest
    for row in range(len(waiter)):
        since, until = enter_s[waiter[row]], exit_s[waiter[row]]
        if until - since < least_s or rank[waiter[row]] == partner[row]:
            continue
        begin = first[partner[row]]
        low, high = begin, first[partner[row] + 1]
        while low < high:
            middle = (low + high) // 2
            if enter_s[order[middle]] <= until:
                low = middle + 1
            else:
                high = middle
        for place in range(low - 1, max(begin, low - 1 - _BURST) - 1, -1):
            came = enter_s[order[place]]
            away = came - (max(since, reach[place - 1]) if place > begin else since)
            if away >= least_s and 2 * away >= came - since and 2 * (until - came) <= away:
                result[row] = order[place]
                break
            if came <= since:
                break


# ---- into the timeline ----


def _expand(first: IntArray, end: IntArray, owner: IntArray) -> tuple[IntArray, IntArray]:
    """All numbers of the ranges, and the owner of the range of each."""
    size = end - first
    begins = np.cumsum(size) - size
    return np.arange(int(size.sum())) + np.repeat(first - begins, size), np.repeat(owner, size)


def _added(calls: Calls, instances: Instances, rank: IntArray, signals: Signals) -> Instances:
    """One more instance per call that gives a signal: its members are that call and one per location that waits."""
    given, instance = np.unique(signals.given, return_inverse=True)
    if not len(given):
        return instances
    instance = instance.reshape(-1)
    base = len(instances)
    operation = np.zeros(len(given), instances.operation.dtype)
    operation[instance] = signals.operation
    # The calls that give one name it as theirs, unless they take part in something already, or only wait.
    free = given[(calls.posts[given] < 0) & np.isin(calls.operation[given], (_POST, _COMPLETE, _UNLOCK))]
    calls.posts[free] = base + np.searchsorted(given, free)

    member = np.concatenate((given, signals.awaited))
    of = np.concatenate((np.arange(len(given)), instance))
    gives = np.r_[np.zeros(len(given), np.int64), np.ones(len(signals), np.int64)]
    order = np.lexsort((member, gives, calls.location[member], of))
    member, of = member[order], of[order]
    first_there = np.r_[True, (of[1:] != of[:-1]) | (np.diff(calls.location[member]) != 0)]
    member, of = member[first_there], of[first_there]
    first = np.searchsorted(of, np.arange(len(given) + 1)).astype(np.int64)

    owner = np.repeat(np.arange(len(calls), dtype=np.int64), np.diff(calls.wait_first))
    owner = np.concatenate((owner, signals.awaited))
    waits = np.concatenate((calls.waits, base + instance))
    by_owner = np.argsort(owner, kind="stable")
    calls.waits = waits[by_owner].astype(calls.waits.dtype)
    calls.wait_first = np.searchsorted(owner[by_owner], np.arange(len(calls) + 1)).astype(calls.wait_first.dtype)
    return Instances(
        operation=np.concatenate((instances.operation, operation)),
        communicator=np.concatenate((instances.communicator, np.full(len(given), -1, instances.communicator.dtype))),
        root=np.concatenate((instances.root, rank[given]), dtype=instances.root.dtype, casting="same_kind"),
        first=np.concatenate((instances.first, instances.first[-1] + first[1:])),
        members=np.concatenate((instances.members, member), dtype=instances.members.dtype, casting="same_kind"),
        complete=np.concatenate((instances.complete, np.ones(len(given), np.bool_))),
    )
