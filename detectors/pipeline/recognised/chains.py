"""Ranks that send each other messages, in a line or in a ring, in the order in which messages begin to go."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scalana.detectors.pipeline.recognised.between_messages import Events
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray

CAME, WENT = 0, 1
"""The two sides of a place."""


@dataclass(frozen=True)
class MessageRows:
    """Sends and receives in any order, ``[rows]`` all."""

    rank: IntArray
    peer: IntArray
    is_send: IntArray
    """1 for a send, 0 for a receive."""
    bytes: IntArray
    begin_s: FloatArray
    """When the call began; for one that does not block, when its result was asked for."""
    end_s: FloatArray
    """When the rank could go on."""
    message: IntArray
    """A number that both ends of a message have."""

    def take(self, chosen: IntArray | BoolArray) -> MessageRows:
        """Some of the rows."""
        return MessageRows(*(getattr(self, column.name)[chosen] for column in fields(self)))


@dataclass(frozen=True)
class Chain:
    """Ranks in a line, or in a ring that begins where a rank sends before it has received anything."""

    ranks: tuple[int, ...]
    rows: MessageRows
    """The messages between neighbours, and around the ring."""
    is_ring: bool = False
    beside: MessageRows | None = None
    """Messages that are none of a line's: those from one end to the other."""

    def events(self, rows: MessageRows | None = None) -> Events:
        """The messages as events by the places of their ranks, in order."""
        rows = self.rows if rows is None else rows
        size = len(self.ranks)
        where = np.full(max(self.ranks) + 1, -1, np.int64)
        where[list(self.ranks)] = np.arange(size)
        place, peer = where[rows.rank], where[rows.peer]
        order = np.lexsort((rows.end_s, rows.begin_s, place))
        place, peer, is_send = place[order], peer[order], rows.is_send[order].astype(bool)
        up = (peer == (place + 1) % size) if self.is_ring else peer > place
        backward = up != is_send
        number = occurrence((place * 2 + backward) * 2 + is_send)
        columns = (
            rows.begin_s[order],
            rows.end_s[order],
            rows.bytes[order],
            np.zeros(len(order), np.int64),
            rows.message[order],
        )
        return Events(place, backward, is_send, number, *columns)


def occurrence(key: IntArray) -> IntArray:
    """How many rows before each have the same key ``[rows]``."""
    order = np.argsort(key, kind="stable")
    size = np.bincount(key)
    size = size[size > 0]
    number = np.empty(len(key), np.int64)
    number[order] = np.arange(len(key)) - np.repeat(np.cumsum(size) - size, size)
    return number


def has_its_ends(events: Events, places: int, count: int, around: int = 0) -> bool:
    """Whether every place has both ends of ``count`` messages each way, to every neighbour that it has; ``around`` are
    those that go between the last place and the first."""
    found = np.bincount((events.place * 2 + events.backward) * 2 + events.is_send, minlength=4 * places)
    wanted = np.full((places, 2, 2), count)
    wanted[0, 0, CAME] = wanted[0, 1, WENT] = wanted[-1, 0, WENT] = wanted[-1, 1, CAME] = around
    return bool((found.reshape(places, 2, 2) == wanted).all())


def sides(events: Events, places: int, count: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Begin, end and bytes of messages at each place, forwards and backwards, as they come and go
    ``[places, 2, 2, messages]``; 0 where there are none."""
    begin, end = np.zeros((2, places, 2, 2, count))
    size = np.zeros((places, 2, 2, count), np.int64)
    at = events.place, events.backward.astype(int), events.is_send.astype(int), events.number
    begin[at], end[at], size[at] = events.begin_s, events.end_s, events.bytes
    return begin, end, size


def find_chain(rows: MessageRows) -> Chain | None:
    """The line or the ring that these ranks are, from the one that sends before it receives anything; None if they are
    neither, or more than one rank does.

    A ring around which messages go in one direction alone between two neighbours, while all others send each other
    some, is a line whose ends send each other something else (targets there, a loss back).
    """
    ranks = int(max(rows.rank.max(initial=0), rows.peer.max(initial=0))) + 1
    if not len(rows.rank):
        return None
    pairs = np.unique(rows.rank * ranks + rows.peer)
    near: dict[int, list[int]] = {}
    for pair in np.unique(np.concatenate((pairs, pairs % ranks * ranks + pairs // ranks))).tolist():
        near.setdefault(pair // ranks, []).append(pair % ranks)
    ends = [rank for rank, peers in near.items() if len(peers) == 1]
    if len(ends) not in (0, 2) or any(len(peers) > 2 for peers in near.values()):
        return None
    opening, toward = _opening(rows)
    if ends:
        opening, toward = opening[np.isin(opening, ends)], toward[np.isin(opening, ends)]
    if len(opening) != 1:
        return None
    first = int(opening[0])
    if ends:
        line = _walk(near, first, near[first][0])
        return Chain(tuple(line), rows) if len(line) == len(near) else None
    sends = set(np.unique(rows.rank[rows.is_send > 0] * ranks + rows.peer[rows.is_send > 0]).tolist())
    orders = [_walk(near, first, following) for following in sorted(near[first], key=lambda peer: peer != toward[0])]
    if len(orders[0]) != len(near):
        return None
    for ring in orders:
        around = ring[-1], ring[0]
        pairs_of = zip(ring[:-1], ring[1:], strict=True)
        both = all({one * ranks + other, other * ranks + one} <= sends for one, other in pairs_of)
        if both and sum(a * ranks + b in sends for a, b in (around, around[::-1])) == 1:
            closes = np.isin(rows.rank, around) & np.isin(rows.peer, around)
            return Chain(tuple(ring), rows.take(~closes), beside=rows.take(closes))
    return Chain(tuple(orders[0]), rows, is_ring=True)


def _opening(rows: MessageRows) -> tuple[IntArray, IntArray]:
    """The ranks that send before they receive anything, and to whom."""
    order = np.lexsort((rows.end_s, rows.begin_s, rows.rank))
    rank = rows.rank[order]
    first = order[np.concatenate(([True], rank[1:] != rank[:-1]))]
    first = first[rows.is_send[first] > 0]
    return rows.rank[first], rows.peer[first]


def _walk(near: dict[int, list[int]], first: int, following: int) -> list[int]:
    """The ranks from one on, in the direction of another."""
    found, seen = [first], {first}
    before, rank = first, following
    while rank not in seen:
        found.append(rank)
        seen.add(rank)
        others = [peer for peer in near[rank] if peer != before]
        if not others:
            break
        before, rank = rank, others[0]
    return found
