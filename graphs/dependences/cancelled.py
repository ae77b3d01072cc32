"""Receives that were cancelled before there was a message for them.

A receive is numbered in its channel when it is posted. One that is cancelled takes no message, so that those behind it
take the messages before theirs. Receives that are posted after the cancellation are numbered rightly by the recorder;
those that were pending then had their numbers before.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.readers.folder.records import Events
from scalana.runtime.record.format import EVENT_WITHDRAWN

Ints = npt.NDArray[Any]
"""Integers that may be narrow."""


def withdrawals(events: Events) -> Ints:
    """The completions of receives that were cancelled."""
    return np.flatnonzero(events.flags & EVENT_WITHDRAWN)


def without_withdrawn(events: Events, rank: Ints, receives: Ints, seq: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Which receives were not cancelled, and the numbers that they have without those that were ``[receives]``.

    ``receives`` are rows of ``events``, ``seq`` the numbers that they were recorded with, and ``rank`` ``[events]`` the
    world rank of each event.
    """
    cancelled = withdrawals(events)
    near = np.isin(rank[receives], rank[cancelled]) & np.isin(events.peer[receives], events.peer[cancelled])
    near &= np.isin(events.tag[receives], events.tag[cancelled])
    candidates = np.flatnonzero(near)

    def by_channel(rows: Ints, items: Ints) -> dict[tuple[int, ...], list[int]]:
        found: dict[tuple[int, ...], list[int]] = defaultdict(list)
        columns = (column[rows].tolist() for column in (rank, events.communicator, events.peer, events.tag))
        for item, *channel in zip(items.tolist(), *columns, strict=True):
            found[tuple(channel)].append(item)
        return found

    numbers = seq.astype(np.int64)
    posted = by_channel(receives[candidates], candidates)
    for channel, rows in by_channel(cancelled, cancelled).items():
        behind = np.array(posted.get(channel, []), np.int64)
        posted_ns = events.enter_ns[receives[behind]]
        for row in sorted(rows, key=lambda row: int(events.enter_ns[row])):
            pending = (posted_ns < events.enter_ns[row]) & (numbers[behind] > events.seq[row])
            numbers[behind[pending]] -= 1
    return ~np.isin(receives, events.completes[cancelled]), numbers
