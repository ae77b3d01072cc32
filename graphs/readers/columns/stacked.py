"""Samples and events of many processes as one table each, column by column.

A large run has tens of thousands of records, each of a thousand rows: whatever Python does for every one of their
columns takes longer than the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from scalana.graphs.arrays.shards import each, portions_of
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.folder.reading import Rows, as_one
from scalana.graphs.readers.folder.record_columns import Ints, Part, as_recorded
from scalana.graphs.readers.folder.records import Events, Samples


class Table(Protocol):
    """A table of a record."""

    def __len__(self) -> int: ...


class Stack:
    """Tables of some processes, one after the other."""

    def __init__(self, parts: Sequence[Part], tables: Sequence[Table]) -> None:
        self.parts = parts
        self.tables = tables
        self.whole = as_one(tables)
        self.replaced = {name for table in tables if isinstance(table, Rows) for name in table.own}
        self.count = np.array([len(table) for table in tables], np.int64)
        self.first = np.concatenate(([0], np.cumsum(self.count))).astype(np.int64)

    def __len__(self) -> int:
        return int(self.first[-1])

    def column(self, name: str) -> Ints:
        """A column of all tables, as wide as the widest of them. It is no longer on their shelf then."""
        if not self.tables:
            return np.zeros(0, np.int64)
        if self.whole is not None and name not in self.replaced:
            return self.whole.taken(name)
        return as_recorded(np.concatenate([getattr(table, name) for table in self.tables]))

    def integers(self, name: str) -> IntArray:
        """The same as int64."""
        return self.column(name).astype(np.int64, copy=False)

    def nanoseconds(self, name: str) -> Ints:
        """The same of a column of microseconds."""
        microseconds = self.column(name)
        nanoseconds = microseconds.astype(np.int32 if microseconds.itemsize <= 2 else np.int64) * 1000
        return np.maximum(nanoseconds, -1)  # unknown

    def threads(self, thread_first: IntArray) -> Ints:
        """Rows of the run's threads; those of each process begin at ``thread_first`` ``[processes + 1]``."""
        first = np.array([thread_first[part.number] for part in self.parts], np.int32)
        thread = np.repeat(first, self.count)
        thread += self.column("thread")
        return thread

    def translated(self, name: str, to: Sequence[Ints]) -> Ints:
        """What the table ``to`` of each process has in the rows that a column names, its first where it lacks one."""
        size = np.array([len(table) for table in to], np.int64)
        offset, whole = np.cumsum(size) - size, np.concatenate([np.zeros(0, np.int32), *to])
        local = self.column(name)
        result = np.empty(len(local), whole.dtype)

        def translate(at: slice) -> None:
            rows, count = slice(int(self.first[at.start]), int(self.first[at.stop])), self.count[at]
            row = local[rows].astype(np.int64)
            row[row >= np.repeat(size[at], count)] = 0
            row += np.repeat(offset[at], count)
            result[rows] = whole[row]

        each(translate, portions_of(self.first))
        return result


def stacked_samples(parts: Sequence[Part], thread_first: IntArray) -> Samples:
    """The samples of some processes, in their order."""
    stack = Stack(parts, [part.record.samples for part in parts])
    return Samples(
        **_at_once(
            thread=lambda: stack.threads(thread_first),
            time_ns=lambda: stack.integers("time_ns"),
            # What a lost block defined is path 0.
            path=lambda: stack.translated("path", [part.paths for part in parts]),
            cpu_ns=lambda: stack.nanoseconds("cpu_us"),
            core_wait_ns=lambda: stack.nanoseconds("core_wait_us"),
            state=lambda: stack.column("state"),
        )
    )


def stacked_events(parts: Sequence[Part], thread_first: IntArray) -> Events:
    """The events of some processes, in their order; ``completes`` are ids of events."""
    stack = Stack(parts, [part.record.events for part in parts])
    identity, peer = stack.column("id"), stack.column("peer")
    done_ns, done_cpu_ns, peer = _completed(stack, identity, peer)
    peer = _raised(stack, peer)
    enter, cpu_enter = stack.integers("enter_ns"), stack.integers("cpu_enter_ns")
    return Events(
        **_at_once(
            process=lambda: np.repeat(np.array([part.number for part in parts], np.int32), stack.count),
            thread=lambda: stack.threads(thread_first),
            operation=lambda: stack.column("operation"),
            communicator=lambda: stack.translated("group", [part.communicators for part in parts]),
            seq=lambda: stack.column("seq"),
            tag=lambda: stack.column("tag"),
            nbytes=lambda: stack.column("nbytes"),
            flags=lambda: stack.column("flags"),
            exit_ns=lambda: enter + stack.column("duration_ns"),
            cpu_exit_ns=lambda: np.where(cpu_enter < 0, -1, cpu_enter + stack.column("cpu_ns")),
            path=lambda: stack.translated("path", [part.paths for part in parts]),
            completes=lambda: stack.column("completes"),
        ),
        identity=identity,
        peer=peer,
        enter_ns=enter,
        cpu_enter_ns=cpu_enter,
        done_ns=done_ns,
        done_cpu_ns=done_cpu_ns,
    )


def _at_once(**columns: Callable[[], Ints]) -> dict[str, Ints]:
    """Columns by name, each made by a function, several at a time."""
    return dict(zip(columns, each(lambda make: make(), columns.values()), strict=True))


def _raised(stack: Stack, peer: Ints) -> Ints:
    """Ranks of worlds as numbers of processes of the run."""
    first = np.array([part.first for part in stack.parts], np.int32)
    if not first.any():
        return peer
    peer = peer.astype(np.promote_types(peer.dtype, np.int32))
    return np.where(peer >= 0, peer + np.repeat(first, stack.count), peer)


def _completed(stack: Stack, identity: Ints, peer: Ints) -> tuple[Ints, Ints, Ints]:
    """Completion time and CPU clock of every event, -1 where none was seen; and partners, as far as they are known."""
    telling = [
        number
        for number, part in enumerate(stack.parts)
        if len(part.record.done) and stack.first[number] < stack.first[number + 1]
    ]
    kind = np.int64 if telling else np.int8
    done_ns, done_cpu_ns = np.full(len(stack), -1, kind), np.full(len(stack), -1, kind)
    if telling:
        peer = peer.astype(np.promote_types(peer.dtype, np.int32))
    for number in telling:
        rows = slice(int(stack.first[number]), int(stack.first[number + 1]))
        done_ns[rows], done_cpu_ns[rows], source = stack.parts[number].done(identity[rows])
        # A receive from anybody has its sender from its completion.
        peer[rows] = np.where((peer[rows] < 0) & (source >= 0), source, peer[rows])
    return done_ns, done_cpu_ns, peer
