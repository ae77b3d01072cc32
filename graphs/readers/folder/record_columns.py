"""The record of one process as columns that count run-wide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.folder.records import Events
from scalana.graphs.readers.processes.rank_selection import start_ns
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_BLOCKING, EVENT_LEVEL_SHIFT, OpenColumns, ProcessRecord

Ints = npt.NDArray[Any]
"""Integers that may be narrow."""

WAIT = BY_NAME["wait"].code
_OPEN_NS = 3_000_000_000
"""A record is flushed every second: calls open in none of the last flushes had ended by then."""
_INTERRUPTED_NS = 1_000_000_000
"""A call without an event in a record with an end must have lasted this long: shorter ones may just not be kept."""


@dataclass(slots=True)
class Totals:
    """Exact sums per call path, also of calls whose events were thinned out."""

    process: IntArray
    """``[totals]``"""
    path: IntArray
    """``[totals]``"""
    operation: IntArray
    """``[totals]``"""
    calls: IntArray
    """``[totals]``"""
    nbytes: IntArray
    """``[totals]``"""
    wall_ns: IntArray
    """``[totals]``"""
    cpu_ns: IntArray
    """``[totals]``"""


@dataclass(slots=True)
class UnwrittenTime(ColumnTable):
    """How long threads were in calls that were not written, up to the next one that was."""

    thread: IntArray
    """Row in the run's threads ``[rows]``."""
    start_ns: IntArray
    """When it would have begun had it been one call ``[rows]``."""
    end_ns: IntArray
    """``[rows]``"""
    cpu_ns: IntArray
    """``[rows]``"""


@dataclass(slots=True)
class SpanTotals(ColumnTable):
    """Exact sums of the spans of processes that did not write all of them."""

    process: IntArray
    """``[rows]``"""
    path: IntArray
    """Run-wide call path ``[rows]``."""
    type: IntArray
    """Number in ``SPAN_TYPES`` ``[rows]``."""
    spans: IntArray
    """``[rows]``"""
    wall_ns: IntArray
    """``[rows]``"""
    cpu_ns: IntArray
    """As far as it is known ``[rows]``."""


