"""What processes of different hosts hand to each other, of which both ends are known: clocks are aligned by it.

Remote calls are known by their ids, messages of ranks by their channel and the count in it, and what the root of a
collective hands to all, or all hand to it, by its number in the communicator.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.hashing import packed
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.readers.columns.operation_kinds import KINDS, RECEIVE, SEND
from scalana.graphs.readers.folder.records import Events
from scalana.runtime.operations import BY_NAME, OPERATIONS, Waits
from scalana.runtime.record.format import EVENT_ANY_SOURCE, EVENT_BLOCKING, EVENT_COMPLETION, EVENT_NUMBERED

_WAITS = np.array([row.waits for row in sorted(OPERATIONS)], np.int8)
"""What operations wait for, by their codes."""
_NUMBERED = EVENT_ANY_SOURCE | EVENT_NUMBERED | EVENT_BLOCKING
"""Of a receive from any rank: it has the number of the message that it got."""
_WAYS = (("submit", "take"), ("reply", "result"), ("put", "get"))
"""What hands over, and what takes that."""


def handed_between(events: Events, host: IntArray) -> IntArray:
    """What processes of one host handed to those of another: from which host, to which, when it was handed over by the
    clock of the one, and when it had come by the other's, in ns, and 0, as nobody knows how long it was waited for
    ``[5, messages]``. ``host`` is that of every process
    ``[processes]``. What was handed over several times under one id is left out."""
    found = [np.zeros((5, 0), np.int64)]
    known = events.seq > 0
    for gives, takes in _WAYS:
        given, taken = (np.flatnonzero(known & (events.operation == BY_NAME[name].code)) for name in (gives, takes))
        ids, first, count = np.unique(events.seq[given], return_index=True, return_counts=True)
        if not len(ids) or not len(taken):
            continue
        at = np.minimum(np.searchsorted(ids, events.seq[taken]), len(ids) - 1)
        match = (ids[at] == events.seq[taken]) & (count[at] == 1)
        taken, given = taken[match], given[first[at[match]]]
        source, target = host[events.process[given]], host[events.process[taken]]
        apart = source != target
        given_ns, taken_ns = events.enter_ns[given].astype(np.int64), events.exit_ns[taken].astype(np.int64)
        rows = (source, target, given_ns, taken_ns, np.zeros(len(given), np.int64))
        found.append(np.stack([row[apart] for row in rows]))
    return np.concatenate(found, axis=1)


def messages_between(events: Events, rank: IntArray, host: IntArray) -> IntArray:
    """Messages of ranks of one host to those of another: from which host, to which, when the send began by the clock of
    the one, when the receive was complete by the other's, and how long a blocking receive had waited, in ns
    ``[5, messages]``.

    ``rank`` and ``host`` are those of every process ``[processes]``. Receives from any rank that do not block are left
    out, and all that their rank receives in their communicator: their numbers are not known here.
    """
    kind = KINDS[events.operation]
    known = (events.communicator >= 0) & (events.peer >= 0) & (events.seq >= 0)
    known &= (events.flags & EVENT_COMPLETION) == 0
    host_of_rank = np.full(int(max(rank.max(initial=0), events.peer.max(initial=0))) + 1, -1, np.int64)
    host_of_rank[rank] = host
    rows = np.flatnonzero(known & ((kind == SEND) | (kind == RECEIVE)))
    rows = rows[
        (host_of_rank[events.peer[rows]] >= 0) & (host_of_rank[events.peer[rows]] != host[events.process[rows]])
    ]
    if not len(rows):
        return np.zeros((5, 0), np.int64)
    own, peer = rank[events.process[rows]].astype(np.int64), events.peer[rows].astype(np.int64)
    sends = kind[rows] == SEND
    source, target = np.where(sends, own, peer), np.where(sends, peer, own)
    communicator = events.communicator[rows].astype(np.int64)
    of_any = events.flags[rows] & _NUMBERED
    unnumbered = ~sends & ((of_any & EVENT_ANY_SOURCE) > 0) & (of_any != _NUMBERED)
    place = packed(communicator, target)
    usable = ~np.isin(place, place[unnumbered])
    key = packed(communicator, source, target, events.tag[rows].astype(np.int64), events.seq[rows].astype(np.int64))
    came_ns = _complete_ns(events, rows)
    sent, received = (np.flatnonzero(usable & side & _once(key, side)) for side in (sends, ~sends & (came_ns >= 0)))
    _, first, second = np.intersect1d(key[sent], key[received], assume_unique=True, return_indices=True)
    sent, received = sent[first], received[second]
    return _handed(events, host, rows[sent], rows[received], came_ns[received])


def rooted_between(events: Events, rank: IntArray, host: IntArray) -> IntArray:
    """What the roots of collectives handed to ranks on other hosts, and got from them, as :func:`messages_between` has
    messages ``[5, handed]``: a broadcast is complete after its root has begun it, a reduction at its root after all
    have."""
    waits = _WAITS[events.operation]
    known = (events.communicator >= 0) & (events.peer >= 0) & (events.seq >= 0) & (events.nbytes > 0)
    rows = np.flatnonzero(known & np.isin(waits, (Waits.ROOT, Waits.AT_ROOT)))
    key = packed(*(column[rows].astype(np.int64) for column in (events.communicator, events.operation, events.seq)))
    process = events.process[rows]
    is_root = rank[process] == events.peer[rows]
    roots = np.flatnonzero(is_root & _once(key, is_root))
    members = np.flatnonzero(~is_root & _once(packed(key, process.astype(np.int64)), ~is_root))
    if not len(roots) or not len(members):
        return np.zeros((5, 0), np.int64)
    roots = roots[np.argsort(key[roots])]
    at = np.minimum(np.searchsorted(key[roots], key[members]), len(roots) - 1)
    met = (key[roots[at]] == key[members]) & (host[process[roots[at]]] != host[process[members]])
    root, member = roots[at[met]], members[met]
    from_root = waits[rows[root]] == Waits.ROOT
    source, target = np.where(from_root, root, member), np.where(from_root, member, root)
    came_ns = _complete_ns(events, rows)
    return _handed(events, host, rows[source], rows[target], came_ns[target])


def _handed(events: Events, host: IntArray, sent: IntArray, received: IntArray, came_ns: IntArray) -> IntArray:
    """Rows of what some events hand over and others take, which had come at a time; without those that never came."""
    blocking = (events.flags[received] & EVENT_BLOCKING) > 0
    found = np.stack(
        (
            host[events.process[sent]],
            host[events.process[received]],
            events.enter_ns[sent].astype(np.int64),
            came_ns,
            np.where(blocking, came_ns - events.enter_ns[received], 0),
        )
    )
    return found[:, came_ns >= 0]


def _once(key: IntArray, side: BoolArray) -> BoolArray:
    """Whether a key occurs once on its side: a communicator that is set up again counts from the start."""
    _, number = np.unique(np.where(side, key, -1), return_inverse=True)
    return np.asarray(np.bincount(number)[number] == 1)


def _complete_ns(events: Events, rows: IntArray) -> IntArray:
    """When calls of some rows were complete: at their end, when that was seen, or when a wait for them ended; -1 where
    that is unknown."""
    waits = np.flatnonzero(events.completes >= 0)
    waited = np.full(len(events), -1, np.int64)
    waited[events.completes[waits]] = events.exit_ns[waits]
    blocking = (events.flags[rows] & EVENT_BLOCKING) > 0
    seen = np.where(blocking, events.exit_ns[rows], events.done_ns[rows])
    return np.asarray(np.where(seen >= 0, seen, waited[rows]), dtype=np.int64)
