"""The tables of a record while its blocks are read, and as they are handed over in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from scalana.graphs.readers.portable.definitions import Definitions, chained
from scalana.graphs.readers.portable.varints import Places, Unsigned
from scalana.runtime.record.format import ATTRIBUTE_TEXT

TABLES = {
    "paths": "4444",
    "samples": "484884",
    "events": "844484884888848",
    "done": "8884",
    "unwritten": "4888",
    "spans": "4448884888",
    "attributes": "448",
    "span_totals": "4444888",
    "totals": "4448888",
    "open": "484484488",
}
"""Bytes of a value at most, of each column; what is wider is cut."""
_FORMATS: dict[int, tuple[Literal["b", "h", "i", "q"], Any]] = {
    1: ("b", np.int8), 2: ("h", np.int16), 4: ("i", np.int32), 8: ("q", np.int64),
}  # fmt: skip
"""Of integers of so many bytes: as Python and as numpy name them."""
_IN_ORDER = ("spans", "attributes", "unwritten")
"""Tables whose rows may come in another order than that of the file."""


class Tables:
    """Rows of all tables, block by block."""

    def __init__(self) -> None:
        self._parts: dict[str, list[list[Places]]] = {name: [] for name in TABLES}
        self._places: dict[str, list[Places]] = {name: [] for name in TABLES}

    def put(self, name: str, places: Places, columns: Sequence[Any]) -> None:
        """Rows of a table; ``places`` are those of their records in the file."""
        if len(places):
            self._parts[name].append([np.asarray(column).view(np.int64) for column in columns])
            self._places[name].append(places)

    def put_spans(
        self,
        places: Places,
        columns: Sequence[Any],
        rows: tuple[int, int] | None,
        lane: Unsigned | None = None,
        name: Unsigned | None = None,
    ) -> None:
        """Spans: type, start, duration, CPU time, path, event, step; and lane and name, by ``rows`` or else by ids."""
        kind, *rest = columns
        if rows is not None:
            lane, name = (np.full(len(places), row, np.uint64) for row in rows)
        is_row = np.full(len(places), rows is not None, np.uint64)
        self.put("spans", places, (kind, lane, name, *rest, is_row))

    def columns(self, definitions: Definitions) -> dict[str, list[Places]]:
        """All columns, ids of names and lanes replaced by their rows."""
        found = {}
        for name, widths in TABLES.items():
            parts = self._parts[name]
            columns = [chained([part[i] for part in parts]) for i in range(len(widths))]
            places = chained(self._places[name])
            if name in _IN_ORDER:
                order = np.argsort(places, kind="stable")
                columns, places = [column[order] for column in columns], places[order]
            found[name], self._places[name] = columns, [places]
        _translate(found, {name: parts[0] for name, parts in self._places.items()}, definitions)
        found["paths"] = [np.concatenate((np.zeros(1, np.int64), column)) for column in found["paths"]]
        return found


def _translate(tables: dict[str, list[Places]], places: dict[str, Places], definitions: Definitions) -> None:
    names, lanes = definitions.name_ids, definitions.lane_ids
    spans, where = tables["spans"], places["spans"]
    by_id = spans[9] == 0
    for column, ids in ((1, lanes), (2, names)):
        spans[column][by_id] = ids.rows_of(spans[column][by_id].view(np.uint64), where[by_id])
    of_attribute = places["attributes"]
    spans[9] = np.searchsorted(of_attribute, where, side="right").astype(np.int64)
    key, tag, value = tables["attributes"]
    tables["attributes"][0] = names.rows_of(key.view(np.uint64), of_attribute)
    texts = tag == ATTRIBUTE_TEXT
    value[texts] = names.rows_of(value[texts].view(np.uint64), of_attribute[texts])
    sums, of_sum = tables["span_totals"], places["span_totals"]
    sums[1] = lanes.rows_of(sums[1].view(np.uint64), of_sum)
    sums[2] = names.rows_of(sums[2].view(np.uint64), of_sum)


def table(name: str, columns: Sequence[Places]) -> tuple[memoryview, ...]:
    """A table, each column as narrow as its values allow."""
    return tuple(_narrow(column, int(widest)) for column, widest in zip(columns, TABLES[name], strict=True))


def _narrow(values: Places, widest: int) -> memoryview:
    if widest == 4:
        values = np.clip(values, -(1 << 31), (1 << 31) - 1)
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    width = next(width for width in (1, 2, 4, 8) if -(1 << (8 * width - 1)) <= low and high < 1 << (8 * width - 1))
    form, kind = _FORMATS[width]
    return memoryview(values.astype(kind).tobytes()).cast(form)
