"""Ranks that come back to MPI, and let with that something end that goes on only while they are in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.shards import chunks, each
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.dependences.matching import _numbered
from scalana.graphs.dependences.rows import (
    ACCESS,
    FLUSH,
    LOCK,
    UNLOCK,
    MemberTable,
    Signals,
    expand,
    signals_of,
)
from scalana.graphs.readers.folder.records import Events
from scalana.graphs.timeline import ROW, Calls

PROGRESS_S = 1e-4
"""Partners that are away for less than this do not count."""
_BURST = 16
"""Calls that a partner may have begun since it came back."""
MOST_PAIRS = 10_000_000
"""Unlocks of all targets times targets up to which all of these are looked at."""


def access_progress(
    events: Events,
    call: IntArray,
    rank: IntArray,
    calls: Calls,
    rank_of_call: IntArray,
    table: MemberTable,
) -> Signals:
    """Locks of, and accesses to, a target that was outside of MPI wait until it enters MPI, where they last until then.

    Where the library needs no help of the target they return at once, and have not waited. Accesses are taken to be
    waited for in the call that completes them: an unlock or a flush. An unlock of all targets may need the help of
    all, accessed or not (where there are more than :data:`MOST_PAIRS` of both, only of those accessed).
    """
    asks = np.isin(events.operation, (LOCK, UNLOCK, FLUSH)) & (events.communicator >= 0)
    single = np.flatnonzero(asks & (events.peer >= 0))
    waiter, target = call[single], events.peer[single]
    several = np.flatnonzero(asks & (events.peer < 0) & (events.operation != LOCK))
    if len(several):
        access = np.flatnonzero((events.operation == ACCESS) & (events.peer >= 0) & (events.communicator >= 0))
        owner = _next_of_its_own(events, rank, access, several)
        pairs = np.unique(np.stack((call[owner[owner >= 0]], events.peer[access[owner >= 0]])), axis=1)
        first, members = table
        ends = several[events.operation[several] == UNLOCK]
        group = events.communicator[ends]
        if float((first[group + 1] - first[group]).sum()) > MOST_PAIRS:
            group, ends = group[:0], ends[:0]
        entry, of_end = expand(first[group], first[group + 1], ends)
        waiter = np.concatenate((waiter, pairs[0], call[of_end]))
        target = np.concatenate((target, pairs[1], members[entry]))
    given = returns_of(waiter, target, calls, rank_of_call)
    found = given >= 0
    return signals_of(given[found], waiter[found], FLUSH)


class _CallsByRank(NamedTuple):
    """Calls in the order of ranks and entries."""

    order: IntArray
    """``[calls]``"""
    first: IntArray
    """Start of each rank's rows in ``order`` ``[ranks + 1]``."""
    rank: IntArray
    """Of each call ``[calls]``."""
    enter_s: FloatArray
    """``[calls]``"""
    exit_s: FloatArray
    """``[calls]``"""


def returns_of(waiter: IntArray, partner: IntArray, calls: Calls, rank: IntArray) -> IntArray:
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
    ordered = _CallsByRank(order, first, rank, calls.enter_s, calls.exit_s)
    _last_return(waiter, partner, ordered, PROGRESS_S, reach, result)
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


@compiled
def lets_end(away, since, came, until, least_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether a partner that came back when it had been ``away`` for a time lets a waiter ``since`` some moment end.

    It was away for ``least_s`` and half of the time that was waited, and the end came within half of that.
    """
    return away >= least_s and 2 * away >= came - since and 2 * (until - came) <= away


@compiled
def _last_return(waiter, partner, calls, least_s, reach, result):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The call with which a partner came back during each waiter, and let it end.

    ``reach`` is room ``[calls]``, ``result`` what comes out ``[waiters]``, -1 everywhere before.
    """
    order, first, rank, enter_s, exit_s = calls
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
            if lets_end(away, since, came, until, least_s):
                result[row] = order[place]
                break
            if came <= since:
                break
