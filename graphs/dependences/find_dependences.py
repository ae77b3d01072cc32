"""All signals of a job, and what they make of its timeline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.graphs.arrays.columns import concatenate, take
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.dependences.matching import _numbered
from scalana.graphs.dependences.progress import blocking_progress, collective_progress, message_progress
from scalana.graphs.dependences.remote import remote_signals
from scalana.graphs.dependences.returns import access_progress
from scalana.graphs.dependences.rma import epoch_signals, lock_signals, windows_of
from scalana.graphs.dependences.rows import (
    ACCESS,
    COMPLETE,
    FLUSH,
    NEIGHBOURS,
    POST,
    UNLOCK,
    Members,
    Signals,
    expand,
    members_of,
    signals_of,
)
from scalana.graphs.readers.folder.records import Events
from scalana.graphs.timeline import Calls, Instances
from scalana.runtime.operations import GIVING, TAKING


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
    rank = rank_of_location[calls.location]
    remote = np.flatnonzero(np.isin(events.operation, (*GIVING, *TAKING)))
    if len(remote):
        instances = _added(calls, instances, rank, remote_signals(take(events, remote), call_of_event[remote]))
    rows = np.flatnonzero((call_of_event >= 0) & np.isin(events.operation, (NEIGHBOURS, *range(POST, FLUSH + 1))))
    if not len(rows):
        return instances
    accesses = np.flatnonzero((call_of_event >= 0) & (events.operation == ACCESS))
    rows = np.union1d(rows, accesses)
    events, call, members = take(events, rows), call_of_event[rows], members_of(communicators)
    found = [
        neighbour_signals(calls, instances, rank, communicators),
        epoch_signals(events, call, rank[call], windows_of(communicators), members),
        lock_signals(events, call, rank[call], calls),
        access_progress(events, call, rank[call], calls, rank, members),
    ]
    return _added(calls, instances, rank, concatenate(found, Signals))


def add_progress(
    calls: Calls, instances: Instances, rank_of_location: IntArray, communicators: Sequence[Members]
) -> Instances:
    """The same for what goes on only while the other side is in MPI, once it is known when calls began and ended."""
    rank = rank_of_location[calls.location]
    kinds = (message_progress, collective_progress, blocking_progress)
    found = [progress(calls, instances, rank, communicators) for progress in kinds]
    return _added(calls, instances, rank, concatenate(found, Signals))


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
    free = given[(calls.posts[given] < 0) & np.isin(calls.operation[given], (POST, COMPLETE, UNLOCK, *GIVING))]
    calls.posts[free] = base + np.searchsorted(given, free)

    member = np.concatenate((given, signals.awaited))
    of = np.concatenate((np.arange(len(given)), instance))
    gives = np.r_[np.zeros(len(given), np.int64), np.ones(len(signals), np.int64)]
    order = np.lexsort((member, gives, calls.location[member], of))
    member, of, gives = member[order], of[order], gives[order]
    first_there = np.r_[True, (of[1:] != of[:-1]) | (np.diff(calls.location[member]) != 0)]
    member, of, gives = member[first_there], of[first_there], gives[first_there]
    # What is handed to one other is a message: of two members, the one that gives it is first.
    message = np.isin(operation, GIVING) & (np.bincount(of, minlength=len(given)) == 2)
    member = member[np.lexsort((np.where(message[of], gives, 0), of))]
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


def neighbour_signals(calls: Calls, instances: Instances, rank: IntArray, communicators: Sequence[Members]) -> Signals:
    """Who waits for a neighbourhood collective waits for the calls of those that it receives from."""
    owner = np.repeat(np.arange(len(calls), dtype=np.int64), np.diff(calls.wait_first))
    rows = np.flatnonzero(instances.operation[calls.waits] == NEIGHBOURS)
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
        entry, waiter = expand(instances.first[instance], instances.first[instance + 1], owner[here])
        member = instances.members[entry]
        wanted = np.isin(rank[member], np.append(there, me))
        given.append(member[wanted])
        awaited.append(waiter[wanted])
    nothing = [np.zeros(0, np.int64)]
    return signals_of(np.concatenate(given or nothing), np.concatenate(awaited or nothing), NEIGHBOURS)


def _neighbours(communicators: Sequence[Members]) -> dict[tuple[int, int], Sequence[int]]:
    """World ranks from which a rank receives, by (communicator, rank)."""
    number = {communicator.name: row for row, communicator in enumerate(communicators)}
    found = {}
    for communicator in communicators:
        of, _, what = communicator.name.rpartition("/neighbours:")
        if of in number and what.isdigit():
            found[number[of], int(what)] = communicator.ranks
    return found
