"""Which calls of different ranks are one operation.

A call carries its own key: collectives their communicator and its count of collectives, messages their channel
(communicator, source, destination, tag) and the count in it. Equal keys meet; nothing else is looked at.

In a channel the counts follow each other, so that every key has a slot of its own in a table, and the calls are put in
order by counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.hashing import distinct, packed
from scalana.graphs.arrays.shards import chunks, each
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.dependences.cancelled import withdrawals, without_withdrawn
from scalana.graphs.readers.columns.operation_kinds import COLLECTIVE, KINDS, RECEIVE, SEND
from scalana.graphs.readers.folder.records import Events
from scalana.graphs.timeline import CODE, Instances
from scalana.runtime.operations import OPERATIONS, Waits
from scalana.runtime.record.format import EVENT_ANY_SOURCE, EVENT_LEVEL_SHIFT, EVENT_NUMBERED

Ints = npt.NDArray[Any]
"""Integers that may be narrow."""

Slots = tuple[Ints, int]
"""The slot of every post, and how many slots there are."""

_SPARSE = 4
"""Slots per post up to which a table of them is worth it."""


@dataclass(slots=True)
class Matching:
    """Instances, and where every event went."""

    instances: Instances
    of_event: Ints
    """Instance to which an event contributes, -1 for none ``[events]``."""
    mixed: int
    """Instances whose members called different operations."""


def match(events: Events, rank: Ints, call_of_event: Ints, size: IntArray) -> Matching:
    """Match the posts of all ranks.

    ``rank`` ``[events]`` is the world rank of each event, ``call_of_event`` the call by which it arrives (-1 for
    events that are no post), ``size`` ``[communicators]`` how many members a communicator has (0 where unknown; then
    nothing in it is complete). Integers may be narrow.
    """
    posts: Ints = np.flatnonzero((call_of_event >= 0) & (KINDS[events.operation] > 0) & (events.communicator >= 0))
    if (rank[posts[1:]] < rank[posts[:-1]]).any():
        posts = posts[np.argsort(rank[posts], kind="stable")]
    posts, seq = posts.astype(np.int32), events.seq[posts]
    if len(withdrawals(events)):
        posts, seq = _without_withdrawn(events, posts, seq, rank)
    kind = KINDS[events.operation[posts]]
    channel = _channels(events, posts, kind, rank)
    if ((events.flags & EVENT_ANY_SOURCE) > 0).any():
        seq = _any_source_numbers(events, posts, kind, channel.astype(np.int64), seq.astype(np.int64))
    slot, slots = _slots(channel, seq, kind)
    del channel, seq
    # The members of an instance side by side: a send before its receive, and by rank.
    order, begin = _arranged(slot, slots)
    if _is_used_again(order, slot, rank, posts):
        slot, slots = _slots_of_uses(slot, rank[posts], events.enter_ns[posts])
        order, begin = _arranged(slot, slots)
    used = np.flatnonzero(np.diff(begin[::2]))
    first, second = begin[::2][used], begin[1::2][used]
    lead = posts[order[first]]
    members = call_of_event[posts[order]]
    del order

    operation = events.operation[lead].astype(CODE)
    collective = KINDS[operation] == COLLECTIVE
    instance_of_slot = np.empty(slots // 2, np.int32)
    instance_of_slot[used] = np.arange(len(used), dtype=np.int32)
    of_event: Ints = np.full(len(events), -1, np.int32)
    mixed = np.zeros(len(used), np.bool_)

    def enter(rows: slice) -> None:
        """Say which instance some posts contribute to, and which collectives they don't agree about."""
        instance = instance_of_slot[slot[rows] >> 1]
        of_event[posts[rows]] = instance
        mixed[instance[events.operation[posts[rows]] != operation[instance]]] = True

    each(enter, chunks(len(posts)))
    mixed &= collective
    count = np.diff(np.append(first, len(posts)))
    expected = np.where(collective, size[events.communicator[lead]] if len(lead) else 0, 2)
    complete = (count == expected) & ~mixed & (collective | (second - first == 1))
    rooted = np.zeros(int(KINDS.size), np.bool_)
    rooted[[row.code for row in OPERATIONS if row.waits in (Waits.ROOT, Waits.AT_ROOT)]] = True
    source = np.where(KINDS[operation] == SEND, rank[lead], events.peer[lead])
    root = np.where(collective & ~rooted[operation], -1, np.where(collective, events.peer[lead], source))
    instances = Instances(
        operation=operation,
        communicator=events.communicator[lead].astype(np.int32),
        root=root.astype(np.int32),
        first=np.append(first, len(posts)).astype(np.int64),
        members=members,
        complete=complete,
    )
    return Matching(instances, of_event, int(mixed.sum()))


