"""Reading the records of a run: samples and events of all go into a few large arrays, as they are read.

A large run has tens of thousands of records. Were each held until all are put together, their rows would be there
twice, and every column of a record would be an object of its own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from scalana.graphs.readers.folder.record_columns import Ints
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.record.format import EventColumns, ProcessRecord, SampleColumns

_SPARE = 1.1
"""Room for so many times the rows that those read so far let expect."""
_INTEGERS = {width: np.dtype(f"i{width}") for width in (1, 2, 4, 8)}


class Shelf:
    """Room for tables of one kind, of many records, one after the other."""

    def __init__(self, widths: Mapping[str, int], room: int) -> None:
        """``widths`` are the bytes of an integer in each column."""
        # Room that is never used takes no memory.
        self.columns: dict[str, Ints] = {name: np.empty(room, _INTEGERS[width]) for name, width in widths.items()}
        """``[rows and room]``"""
        self.room = room
        self.used = 0
        """Rows."""

    def place(self, tables: Sequence[Any]) -> list[Rows]:
        """The places of tables behind the others."""
        ends = list(itertools.accumulate(map(len, tables), initial=self.used))
        self.used = ends[-1]
        return [Rows(self, slice(*rows)) for rows in itertools.pairwise(ends)]


class Shelves:
    """Shelves for all tables of one kind of a run: one, but where there is too little room on it or values are wider
    than the first ones."""

    def __init__(self, names: Iterable[str]) -> None:
        self._shelf = Shelf(dict.fromkeys(names, 1), 0)
        self._rows = 0

    def place(self, tables: Sequence[Any], part: float) -> list[Rows]:
        """The places of tables, which are to be put there by :func:`put`. With them, ``part`` of all there is has been
        read."""
        shelf, rows = self._shelf, sum(map(len, tables))
        there = {name: column.itemsize for name, column in shelf.columns.items()}
        widths = {name: max([there[name], *(getattr(table, name).itemsize for table in tables)]) for name in there}
        if shelf.used + rows > shelf.room or widths != there:
            to_come = (self._rows + rows) / part - self._rows
            self._shelf = Shelf(widths, max(int(_SPARE * to_come), rows))
        self._rows += rows
        return self._shelf.place(tables)


def put(tables: Sequence[Any], places: Sequence[Rows]) -> None:
    """Put tables in their places, which follow each other."""
    if not tables:
        return
    rows = slice(places[0].rows.start, places[-1].rows.stop)
    for name, column in places[0].shelf.columns.items():
        values = [getattr(table, name) for table in tables]
        np.concatenate(
            [np.frombuffer(one, _INTEGERS[one.itemsize]) for one in values if len(one)] or [column[:0]],
            out=column[rows],
        )


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
    size = {file: _size(file) for file in folder.record_files()}
    shelves = [Shelves(column.name for column in fields(kind)) for kind in (SampleColumns, EventColumns)]
    total, read, turn = max(sum(size.values()), 1), 0, 0
    turns = threading.Condition()

    def put_away(number: int, records: list[ProcessRecord]) -> list[ProcessRecord]:
        nonlocal read, turn
        kinds: list[list[Any]] = [[record.samples for record in records], [record.events for record in records]]
        with turns:
            turns.wait_for(lambda: turn == number)
            try:
                read += sum(size.get(record.file, 0) for record in records)
                places = [
                    shelf.place(tables, max(read, 1) / total) for shelf, tables in zip(shelves, kinds, strict=True)
                ]
            finally:
                turn += 1
                turns.notify_all()
        for tables, some in zip(kinds, places, strict=True):
            put(tables, some)
        return [
            replace(record, samples=cast(SampleColumns, samples), events=cast(EventColumns, events))
            for record, samples, events in zip(records, *places, strict=True)
        ]

    return folder.processes(put_away)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def as_one(tables: Sequence[Any]) -> Rows | None:
    """Tables on shelves as one, None if they are anything else. Where they don't follow each other on one shelf they
    are put in this order, and nothing else is left there."""
    if not tables or not all(isinstance(table, Rows) for table in tables):
        return None
    shelf, first = tables[0].shelf, tables[0].rows.start
    last = first
    for table in tables:
        if table.shelf is not shelf or table.rows.start != last:
            return _rearranged(tables)
        last = table.rows.stop
    return Rows(shelf, slice(first, last))


def _rearranged(tables: Sequence[Rows]) -> Rows:
    """Put tables onto a new shelf in this order, column by column: no more than one is there twice."""
    shelves = {id(table.shelf): table.shelf for table in tables}.values()
    other = Shelf({}, sum(map(len, tables)))
    for name in list(tables[0].shelf.columns):
        other.columns[name] = np.concatenate([table.shelf.columns[name][table.rows] for table in tables])
        for shelf in shelves:
            del shelf.columns[name]
    for table, place in zip(tables, other.place(tables), strict=True):
        table.shelf, table.rows = other, place.rows
    return Rows(other, slice(0, other.used))
