"""Neighbourhood collectives: each rank waits for its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.dependences.matching import _numbered
from scalana.graphs.dependences.rows import NEIGHBOURS, Members, Signals, expand, signals_of
from scalana.graphs.timeline import Calls, Instances


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
