"""Reading the records of a run: samples and events of all go into a few large arrays, as they are read.

A large run has tens of thousands of records. Were each held until all are put together, their rows would be there
twice, and every column of a record would be an object of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scalana.graphs.parts import Ints, as_recorded
from scalana.runtime.record_format import EventColumns, ProcessRecord, RunFolder, SampleColumns

_SPARE = 1.1
"""Room for so many times the rows that those read so far let expect."""
_GROWTH = 1.5
"""Least growth where that was too little."""
_AT_ONCE = 64
"""Tables that are put onto a shelf at once."""


class Shelf:
    """Tables of one kind, of many records, one after the other."""

    def __init__(self, names: Iterable[str]) -> None:
        self.columns: dict[str, Ints] = {name: np.zeros(0, np.int8) for name in names}
        """Each as wide as its widest value, and with room for more ``[rows and room]``."""
        self.used = 0
        """Rows, with those of tables that are yet to be put there."""
        self._waiting: list[Any] = []

    def add(self, table: Any, part: float) -> Rows:
        """Put a table behind the others. With it, ``part`` of what there is has been read."""
        rows = slice(self.used, self.used + len(table))
        self.used = rows.stop
        self._waiting.append(table)
        if len(self._waiting) >= _AT_ONCE:
            self.put_there(part)
        return Rows(self, rows)

    def put_there(self, part: float) -> None:
        """Put there what is waiting for it."""
        rows = slice(self.used - sum(map(len, self._waiting)), self.used)
        for name in self.columns if self._waiting else ():
            values = [as_recorded(getattr(table, name)) for table in self._waiting]
            column = self.columns[name]
            kind = np.result_type(column, *{value.dtype for value in values})
            if rows.stop > len(column) or kind != column.dtype:
                column = self.columns[name] = _larger(column, rows, kind, part)
            np.concatenate(values, out=column[rows])
        self._waiting = []


def _larger(column: Ints, rows: slice, kind: npt.DTypeLike, part: float) -> Ints:
    """A column of a type, with room for some more rows and those that will follow."""
    room = len(column)
    if rows.stop > room:
        room = max(int(_SPARE * rows.stop / part), int(_GROWTH * room), rows.stop)
    larger = np.empty(room, kind)  # room that is never used takes no memory
    larger[: rows.start] = column[: rows.start]
    return larger


class Rows:
    """A table of one record: has the columns of its kind as attributes, which are on a shelf or its own."""

    __slots__ = ("own", "rows", "shelf")

    def __init__(self, shelf: Shelf, rows: slice, own: Mapping[str, Any] | None = None) -> None:
        self.shelf = shelf
        self.rows = rows
        self.own: Mapping[str, Any] = own or {}

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def __getattr__(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        if name in self.shelf.columns:
            return self.shelf.columns[name][self.rows]
        raise AttributeError(name)

    def taken(self, name: str) -> Ints:
        """A column that is on the shelf, and from now on is not."""
        return self.shelf.columns.pop(name)[self.rows]

    def having(self, **own: Any) -> Rows:
        """The same with other columns in place of some."""
        return Rows(self.shelf, self.rows, {**self.own, **own})


def read_records(folder: RunFolder) -> list[ProcessRecord]:
    """Read all records of a run, ranks first and in order; their samples and events are :class:`Rows`.

    Raises:
        RecordError: not one could be read.
    """
    size = {file: file.stat().st_size if file.exists() else 0 for file in folder.record_files()}
    samples, events = (Shelf(column.name for column in fields(kind)) for kind in (SampleColumns, EventColumns))
    total, read = max(sum(size.values()), 1), 0

    def put_away(record: ProcessRecord) -> ProcessRecord:
        nonlocal read
        read += size.get(record.file, 0)
        part = max(read, 1) / total
        return replace(
            record,
            samples=cast(SampleColumns, samples.add(record.samples, part)),
            events=cast(EventColumns, events.add(record.events, part)),
        )

    records = folder.processes(put_away)
    for shelf in (samples, events):
        shelf.put_there(1.0)
    return records


def as_one(tables: Sequence[Any]) -> Rows | None:
    """Tables of one shelf as one, None if they are anything else. Where they don't follow each other there they are
    put into this order, and nothing else is left."""
    if not tables or not all(isinstance(table, Rows) for table in tables):
        return None
    shelf, first = tables[0].shelf, tables[0].rows.start
    if not all(table.shelf is shelf for table in tables):
        return None
    last = first
    for table in tables:
        if table.rows.start != last:
            return _rearranged(shelf, tables)
        last = table.rows.stop
    return Rows(shelf, slice(first, last))


def _rearranged(shelf: Shelf, tables: Sequence[Rows]) -> Rows:
    """Put tables onto a new shelf in this order, column by column: no more than one is there twice."""
    other = Shelf(())
    for name in list(shelf.columns):
        column = shelf.columns.pop(name)
        other.columns[name] = np.concatenate([column[table.rows] for table in tables])
    for table in tables:
        table.shelf, table.rows = other, slice(other.used, other.used + len(table))
        other.used = table.rows.stop
    return Rows(other, slice(0, other.used))
