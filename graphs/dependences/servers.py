"""Answers that no process of the run gave: who waits for one waits for a server without a record, on another host or
somebody else's.

Such a wait is no call of the run's: what is not there cannot be walked back to. It stays with its line, as what a
process does that neither computes nor waits for another one of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable, to_seconds
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.folder.records import Events
from scalana.runtime.operations import BY_NAME, GIVING

_RESULT, _SUBMIT = (BY_NAME[name].code for name in ("result", "submit"))


@dataclass(slots=True)
class ServerWaits(ColumnTable):
    """Waits for answers of servers that left no record."""

    rank: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Who waits ``[waits]``."""
    server: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """For whom: a row of ``names`` ``[waits]``."""
    start_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """``[waits]``"""
    end_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """``[waits]``"""
    names: list[str] = field(default_factory=list)
    """``host:port`` of each server, or the path of its socket."""


def unanswered(events: Events, still_open: IntArray) -> BoolArray:
    """Which events wait for answers that nobody has given, empty for none ``[events]``; those that are ``still_open``
    are calls as others are, in which a process hangs."""
    asks = np.flatnonzero((events.operation == _RESULT) & (events.tag > 0))
    if not len(asks):
        return np.zeros(0, np.bool_)
    given = events.seq[np.isin(events.operation, GIVING) & (events.operation != _SUBMIT)]
    asks = np.setdiff1d(asks[~np.isin(events.seq[asks], given)], still_open)
    result = np.zeros(len(events) if len(asks) else 0, np.bool_)
    result[asks] = True
    return result


def server_waits(data: Gathered) -> ServerWaits:
    """Those of a run, of what :func:`unanswered` has found."""
    rows = np.flatnonzero(data.unanswered)
    # What helpers of a rank wait for, or threads beside its main one, it does not.
    rows = rows[data.threads.is_main[data.events.thread[rows]]]
    if not len(rows):
        return ServerWaits()
    events = data.events
    process = events.process[rows].astype(np.int64)
    known = np.stack((process, events.tag[rows].astype(np.int64)), axis=1)
    pairs, number = np.unique(known, axis=0, return_inverse=True)
    told = [data.records[row].meta.get(f"server {tag}", "a server") for row, tag in pairs.tolist()]
    names, of_pair = np.unique(np.array(told), return_inverse=True)
    return ServerWaits(
        data.rank[process],
        of_pair[number.reshape(-1)],
        to_seconds(events.enter_ns[rows].astype(np.int64)),
        to_seconds(events.exit_ns[rows].astype(np.int64)),
        names.tolist(),
    )
