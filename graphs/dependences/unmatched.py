"""Calls that nobody came back from, or not by what they waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.attribution.callpaths import Placer
from scalana.graphs.attribution.places import Places
from scalana.graphs.attribution.placing import call_vertices
from scalana.graphs.dependences.matching import Matching
from scalana.graphs.dependences.under_way import NOBODY, Awaited, CallsUnderWay
from scalana.graphs.readers.columns.gather import Gathered
from scalana.runtime.operations import BY_NAME

_NS = 1e-9
_INIT, _RESULT = (BY_NAME[name].code for name in ("init", "result"))


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A communication call that had not returned when the record of its rank stopped."""

    rank: int
    operation: int
    """Code of the table of operations; of a wait, that of what it waits for, if known."""
    vertex: int
    since_s: float
    """Aligned time at which it was entered."""
    communicator: int
    """Row in :attr:`~scalana.graphs.run_info.RunInfo.communicators`, -1 for none."""
    seq: int
    """Count of the operation in its communicator or channel."""
    seconds: float
    """How long it had lasted when the record stopped."""
    peer: int = -1
    """World rank of partner or root, -1 for none."""
    awaited: Awaited = NOBODY
    """Of the wait for a result: who has to give it."""


def open_calls(data: Gathered, matching: Matching, places: Places, placer: Placer) -> list[OpenCall]:
    """Calls that never returned, or not by what they waited for, by the operation that they wait for."""
    rows = np.union1d(data.open_events, _given_up(data, matching))
    events, threads = data.events, data.threads
    meant = np.where(events.completes[rows] >= 0, events.completes[rows], rows)
    vertices = call_vertices(placer, places, events.path[rows], events.operation[meant])
    under_way = CallsUnderWay(data) if (events.operation[rows] == _RESULT).any() else None
    result = []
    for row, what, vertex in zip(rows.tolist(), meant.tolist(), vertices.tolist(), strict=True):
        result.append(
            OpenCall(
                rank=int(threads.rank[events.thread[row]]),
                operation=int(events.operation[what]),
                vertex=vertex,
                since_s=float(events.enter_ns[row]) * _NS,
                communicator=int(events.communicator[what]),
                seq=int(events.seq[what]),
                seconds=float(events.exit_ns[row] - events.enter_ns[row]) * _NS,
                peer=int(events.peer[what]),
                awaited=under_way.awaited(row) if under_way and events.operation[row] == _RESULT else NOBODY,
            )
        )
    return sorted(result, key=lambda call: (call.rank, call.since_s))


def _given_up(data: Gathered, matching: Matching) -> IntArray:
    """Last events of threads that somebody never came to: calls that raised, or were interrupted, instead of ending.

    Who came back from the start of MPI had everybody there: the records of others, that were ended soon after, lack it.
    """
    events = data.events
    if not len(events) or not len(matching.instances):
        return np.zeros(0, np.int64)
    latest = np.full(int(events.thread.max()) + 1, np.iinfo(np.int64).min, np.int64)
    np.maximum.at(latest, events.thread, events.exit_ns)
    rows = np.flatnonzero(events.exit_ns == latest[events.thread])
    last = np.full(len(latest), -1, np.int64)
    last[events.thread[rows]] = rows
    last = last[last >= 0]
    meant = np.where(events.completes[last] >= 0, events.completes[last], last)
    instance = matching.of_event[meant]
    lacking = (instance >= 0) & ~matching.instances.complete[np.maximum(instance, 0)]
    return np.asarray(last[lacking & (events.operation[meant] != _INIT)])
