"""Data sets that Hugging Face's ``datasets`` has put into one table: which of its rows are whose.

What ``concatenate_datasets`` and ``interleave_datasets`` make of map-style data sets does not hold these any more, but
its columns have the same memory: a chunk of a column is known by its address, however rows are chosen and formatted.
"""

from __future__ import annotations

import bisect
import itertools

from scalana.runtime.typed import Any, Iterable, Iterator

_MOST_CHUNKS = 1 << 14
"""Of the columns of one data set."""
_source_at: dict[int, tuple[int, str]] = {}
"""Whose rows lie at an address: number and name of a data set."""
_numbers = itertools.count()


class Rows:
    """The rows of one data set that is a mixture."""

    def __init__(self, data_set: Any, chunks: list[tuple[tuple[int, str], int]]) -> None:
        self.data_set = data_set
        sources = list(dict.fromkeys(source for source, _ in chunks))
        names = [name for _, name in sources]
        self.names = [name if names.count(name) == 1 else f"{name} ({at + 1})" for at, name in enumerate(names)]
        self._source = [sources.index(source) for source, _ in chunks]
        self._ends = list(itertools.accumulate(size for _, size in chunks))
        """Of each chunk."""

    def counted(self, key: Any) -> dict[int, int]:
        """How many rows of each source a key stands for: a number, a slice, or a list of numbers."""
        size = len(self.data_set)
        wanted = [key] if isinstance(key, int) else range(size)[key] if isinstance(key, slice) else list(key)
        rows = [number % size for number in wanted]
        order = self.data_set._indices
        if order is not None:
            rows = order.column(0).take(rows).to_pylist()
        found: dict[int, int] = {}
        for row in rows:
            source = self._source[bisect.bisect_right(self._ends, row)]
            found[source] = found.get(source, 0) + 1
        return found


def join(named: Iterable[tuple[str, Any]]) -> None:
    """Note that rows are of these data sets, which are put into one table."""
    for name, data_set in named:
        if rows_of(data_set) is not None:  # what it has been made of has names already
            continue
        source = next(_numbers), name
        columns = data_set._data.columns
        for column in columns[: _MOST_CHUNKS // max(columns[0].num_chunks, 1) if columns else 0]:
            _source_at.update((address, source) for address, _ in _chunks(column) if address)


def rows_of(data_set: Any) -> Rows | None:
    """The rows of a data set of that library; None where it is no mixture that was noted."""
    table: Any = getattr(data_set, "_data", None) if _source_at else None
    if not hasattr(table, "columns") or not hasattr(data_set, "_indices"):
        return None
    for column in table.columns:
        chunks = list(_chunks(column))
        if all(address in _source_at for address, _ in chunks):
            rows = Rows(data_set, [(_source_at[address], size) for address, size in chunks])
            return rows if len(rows.names) > 1 else None
    return None


def _chunks(column: Any) -> Iterator[tuple[int, int]]:
    """Address and number of rows of each chunk with any."""
    for chunk in column.chunks:
        if len(chunk):
            yield next((part.address for part in reversed(chunk.buffers()) if part is not None), 0), len(chunk)
