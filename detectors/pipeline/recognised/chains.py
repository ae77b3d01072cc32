"""Ranks that send each other messages, in a line or in a ring, in the order in which messages begin to go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scalana.detectors.pipeline.recognised.between_messages import Events
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import FloatArray, IntArray

CAME, WENT = 0, 1
"""The two sides of a place."""


@dataclass(frozen=True)
class MessageRows(ColumnTable):
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


@dataclass(frozen=True)
class Chain:
    """Ranks in a line, or in a ring that begins where a rank sends before it has received anything."""

    ranks: tuple[int, ...]
    rows: MessageRows
    """The messages between neighbours, and around the ring."""
    is_ring: bool = False
    beside: MessageRows | None = None
    """Messages that are none of a line's: those from one end to the other."""

    @cached_property
    def events(self) -> Events:
        """The messages as events by the places of their ranks, in order."""
        return self._events(self.rows)

    @cached_property
    def between_ends(self) -> Events | None:
        """Those of :attr:`beside`."""
        return None if self.beside is None else self._events(self.beside)

    def _events(self, rows: MessageRows) -> Events:
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


def steps_of(events: Events) -> IntArray | None:
    """The step of every message from the first place to the next ``[messages]``: one ends when all have come back. What
    comes after the last end is left out. None unless there are two."""
    first = (events.place == 0) & (events.backward != events.is_send)
    is_send = events.is_send[first]
    under_way = np.cumsum(np.where(is_send, 1, -1))
    ends = np.flatnonzero(under_way == 0)
    if len(ends) < 2 or int(under_way.min()) < 0:
        return None
    return np.asarray(np.searchsorted(ends, np.flatnonzero(is_send[: ends[-1] + 1])), np.int64)


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
