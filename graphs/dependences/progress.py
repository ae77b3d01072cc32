"""Progress: what goes on only while both sides are in MPI ends when the partner comes back to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.shards import chunks, each, portions_of
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.dependences.returns import PROGRESS_S, lets_end, returns_of
from scalana.graphs.dependences.rows import FLUSH, SIGNALLING, Members, Signals, signals_of
from scalana.graphs.timeline import ROW, Calls, Instances
from scalana.runtime.operations import OPERATIONS

_SENDS = [row.code for row in OPERATIONS if row.name.endswith("send")]
_MOST_BACK = 16
"""Members that came back shortly before a call ended, of which one may have let it end."""


def message_progress(calls: Calls, instances: Instances, rank: IntArray, communicators: Sequence[Members]) -> Signals:
    """Calls for messages that ended when their partner came back to MPI, though it had posted its part before.

    A large message, or one for which there is no room, goes on only while both sides are in MPI.
    """
    message = (np.diff(instances.first) == 2) & np.isin(instances.operation, _SENDS) & _of_mpi(instances, communicators)
    if not message.any():
        return signals_of(np.zeros(0, np.int64), np.zeros(0, np.int64), FLUSH)

    def staying(at: slice) -> IntArray:
        """Rows of ``calls.waits`` of some calls that stay in MPI for a message."""
        of = np.diff(calls.wait_first[at.start : at.stop + 1])
        first, last = int(calls.wait_first[at.start]), int(calls.wait_first[at.stop])
        thinned_calls = np.repeat(calls.exit_s[at] - calls.enter_s[at] >= PROGRESS_S, of)
        return first + np.flatnonzero(thinned_calls & message[calls.waits[first:last]])

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
    wanted = _collectives(instances, communicators)
    if not wanted.any():
        return signals_of(np.zeros(0, np.int64), np.zeros(0, np.int64), FLUSH)
    completes = np.repeat(calls.posts, np.diff(calls.wait_first)) != calls.waits
    rows = np.flatnonzero(completes & wanted[calls.waits])
    owner, instance = _callers(rows, calls), calls.waits[rows]
    latest_s, last = np.full(len(instances), -np.inf), np.full(len(instances), -1, np.int64)
    np.maximum.at(latest_s, instance, calls.enter_s[owner])
    is_last = calls.enter_s[owner] == latest_s[instance]
    last[instance[is_last]] = rank[owner[is_last]]
    asks = ~is_last & (calls.exit_s[owner] - calls.enter_s[owner] >= PROGRESS_S)
    return _came_back(rows[asks], owner[asks], last[instance[asks]], calls, rank)


def blocking_progress(calls: Calls, instances: Instances, rank: IntArray, communicators: Sequence[Members]) -> Signals:
    """Calls of blocking collectives that ended when another member came back to MPI, though it had left its own long
    before.

    What a member hands on, but has no room for, comes when it is in MPI again. Whom it hands something to is not known
    (a root its children in a tree, say): it is the one that came back last before the call ended.
    """
    wanted = _collectives(instances, communicators)
    if not wanted.any():
        return signals_of(np.zeros(0, np.int64), np.zeros(0, np.int64), FLUSH)
    back_s = np.full(len(calls), np.inf)
    back_s[:-1] = np.where(calls.location[1:] == calls.location[:-1], calls.enter_s[1:], np.inf)
    given = np.full(len(calls), -1, ROW)
    each(
        lambda at: _handed_on(
            np.flatnonzero(wanted[at]) + at.start, instances.first, instances.members, calls.enter_s, calls.exit_s,
            back_s, given,
        ),
        portions_of(instances.first),
    )  # fmt: skip
    waiter = np.flatnonzero(given >= 0)
    # Who only posts waits for nothing here.
    waiter = waiter[np.diff(calls.wait_first)[waiter] > 0]
    return signals_of(given[waiter].astype(np.int64), waiter, FLUSH)


@compiled
def _handed_on(asked, first, members, enter_s, exit_s, back_s, given):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For members of the instances ``asked`` the call with which another one came back, and let them end.

    What counts is the time since both were there. ``back_s`` is when the rank of each call came back after it
    ``[calls]``.
    """
    for instance in asked:
        those = members[first[instance] : first[instance + 1]]
        those = those[back_s[those] - exit_s[those] >= PROGRESS_S]
        if not len(those):
            continue
        those = those[np.argsort(back_s[those])]
        backs = back_s[those]
        for entry in range(first[instance], first[instance + 1]):
            waiter = members[entry]
            until = exit_s[waiter]
            if until - enter_s[waiter] < PROGRESS_S:
                continue
            last = np.searchsorted(backs, until, side="right") - 1
            for place in range(last, max(-1, last - _MOST_BACK), -1):
                other, back = those[place], backs[place]
                since = max(enter_s[waiter], enter_s[other])
                away = back - max(exit_s[other], since)
                if other != waiter and lets_end(away, since, back, until, PROGRESS_S):
                    given[waiter] = other + 1
                    break


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
    given = returns_of(waiter, partner, calls, rank)
    # Where a partner came back with its part of this operation, that is known already.
    found = (given >= 0) & (calls.posts[given] != calls.waits[rows]) & (calls.enter_s[given] < until_s)
    return signals_of(given[found], waiter[found], FLUSH)


def of_mpi(communicator: str) -> bool:
    """Whether a communicator of this name is one of MPI's."""
    return communicator == "world" or communicator.startswith("comm:")


def _of_mpi(instances: Instances, communicators: Sequence[Members]) -> BoolArray:
    """Whether the communicator of each instance is one of MPI's ``[instances]``."""
    by_mpi = [of_mpi(communicator.name) for communicator in communicators]
    return np.asarray(np.array([*by_mpi, False])[instances.communicator])  # -1 is the last


def _collectives(instances: Instances, communicators: Sequence[Members]) -> BoolArray:
    """Which instances are collectives of MPI that all members of a communicator took part in ``[instances]``."""
    collective = ~np.isin(instances.operation, (*_SENDS, *SIGNALLING)) & instances.complete
    return np.asarray(collective & _of_mpi(instances, communicators))
