"""Names and lanes of spans: each stands in the file under an id, before the spans that use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.readers.portable.varints import Places, Unsigned

_LANE_OF_THREAD = 1 << 48
"""In files of version 1 lanes have no ids of their own; in others, none is as large."""
_OTHER, _THREAD = 4, 0


@dataclass(slots=True)
class Ids:
    """Which row an id stands for, from which place of the file on."""

    ids: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def define(self, number: int, place: int, row: int) -> None:
        """From a place of the file on, which lies behind all earlier ones, an id stands for a row."""
        self.ids.append(number)
        self.places.append(place)
        self.rows.append(row)

    def rows_of(self, numbers: Unsigned, places: Places) -> Places:
        """What ids stand for at places of the file; 0 where nothing was defined before."""
        found = np.zeros(len(numbers), np.int64)
        if not self.ids or not len(numbers):
            return found
        ids = np.array(self.ids, np.uint64)
        known, of_definition = np.unique(ids, return_inverse=True)
        order = np.lexsort((np.array(self.places, np.int64), of_definition))
        # No file is as large as 2**40 bytes, so that both fit into one number.
        keys = (of_definition[order].astype(np.int64) << 40) + np.array(self.places, np.int64)[order]
        at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        last = np.searchsorted(keys, (at.astype(np.int64) << 40) + places) - 1
        good = (known[at] == numbers) & (numbers != 0) & (last >= 0)
        good &= of_definition[order][np.maximum(last, 0)] == at
        found[good] = np.array(self.rows, np.int64)[order][last[good]]
        return found


@dataclass(slots=True)
class Definitions:
    """The names and lanes of a record, each once."""

    names: list[str] = field(default_factory=lambda: [""])
    lanes: list[tuple[int, int, str]] = field(default_factory=lambda: [(_OTHER, -1, "")])
    name_ids: Ids = field(default_factory=Ids)
    lane_ids: Ids = field(default_factory=Ids)
    _name_rows: dict[str, int] = field(default_factory=lambda: {"": 0})
    _lane_rows: dict[int, int] = field(default_factory=dict)

    def name_row(self, name: str) -> int:
        """Row of a name, which is added if it is new."""
        row = self._name_rows.setdefault(name, len(self.names))
        if row == len(self.names):
            self.names.append(name)
        return row

    def string(self, number: int, name: str, place: int) -> None:
        """A STRING record."""
        self.name_ids.define(number, place, self.name_row(name))

    def lane(self, number: int, lane: tuple[int, int, str], place: int) -> int:
        """A LANE record: the first one of an id counts. Returns its row."""
        row = self._lane_rows.get(number)
        if row is None:
            row = self._lane_rows[number] = len(self.lanes)
            self.lanes.append(lane)
            self.lane_ids.define(number, place, row)
        return row

    def lane_of_thread(self, thread: int, place: int) -> int:
        """Row of the lane of a thread in a file of version 1."""
        return self.lane(_LANE_OF_THREAD + thread, (_THREAD, min(thread, (1 << 31) - 1), ""), place)


def chained(parts: Sequence[Places]) -> Places:
    """Columns one behind the other."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