def _without_withdrawn(events: Events, posts: Ints, seq: Ints, rank: Ints) -> tuple[Ints, Ints]:
    """Posts but for receives that were cancelled, and their numbers."""
    receives = np.flatnonzero(KINDS[events.operation[posts]] == RECEIVE)
    seq, kept = seq.astype(np.int64), np.ones(len(posts), np.bool_)
    kept[receives], seq[receives] = without_withdrawn(events, rank, posts[receives], seq[receives])
    return posts[kept], seq[kept]


def _channels(events: Events, posts: Ints, kind: Ints, rank: Ints) -> Ints:
    """One number per post, equal for those of one channel: the collectives of a communicator, or its messages from one
    rank to another with one tag. In that order."""
    low = int(events.tag.min(initial=0))
    tags = int(events.tag.max(initial=0)) - low + 1
    ranks = 2 + max(int(rank.max(initial=0)), int(events.peer.max(initial=0)))
    too_wide = (int(events.communicator.max(initial=0)) + 1) * 2 * ranks * ranks * tags >= 1 << 62

    def key(rows: slice) -> IntArray:
        at, of = posts[rows], kind[rows]
        peer, own = events.peer[at].astype(np.int64), rank[at].astype(np.int64)
        collective = of == COLLECTIVE
        communicator = 2 * events.communicator[at].astype(np.int64) + collective
        source = np.where(collective, 0, np.where(of == SEND, own, peer) + 1)
        target = np.where(collective, 0, np.where(of == SEND, peer, own) + 1)
        tag = np.where(collective, 0, events.tag[at].astype(np.int64) - low)
        if too_wide:
            return packed(communicator, source, target, tag)
        return np.asarray(((communicator * ranks + source) * ranks + target) * tags + tag)

    # Most channels are of few ranks: those of some posts are few, and the table of them stays in a cache.
    parts = chunks(len(posts)) if not too_wide else [slice(0, len(posts))]

    def numbered(rows: slice) -> tuple[IntArray, Ints]:
        values, _, number = distinct(key(rows))
        return values, number.astype(np.int32)

    found = each(numbered, parts)
    values = np.unique(np.concatenate([np.zeros(0, np.int64), *(own for own, _ in found)]))
    channel = np.empty(len(posts), np.int32)
    for rows, (own, number) in zip(parts, found, strict=True):
        channel[rows] = np.searchsorted(values, own).astype(np.int32)[number]
    return channel


def _slots(channel: Ints, seq: Ints, kind: Ints) -> Slots:
    """A slot for every number in every channel, in order: an even one, and the next for receives.

    Returns the slot of each post, and how many slots there are.
    """
    channels = int(channel.max(initial=-1)) + 1
    low, high = np.full(channels, np.iinfo(np.int64).max), np.full(channels, np.iinfo(np.int64).min)
    _limits(channel, seq, low, high)
    begin = np.concatenate(([0], np.cumsum(high - low + 1)))
    slot = np.empty(len(channel), np.int32)
    if int(begin[-1]) > _SPARSE * len(channel):
        values, _, number = distinct(packed(channel.astype(np.int64), seq.astype(np.int64)))
        slot[:] = 2 * number + (kind == RECEIVE)
        return slot, 2 * len(values)
    first = begin[:-1] - low

    def fill(rows: slice) -> None:
        slot[rows] = 2 * (first[channel[rows]] + seq[rows]) + (kind[rows] == RECEIVE)

    each(fill, chunks(len(channel)))
    return slot, 2 * int(begin[-1])