class Communicators(dict[tuple[str, bytes], int]):
    """Row of each communicator, by its name and the bytes of its ranks: numbers of processes of the run."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes: dict[tuple[int, int], tuple[object, bytes]] = {}

    def of(self, record: ProcessRecord, first: int = 0) -> Ints:
        """Row of each of a process' ids, -1 for unknown ones; its world's rank 0 is process ``first`` of the run."""
        groups = record.groups
        used = max(top(record.events.group), top(record.open.group), max(groups, default=0))
        result: Ints = np.full(1 + used, -1, np.int32)
        for number, group in groups.items():
            # A large job names thousands of ranks in each; records that were read together share them.
            known = self._bytes.get((id(group.ranks), first))
            if known is None:
                known = self._bytes[id(group.ranks), first] = group.ranks, raised(group.ranks, first).tobytes()
            result[number] = self.setdefault((group.name, known[1]), len(self))
        return result


class Part:
    """One process' record as columns that count run-wide."""

    def __init__(self, record: ProcessRecord, number: int, first: int = 0) -> None:
        self.record = record
        self.number = number
        self.first = first
        """Number in the run of the process that is rank 0 in its world."""
        used = (record.samples.thread, record.events.thread, record.unwritten.thread, record.open.thread)
        lanes = (lane.thread for lane in record.lanes)
        self.threads = 1 + max(*(top(column) for column in used), max(record.threads, default=0), *lanes)
        self.paths: Ints = np.zeros(1, np.int32)
        self.communicators: Ints = np.zeros(0, np.int32)
        self.start_ns = start_ns(record) or record.first_ns
        self.end_ns = max(record.last_ns, self.start_ns)
        self.thinned = top(record.events.flags) >> EVENT_LEVEL_SHIFT > 0

    def open(self, thread_first: IntArray) -> Events:
        """Calls under way when a record stops, as events that last until then.

        A record with an end holds such a call where the program was interrupted in the midst of it: that one lasts as
        long as it is known to have.
        """
        record, columns = self.record, self.record.open
        identity = as_integers(columns.event)
        thread, enter, as_of = as_integers(columns.thread), as_integers(columns.enter_ns), as_integers(columns.as_of_ns)
        ended_threads, ended = as_integers(record.events.thread), as_integers(record.events.enter_ns)
        latest = np.zeros(self.threads, np.int64)
        np.maximum.at(latest, ended_threads, ended)
        under_way = ~np.isin(identity, as_integers(record.events.id)) & (enter >= latest[thread])
        under_way &= (as_of - enter >= _INTERRUPTED_NS) if record.ended else (as_of + _OPEN_NS >= record.last_ns)
        rows = np.flatnonzero(under_way)
        # The innermost call of each thread, from the last time that it was written.
        rows = rows[np.lexsort((as_of[rows], enter[rows], thread[rows]))]
        rows = rows[np.r_[np.flatnonzero(np.diff(thread[rows])), len(rows) - 1]] if len(rows) else rows
        n, operation = len(rows), as_integers(columns.operation)[rows]
        none = np.full(n, -1, np.int64)
        return Events(
            process=np.full(n, self.number, np.int64),
            identity=identity[rows],
            thread=thread[rows] + thread_first[self.number],
            operation=operation,
            communicator=self.communicators[as_integers(columns.group)[rows]],
            seq=as_integers(columns.seq)[rows],
            peer=raised(columns.peer, self.first)[rows],
            tag=np.zeros(n, np.int64),
            nbytes=np.zeros(n, np.int64),
            flags=np.full(n, EVENT_BLOCKING, np.int64),
            enter_ns=enter[rows],
            exit_ns=as_of[rows] if record.ended else np.full(n, self.end_ns, np.int64),
            cpu_enter_ns=none,
            cpu_exit_ns=none,
            path=self.of_paths(as_integers(columns.path)[rows]),
            completes=np.where(operation == WAIT, self._waited_for(columns, rows), 0),
            done_ns=none,
            done_cpu_ns=none,
        )

    def totals(self) -> Totals:
        columns = self.record.totals
        return Totals(
            process=np.full(len(columns), self.number, np.int64),
            path=self.of_paths(columns.path),
            operation=as_integers(columns.operation),
            calls=as_integers(columns.calls),
            nbytes=as_integers(columns.nbytes),
            wall_ns=as_integers(columns.wall_ns),
            cpu_ns=as_integers(columns.cpu_ns),
        )

    def unwritten(self, thread_first: IntArray) -> UnwrittenTime:
        """The table of this process; its threads begin at ``thread_first[number]``."""
        columns = self.record.unwritten
        start = as_integers(columns.start_ns)
        return UnwrittenTime(
            thread=as_integers(columns.thread) + thread_first[self.number],
            start_ns=start,
            end_ns=start + as_integers(columns.duration_ns),
            cpu_ns=as_integers(columns.cpu_ns),
        )

    def span_totals(self) -> SpanTotals:
        """The table of this process; the same place on several lanes has several rows."""
        columns = self.record.span_totals
        return SpanTotals(
            process=np.full(len(columns), self.number, np.int64),
            path=self.of_paths(columns.path),
            type=as_integers(columns.type),
            spans=as_integers(columns.spans),
            wall_ns=as_integers(columns.wall_ns),
            cpu_ns=as_integers(columns.cpu_ns),
        )

    def of_paths(self, local: object) -> Ints:
        """Paths of the run's tree; what a lost block defined is path 0."""
        path = as_recorded(local)
        if len(path) and int(path.max()) >= len(self.paths):
            path = np.where(path < len(self.paths), path, 0)
        return self.paths[path]

    def done(self, identity: Ints) -> tuple[IntArray, IntArray, IntArray]:
        """Completion time, CPU clock and source of every event, by their ids; -1 where none was seen."""
        columns = self.record.done
        event = as_integers(columns.event)
        results = tuple(np.full(len(identity), -1, np.int64) for _ in range(3))
        order = np.argsort(identity, kind="stable")
        at = np.minimum(np.searchsorted(identity[order], event), len(order) - 1)
        row = order[at]
        known = identity[row] == event
        for result, column in zip(results, (columns.time_ns, columns.cpu_ns, columns.source), strict=True):
            value = as_integers(column)[known]
            # Two completions of one event (its future, its wait) complement each other.
            told = value >= 0 if column is columns.source else value > 0
            result[row[known][told]] = value[told]
        return results[0], results[1], results[2]

    def _waited_for(self, columns: OpenColumns, rows: IntArray) -> IntArray:
        """Event ids of the posts that open waits are for: the last post with their key."""
        events = self.record.events
        post = as_integers(events.operation) != WAIT
        post_key = np.stack((as_integers(events.group), as_integers(events.seq), as_integers(events.peer)))[:, post]
        identity = as_integers(events.id)[post]
        result = np.zeros(len(rows), np.int64)
        for place, row in enumerate(rows.tolist()):
            key = np.array([[as_integers(getattr(columns, name))[row]] for name in ("group", "seq", "peer")])
            same = np.flatnonzero((post_key == key).all(axis=0))
            if len(same):
                result[place] = identity[same[-1]]
        return result


def as_integers(column: object) -> IntArray:
    """A column of a record as int64."""
    return as_recorded(column).astype(np.int64, copy=False)


def as_recorded(column: object) -> Ints:
    """A column of a record as it is."""
    values: Ints = np.asarray(column)
    # C has two names for 64 bits here; numpy takes a detour wherever they meet.
    return values.view(np.int64) if values.dtype.char == "q" else values


def raised(ranks: object, first: int) -> Ints:
    """Ranks of a world as numbers of processes of the run, as wide as need be; what is negative stays as it is."""
    values = as_recorded(ranks)
    if not first:
        return values
    values = values.astype(np.promote_types(values.dtype, np.int32))
    return np.where(values >= 0, values + first, values)


def top(column: object) -> int:
    """The largest value of a column, at least 0."""
    values = as_recorded(column)
    return int(values.max(initial=0)) if len(values) else 0
