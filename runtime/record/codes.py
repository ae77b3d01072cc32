"""The code objects that a record's call paths lead through."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .line_tables import Position, position


class Code(NamedTuple):
    """One code object, or a native or synthetic place."""

    filename: str
    name: str
    """Qualified name."""
    first_line: int
    minor: int
    """Minor version of the Python that made the line table; 0 where there is none."""
    line_table: bytes

    def position(self, lasti: int) -> Position:
        """Position of the instruction at byte offset ``lasti``."""
        return position(self.line_table, self.minor, self.first_line, lasti)


class Codes(Mapping[int, Code]):
    """The codes of a record by their ids, of equal ids the last.

    Records of one program have most codes in common: each is kept once for all records that are read together, and a
    record says which ones are its own.
    """

    __slots__ = ("_row_of", "every", "ids", "rows")

    def __init__(self, ids: memoryview[int], rows: memoryview[int], every: Sequence[Code]) -> None:
        self.ids, self.rows = array("q"), array("q")
        """Ids of the record's codes, and the row of each in :attr:`every`."""
        self.ids.frombytes(ids.cast("B"))
        self.rows.frombytes(rows.cast("B"))
        self.every = every
        """The codes of all records that were read together."""
        self._row_of: dict[int, int] | None = None

    def _rows_by_id(self) -> dict[int, int]:
        if self._row_of is None:
            self._row_of = dict(zip(self.ids, self.rows, strict=True))
        return self._row_of

    def __getitem__(self, number: int) -> Code:
        return self.every[self._rows_by_id()[number]]

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows_by_id())

    def __len__(self) -> int:
        return len(self._rows_by_id())

    def __bool__(self) -> bool:
        return len(self.ids) > 0
