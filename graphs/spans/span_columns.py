"""Spans as columns: of what type, where, when, and with which attributes. There may be millions of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.readers.columns.span_reading import Lanes, SpanTable
from scalana.graphs.readers.folder.record_columns import Ints
from scalana.runtime.record.format import (
    ATTRIBUTE_REAL,
    ATTRIBUTE_TEXT,
    HOST_ACTIVITY,
    LANE_STREAM,
    LANE_THREAD,
    SPAN_TYPE,
)


@dataclass(slots=True)
class Spans:
    """All spans of a run, one process after the other, of each in the order of their ends.

    Integers may be narrow: widen them before calculating. Times are ns on the run's axis, as of its timeline.
    """

    table: SpanTable = field(default_factory=SpanTable)
    """The columns ``lane``, ``type``, ``name``, ``start_ns``, ``end_ns``, ``cpu_ns``, ``path``, ``event``, ``step``."""
    vertex: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """Vertex of the call path that it began in ``[spans]``."""
    call: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """Row in the timeline's calls of the call whose side on a device it is, -1 for none ``[spans]``."""
    line: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """Line of the user's own code at which it began, in the file of the vertex, 0 for none ``[spans]``."""

    def __len__(self) -> int:
        return len(self.table)

    @property
    def lanes(self) -> Lanes:
        """What the spans lie on."""
        return self.table.lanes

    @property
    def names(self) -> list[str]:
        """Names, keys and texts, each once."""
        return self.table.names

    @property
    def process(self) -> IntArray:
        """Row in the list of processes ``[spans]``."""
        return self.lanes.process[self.table.lane].astype(np.int64)

    @property
    def rank(self) -> IntArray:
        """World rank ``[spans]``."""
        return self.lanes.rank[self.table.lane].astype(np.int64)

    def device_lanes(self) -> BoolArray:
        """Which lanes are streams of devices ``[lanes]``."""
        return np.asarray(self.lanes.kind == LANE_STREAM)

    def activity_lanes(self) -> BoolArray:
        """Which lanes say what a thread did, one thing after the other ``[lanes]``."""
        return np.asarray((self.lanes.kind == LANE_THREAD) & (self.lanes.name == self.number(HOST_ACTIVITY)))

    def rows(self, kind: str, name: str | None = None) -> IntArray:
        """Rows of the spans of a type of ``SPAN_TYPES``, and of a name if one is given ``[some spans]``.

        Raises:
            KeyError: there is no such type.
        """
        chosen = self.table.type == SPAN_TYPE[kind]
        if name is not None:
            chosen &= self.table.name == self.number(name)
        return np.flatnonzero(chosen)

    def of_ranks(self, rows: IntArray, ranks: int) -> IntArray:
        """Those of some rows that are of ranks, and of no other process."""
        rank = self.rank[rows]
        return np.asarray(rows[(rank >= 0) & (rank < ranks)])

    def places(self, rows: IntArray) -> list[tuple[int, int]]:
        """Vertex and line of the user's code at which each began, the line 0 where that is not known ``[rows]``."""
        lines = self.line[rows].tolist() if len(self.line) else [0] * len(rows)
        return list(zip(self.vertex[rows].tolist(), lines, strict=True))

    def start_s(self, rows: IntArray | slice = slice(None)) -> FloatArray:
        """Start of some spans ``[rows]``."""
        return to_seconds(self.table.start_ns[rows])

    def end_s(self, rows: IntArray | slice = slice(None)) -> FloatArray:
        """End of some spans ``[rows]``."""
        return to_seconds(self.table.end_ns[rows])

    def cpu_s(self, rows: IntArray | slice = slice(None)) -> FloatArray:
        """CPU seconds of some spans, NaN where they are not known ``[rows]``."""
        cpu = self.table.cpu_ns[rows]
        return np.where(cpu < 0, np.nan, cpu * 1e-9)

    def number(self, text: str) -> int:
        """Row of a text in :attr:`names`, -1 where no span has it."""
        try:
            return self.names.index(text)
        except ValueError:
            return -1

    def keys(self) -> list[str]:
        """All keys of attributes, in the order of :attr:`names`."""
        return [self.names[key] for key in np.unique(self.table.key).tolist()]

    def numbers(self, key: str) -> FloatArray:
        """An attribute as a number, NaN for spans that don't have it, or have a text ``[spans]``."""
        span, row = self._with(key)
        tag, value = self.table.tag[row], self.table.value[row].astype(np.int64)
        number = np.where(tag == ATTRIBUTE_REAL, value.view(np.float64), value.astype(np.float64))
        result = np.full(len(self), np.nan)
        result[span] = np.where(tag == ATTRIBUTE_TEXT, np.nan, number)
        return result

    def integers(self, key: str, missing: int = -1) -> IntArray:
        """An attribute as an integer, to the last bit; ``missing`` where it is none ``[spans]``."""
        span, row = self._with(key)
        whole = (self.table.tag[row] != ATTRIBUTE_REAL) & (self.table.tag[row] != ATTRIBUTE_TEXT)
        result = np.full(len(self), missing, np.int64)
        result[span[whole]] = self.table.value[row[whole]]
        return result

    def texts(self, key: str) -> IntArray:
        """An attribute that is a text, as its row in :attr:`names`; -1 for spans that don't have one ``[spans]``."""
        span, row = self._with(key)
        text = self.table.tag[row] == ATTRIBUTE_TEXT
        result = np.full(len(self), -1, np.int64)
        result[span[text]] = self.table.value[row[text]]
        return result

    def attributes(self, span: int) -> dict[str, int | float | str]:
        """All attributes of one span: for people, and for tests."""
        table, found = self.table, {}
        for row in range(int(table.first[span]), int(table.first[span + 1])):
            value: Any = int(table.value[row])
            if table.tag[row] == ATTRIBUTE_REAL:
                value = float(np.array(value, np.int64).view(np.float64))
            elif table.tag[row] == ATTRIBUTE_TEXT:
                value = self.names[value]
            found[self.names[int(table.key[row])]] = value
        return found

    def _with(self, key: str) -> tuple[IntArray, npt.NDArray[np.int64]]:
        """Spans that have an attribute, and the rows of it; where a span has it twice, the later wins."""
        row = np.flatnonzero(self.table.key == self.number(key))
        return np.searchsorted(self.table.first, row, side="right") - 1, row
