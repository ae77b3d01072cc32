"""Which calls of different ranks are one operation.

A call carries its own key: collectives their communicator and its count of collectives, messages their channel
(communicator, source, destination, tag) and the count in it. Equal keys meet; nothing else is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.hashing import distinct, ordered
from scalana.graphs.tables import Events
from scalana.graphs.timeline import Instances, IntArray
from scalana.runtime.operations import OPERATIONS, Waits
from scalana.runtime.record_format import EVENT_ANY_SOURCE, EVENT_LEVEL_SHIFT, EVENT_NUMBERED

BoolArray = npt.NDArray[np.bool_]

_COLLECTIVE, _SEND, _RECEIVE = 1, 2, 3


def _kinds() -> IntArray:
    """Whether an operation code is a collective, a send or a receive; 0 for what meets nobody."""
    kinds = np.zeros(max(row.code for row in OPERATIONS) + 1, np.int64)
    for row in OPERATIONS:
        if row.waits in (Waits.ALL, Waits.ROOT, Waits.AT_ROOT, Waits.LOWER, Waits.NEIGHBOURS):
            kinds[row.code] = _COLLECTIVE
        elif row.name.endswith("send"):
            kinds[row.code] = _SEND
        elif row.waits == Waits.SENDER and "probe" not in row.name:
            kinds[row.code] = _RECEIVE
    return kinds


KINDS = _kinds()


@dataclass(slots=True)
class Matching:
    """Instances, and where every event went."""

    instances: Instances
    of_event: npt.NDArray[Any]
    """Instance to which an event contributes, -1 for none ``[events]``."""
    mixed: int
    """Instances whose members called different operations."""


def match(events: Events, rank: npt.NDArray[Any], call_of_event: npt.NDArray[Any], size: IntArray) -> Matching:
    """Match the posts of all ranks.

    ``rank`` ``[events]`` is the world rank of each event, ``call_of_event`` the call by which it arrives (-1 for
    events that are no post), ``size`` ``[communicators]`` how many members a communicator has (0 where unknown; then
    nothing in it is complete). Integers may be narrow.
    """
    posts = np.flatnonzero((call_of_event >= 0) & (KINDS[events.operation] > 0) & (events.communicator >= 0))
    kind = KINDS[events.operation[posts]]
    key = _keys(events, posts, kind, rank[posts])
    # The members of an instance side by side: by rank, and a send before its receive.
    if (np.diff(rank[posts]) >= 0).all():
        order = ordered(_numbered(key, kind), 4 * len(posts) + 4)
    else:
        order = np.lexsort((rank[posts], kind, key))
    posts, kind, key = posts[order], kind[order], key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    count = np.diff(np.r_[first, len(key)]).astype(np.int64)
    instance = np.repeat(np.arange(len(first)), count)

    operation = events.operation[posts].astype(np.int64)
    lowest = np.minimum.reduceat(operation, first) if len(first) else first
    highest = np.maximum.reduceat(operation, first) if len(first) else first
    collective = kind[first] == _COLLECTIVE
    mixed = collective & (lowest != highest)
    expected = np.where(collective, size[events.communicator[posts[first]]] if len(first) else 0, 2)
    both = np.bincount(instance, weights=kind == _SEND, minlength=len(first)) == 1
    complete = (count == expected) & ~mixed & (collective | both)

    lead = posts[first]
    rooted = np.zeros(int(KINDS.size), np.bool_)
    rooted[[row.code for row in OPERATIONS if row.waits in (Waits.ROOT, Waits.AT_ROOT)]] = True
    source = np.where(kind[first] == _SEND, rank[lead], events.peer[lead])
    root = np.where(collective & ~rooted[events.operation[lead]], -1, np.where(collective, events.peer[lead], source))
    of_event: npt.NDArray[Any] = np.full(len(events), -1, np.int32)
    of_event[posts] = instance
    instances = Instances(
        operation=events.operation[lead].astype(np.int64),
        communicator=events.communicator[lead].astype(np.int64),
        root=root.astype(np.int64),
        first=np.r_[first, len(posts)].astype(np.int64),
        members=call_of_event[posts].astype(np.int64),
        complete=complete,
    )
    return Matching(instances, of_event, int(mixed.sum()))


def _keys(events: Events, posts: IntArray, kind: IntArray, rank: IntArray) -> IntArray:
    """One number per post, equal for those that meet."""
    collective = kind == _COLLECTIVE
    peer = events.peer[posts]
    source = np.where(collective, 0, np.where(kind == _SEND, rank, peer) + 1)
    target = np.where(collective, 0, np.where(kind == _SEND, peer, rank) + 1)
    tag = np.where(collective, 0, events.tag[posts])
    channel = _numbered(events.communicator[posts], collective.astype(np.int64), source, target, tag)
    seq = _any_source_numbers(events, posts, kind, channel, events.seq[posts].astype(np.int64))
    # A communicator that was taken down and set up again counts from the start: the nth use of a key by a member
    # meets the nth use by the others.
    member = _numbered(channel, kind, rank)
    use = _occurrence(member, seq, events.enter_ns[posts])
    return _numbered(channel, seq, use)


def _any_source_numbers(events: Events, posts: IntArray, kind: IntArray, channel: IntArray, seq: IntArray) -> IntArray:
    """Count the receives of channels with any-source receives anew, in the order in which they were posted.

    Which channel such a receive belongs to is known only when it is complete, so nobody could count it before.
    """
    any_source = (kind == _RECEIVE) & (events.flags[posts] & EVENT_ANY_SOURCE > 0) & (events.peer[posts] >= 0)
    # Where not all were written they cannot be counted: there the number counts that each had when it was complete.
    thinned = np.unique(channel[events.flags[posts] >> EVENT_LEVEL_SHIFT > 0])
    any_source &= ~(np.isin(channel, thinned) & (events.flags[posts] & EVENT_NUMBERED > 0))
    if not any_source.any():
        return seq
    loose = (kind == _RECEIVE) & np.isin(channel, channel[any_source])
    rows = np.flatnonzero(loose)
    order = rows[np.lexsort((events.enter_ns[posts[rows]], channel[rows]))]
    sends = (kind == _SEND) & np.isin(channel, channel[any_source])
    start = np.full(int(channel.max()) + 1, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(start, channel[sends], seq[sends])
    start[start == np.iinfo(np.int64).max] = 0
    renumbered = seq.copy()
    renumbered[order] = start[channel[order]] + _running_count(channel[order])
    return renumbered


def _occurrence(member: IntArray, seq: IntArray, enter_ns: IntArray) -> IntArray:
    """How many times a member used a sequence number before."""
    both = _numbered(member, seq)
    if len(distinct(both)[0]) == len(both):
        return np.zeros(len(both), np.int64)
    order = np.lexsort((enter_ns, both))
    use = np.empty(len(both), np.int64)
    use[order] = _running_count(both[order])
    return use


def _running_count(sorted_keys: IntArray) -> IntArray:
    """0, 1, 2 ... within each run of equal keys."""
    n = len(sorted_keys)
    if n == 0:
        return np.zeros(0, np.int64)
    first = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])
    return np.arange(n) - np.repeat(first, np.diff(np.r_[first, n]))


def _numbered(*columns: IntArray) -> IntArray:
    """One number per distinct row of the columns, as small as need be; order follows the columns."""
    key = np.zeros(len(columns[0]), np.int64)
    width = 1
    for column in columns:
        if len(column) == 0:
            return key
        column = column.astype(np.int64, copy=False)
        low = int(column.min())
        span = int(column.max()) - low + 1
        if width * span >= 1 << 62:
            key, width = _dense(key)
            if width * span >= 1 << 62:
                column, span = _dense(column)
                low = 0
        key = key * span + (column - low)
        width *= span
    if width > 4 * len(key):
        key, _ = _dense(key)
    return key


def _dense(key: IntArray) -> tuple[IntArray, int]:
    values, _, number = distinct(key)
    return number, len(values)