@compiled
def _limits(channel, seq, low, high):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Lowest and highest number in each channel."""
    for row in range(len(channel)):
        of, number = channel[row], seq[row]
        low[of] = min(low[of], number)
        high[of] = max(high[of], number)


def _is_used_again(order: Ints, slot: Ints, rank: Ints, posts: Ints) -> bool:
    """Whether a rank has a slot twice. ``order`` are the posts by slot and rank."""

    def again(rows: slice) -> bool:
        here = order[max(rows.start - 1, 0) : rows.stop]
        of, own = slot[here], rank[posts[here]]
        return bool(((of[1:] == of[:-1]) & (own[1:] == own[:-1])).any())

    return any(each(again, chunks(len(order))))


def _slots_of_uses(slot: Ints, rank: Ints, enter_ns: IntArray) -> Slots:
    """Slots anew, where ranks use some more than once.

    A communicator that was taken down and set up again counts from the start: the nth use of a slot by a member meets
    the nth use by the others.
    """
    member = _numbered(slot, rank)
    order = np.lexsort((enter_ns, member))
    use = np.empty(len(slot), np.int64)
    use[order] = _running_count(member[order])
    values, _, number = distinct(packed(slot.astype(np.int64) >> 1, use))
    return (2 * number + (slot & 1)).astype(np.int32), 2 * len(values)


def _arranged(slot: Ints, slots: int) -> tuple[Ints, Ints]:
    """Posts by their slots, and where each slot begins ``[slots + 1]``."""
    begin, order = np.zeros(slots + 2, np.int32), np.empty(len(slot), np.int32)
    _arrange(slot, begin, order)
    return order, begin[:-1]


@compiled
def _arrange(slot, begin, order):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(len(slot)):
        begin[slot[row] + 2] += 1
    for number in range(2, len(begin)):
        begin[number] += begin[number - 1]
    for row in range(len(slot)):
        order[begin[slot[row] + 1]] = row
        begin[slot[row] + 1] += 1


def _any_source_numbers(events: Events, posts: Ints, kind: Ints, channel: IntArray, seq: IntArray) -> IntArray:
    """Count the receives of channels with any-source receives anew, in the order in which they were posted.

    Which channel such a receive belongs to is known only when it is complete, so nobody could count it before.
    """
    any_source = (kind == RECEIVE) & (events.flags[posts] & EVENT_ANY_SOURCE > 0) & (events.peer[posts] >= 0)
    # Where not all were written they cannot be counted: there the number counts that each had when it was complete.
    thinned = np.unique(channel[events.flags[posts] >> EVENT_LEVEL_SHIFT > 0])
    any_source &= ~(np.isin(channel, thinned) & (events.flags[posts] & EVENT_NUMBERED > 0))
    if not any_source.any():
        return seq
    loose = (kind == RECEIVE) & np.isin(channel, channel[any_source])
    rows = np.flatnonzero(loose)
    order = rows[np.lexsort((events.enter_ns[posts[rows]], channel[rows]))]
    sends = (kind == SEND) & np.isin(channel, channel[any_source])
    start = np.full(int(channel.max()) + 1, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(start, channel[sends], seq[sends])
    start[start == np.iinfo(np.int64).max] = 0
    renumbered = seq.copy()
    renumbered[order] = start[channel[order]] + _running_count(channel[order])
    return renumbered


def _running_count(sorted_keys: IntArray) -> IntArray:
    """0, 1, 2 ... within each run of equal keys."""
    n = len(sorted_keys)
    if n == 0:
        return np.zeros(0, np.int64)
    first = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])
    return np.arange(n) - np.repeat(first, np.diff(np.r_[first, n]))


def _numbered(*columns: Ints) -> IntArray:
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
