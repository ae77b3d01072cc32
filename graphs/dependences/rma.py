"""Windows: epochs that origins and targets open and close together, and locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.columns import concatenate
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.dependences.matching import _numbered, _running_count
from scalana.graphs.dependences.rows import (
    COMPLETE,
    FLUSH,
    LOCK,
    POST,
    START,
    UNLOCK,
    WAIT,
    Members,
    MemberTable,
    Signals,
    expand,
    signals_of,
)
from scalana.graphs.readers.folder.records import Events
from scalana.graphs.timeline import Calls

_EXCLUSIVE = 2
"""Tag of an exclusive lock in the record; others are shared."""


# ---- post, start, complete, wait ----


def windows_of(communicators: Sequence[Members]) -> IntArray:
    """Number of the window (or communicator) that each communicator belongs to ``[communicators]``."""
    numbers: dict[str, int] = {}
    owner = [communicator.name.partition("/")[0] for communicator in communicators]
    return np.array([numbers.setdefault(name, len(numbers)) for name in owner], np.int64)


def epoch_signals(events: Events, call: IntArray, rank: IntArray, windows: IntArray, table: MemberTable) -> Signals:
    """Origins wait for the posts of their targets, in start or complete, and targets for their origins' completes.

    The epochs of an origin and a target follow each other on both sides. Where a record lacks one, those of its window
    cannot be told.
    """
    rows = np.flatnonzero(np.isin(events.operation, (POST, START, COMPLETE, WAIT)) & (events.communicator >= 0))
    rows = rows[np.argsort(events.enter_ns[rows], kind="stable")]
    operation, own, window = events.operation[rows], rank[rows], windows[events.communicator[rows]]
    begins = np.isin(operation, (POST, START))
    key = _numbered(window, operation, own)
    order = np.argsort(key, kind="stable")
    count = np.empty(len(rows), np.int64)
    count[order] = _running_count(key[order])
    lacks = np.isin(window, window[begins & (events.seq[rows] != count)])
    first, members = table

    def partners(*codes: int) -> tuple[IntArray, IntArray, IntArray]:
        """(window, own rank, partner, which) as rows, event rows, and their codes, for some operations."""
        at = np.flatnonzero(np.isin(operation, codes) & ~lacks)
        group = events.communicator[rows[at]]
        entry, which = expand(first[group], first[group + 1], at)
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
        return signals_of(call[rows[gave[order][at[known]]]], call[rows[waits[known]]], giver)

    return concatenate([meet(POST, START, COMPLETE), meet(COMPLETE, WAIT)], Signals)


# ---- locks ----


class _Locks(NamedTuple):
    """Calls that lock, flush or unlock, by window and entry; each ``[rows]``."""

    window: IntArray
    rank: IntArray
    target: IntArray
    """Rank whose memory is locked, below 0 for all."""
    exclusive: IntArray
    """Whether the lock of its epoch is."""
    held: BoolArray
    """Whether the lock is held for sure when the call begins."""
    unlock_s: FloatArray
    """When the unlock of its epoch ends, infinite where there is none."""
    is_unlock: BoolArray
    enter_s: FloatArray
    exit_s: FloatArray


def lock_signals(events: Events, call: IntArray, rank: IntArray, calls: Calls) -> Signals:
    """Calls of an epoch that begins with a lock wait for the last conflicting one that ended while they lasted."""
    rows = np.flatnonzero(np.isin(events.operation, (LOCK, UNLOCK, FLUSH)) & (events.communicator >= 0))
    if not (events.tag[rows] == _EXCLUSIVE).any():
        return signals_of(np.zeros(0, np.int64), np.zeros(0, np.int64), UNLOCK)
    rows = rows[np.lexsort((events.enter_ns[rows], events.communicator[rows]))]
    window, own, target, at = events.communicator[rows], rank[rows], events.peer[rows], call[rows]
    exclusive, last, held = _lock_epochs(events.operation[rows], _numbered(window, own, target), events.tag[rows])
    usable = last >= 0
    unlock_s = np.where(usable, calls.exit_s[at[np.maximum(last, 0)]], np.inf)
    is_unlock = events.operation[rows] == UNLOCK
    locks = _Locks(
        window, own, target, exclusive, held, unlock_s, is_unlock & usable, calls.enter_s[at], calls.exit_s[at]
    )
    given = _conflicting(locks)
    waits = np.flatnonzero(given >= 0)
    return signals_of(at[given[waits]], at[waits], UNLOCK)


def _lock_epochs(operation: IntArray, place: IntArray, tag: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Of the calls on a (window, rank, target), in order: whether their lock is exclusive, the row of their unlock (-1
    where there is none), and whether they come behind a flush, with which the lock is held at the latest.
    """
    exclusive, last = np.zeros(len(operation), np.int64), np.full(len(operation), -1, np.int64)
    order = np.argsort(place, kind="stable")
    begins = np.r_[True, place[order][1:] != place[order][:-1]] | (operation[order] == LOCK)
    begins |= np.r_[False, (operation[order] == UNLOCK)[:-1]]
    epoch = np.cumsum(begins) - 1
    of_epoch = np.zeros(int(epoch.max(initial=-1)) + 1, np.int64)
    np.maximum.at(of_epoch, epoch, np.where(operation[order] == LOCK, tag[order] == _EXCLUSIVE, 0))
    end = np.full(len(of_epoch), -1, np.int64)
    unlock = operation[order] == UNLOCK
    end[epoch[unlock]] = order[unlock]
    exclusive[order], last[order] = of_epoch[epoch], end[epoch]
    flushes = np.cumsum(operation[order] == FLUSH)
    before = flushes - (operation[order] == FLUSH)
    held = np.zeros(len(operation), np.bool_)
    held[order] = before > before[np.flatnonzero(begins)][epoch]
    return exclusive, last, held


@compiled
def _conflicting(locks):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Row of the unlock that each call waits for, -1 for none. Rows are sorted by (window, enter).

    That is the latest unlock that another rank began during the call, of a lock on the same target of which one is
    exclusive, and that was over before the own unlock was; or that the call soon followed: who unlocks may come out
    later than who is let in. Whose lock is held waits for none.
    """
    window, rank, target, exclusive, held, unlock_s, is_unlock, enter_s, exit_s = locks
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
