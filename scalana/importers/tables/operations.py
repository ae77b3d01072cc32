"""Operations of a table as columns of numbers: read, checked, and put together from several files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.importers.errors import DamagedTrace, TraceError
from scalana.importers.tables.operation_kinds import Kind, Role, kind_of
from scalana.importers.tables.table_columns import BY_NAME, Header, header_of, resembles

if TYPE_CHECKING:
    import pandas as pd

    from scalana.importers.files import TraceFile


UNKNOWN = -1
"""A number that the table does not have."""


@dataclass(frozen=True, slots=True)
class Operations(ColumnTable):
    """Operations of all ranks, ``[operations]`` each; -1 is what is not known."""

    rank: IntArray
    kind: IntArray
    """Row in :attr:`Table.kinds`."""
    step: IntArray
    microbatch: IntArray
    stage: IntArray
    """Of the whole pipeline."""
    replica: IntArray
    group: IntArray
    """Row in :attr:`Table.groups`."""
    begin_ns: IntArray
    end_ns: IntArray


@dataclass(slots=True)
class Table:
    """What one file holds, or all together."""

    file: str
    kinds: tuple[Kind, ...]
    groups: tuple[str, ...]
    operations: Operations
    rank: int = UNKNOWN
    """No one rank: a table has many."""


def read(file: TraceFile) -> Table:
    """Read one file.

    Raises:
        TraceError: it cannot be read, or holds no table of operations; the message names the column and the row.
    """
    frame = read_columns(file)
    header, wrong = header_of([str(name) for name in frame.columns])
    if header is None:
        raise TraceError(
            f"{file.name}: not a table of operations: {wrong}; docs/import-tables.md describes the columns"
        )
    if not len(frame):
        raise TraceError(f"{file.name}: the table has no rows")
    return _Reader(file.name, frame, header).table()


def together(tables: Sequence[Table]) -> Table:
    """All tables as one."""
    kinds, kind_rows = _united([table.kinds for table in tables])
    groups, group_rows = _united([table.groups for table in tables])
    columns = {column.name: [getattr(t.operations, column.name) for t in tables] for column in fields(Operations)}
    columns["kind"] = [rows[kind] for rows, kind in zip(kind_rows, columns["kind"], strict=True)]
    columns["group"] = [rows[group] for rows, group in zip(group_rows, columns["group"], strict=True)]
    every = Operations(*(np.concatenate(parts) for parts in columns.values()))
    return Table(tables[0].file, kinds, groups, every)


def _united(parts: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], list[IntArray]]:
    """Values of several lists, each once; and the row of each in it, -1 for the -1 at the end of every list."""
    every = tuple(dict.fromkeys(value for part in parts for value in part))
    row = {value: number for number, value in enumerate(every)}
    return every, [np.array([*(row[value] for value in part), UNKNOWN], np.int64) for part in parts]


class _Reader:
    """Turns the columns of one file into numbers."""

    def __init__(self, file: str, frame: pd.DataFrame, header: Header) -> None:
        self.file, self.frame, self.header = file, frame, header

    def table(self) -> Table:
        """All of it."""
        rank = self._whole("rank")
        self._refuse("rank", rank < 0, "is no rank (a whole number from 0 on)")
        names, kind = self._words("kind")
        self._refuse("kind", kind < 0, "is no kind of operation")
        kinds = tuple(kind_of(name) for name in names)
        groups, group = self._words("group")
        begin_ns, end_ns = self._moments()
        step = self._whole("step")
        columns = rank, kind, step, self._whole("microbatch"), self._stage(), self._whole("replica"), group
        self._check_groups(kinds, kind, group)
        return Table(self.file, kinds, groups, Operations(*columns, begin_ns, end_ns))

    def _check_groups(self, kinds: tuple[Kind, ...], kind: IntArray, group: IntArray) -> None:
        """A group makes an operation a collective one, of which it must be known what it waits for."""
        own = np.array([one.role is Role.OWN for one in kinds], bool)[kind]
        says = "has a group, but is no known collective: name it all_reduce, reduce_scatter, all_gather or barrier"
        self._refuse("kind", own & (group >= 0), says)

    def _stage(self) -> IntArray:
        """Of the whole pipeline: where a rank has several, those of the straggler study count its ranks."""
        if "model_stage" in self.header.column:
            model = self._whole("model_stage")
            return np.where(model >= 0, model, self._whole("stage"))
        stage = self._whole("stage")
        if self.header.is_study and "chunk" in self.header.column:
            chunk = np.maximum(self._whole("chunk"), 0)
            return np.where(stage >= 0, stage + chunk * (int(stage.max()) + 1), stage)
        return stage

    def _refuse(self, column: str, wrong: BoolArray, says: str) -> None:
        """Raise an error that names the first row in which something is wrong."""
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            name = self.header.column[column]
            raise TraceError(f"{self.file}: row {row + 1}, column {name}: {self.frame[name].iloc[row]!r} {says}")

    def _numbers(self, column: str) -> tuple[Any, BoolArray]:
        """The numbers of a column, and where it has none."""
        import pandas as pd

        given = self.frame[self.header.column[column]]
        if given.dtype == object or not pd.api.types.is_numeric_dtype(given):
            empty = (given.isna() | (given.astype(str).str.strip() == "")).to_numpy(bool)
            found = pd.to_numeric(given.where(~empty, None), errors="coerce")
        else:
            empty, found = given.isna().to_numpy(bool), given
        numbers = found.to_numpy(np.int64 if found.dtype.kind == "i" and not empty.any() else np.float64)
        self._refuse(column, ~empty & ~np.isfinite(numbers), "is not a number")
        return numbers, empty

    def _whole(self, column: str) -> IntArray:
        """Whole numbers from 0 on, -1 where there are none."""
        if column not in self.header.column:
            return np.full(len(self.frame), UNKNOWN, np.int64)
        numbers, empty = self._numbers(column)
        values = np.where(empty, UNKNOWN, numbers)
        self._refuse(column, values != np.floor(values), "is not a whole number")
        return np.maximum(values, UNKNOWN).astype(np.int64)  # others write -1, too

    def _words(self, column: str) -> tuple[tuple[str, ...], IntArray]:
        """The words of a column, each once, and the row in these; -1 where there are none."""
        import pandas as pd

        if not BY_NAME[column].is_text or column not in self.header.column:
            return (), np.full(len(self.frame), UNKNOWN, np.int64)
        given = self.frame[self.header.column[column]]
        texts = given.astype(object).where(given.notna(), "").astype(str).str.strip()
        codes, words = pd.factorize(texts)
        names = [str(word) for word in words]
        if "" not in names:
            return tuple(names), codes.astype(np.int64)
        blank = names.index("")
        found = np.where(codes == blank, UNKNOWN, codes - (codes > blank))
        return tuple(name for name in names if name), found.astype(np.int64)

    def _moments(self) -> tuple[IntArray, IntArray]:
        """Begin and end, ns."""
        begin = self._nanoseconds("begin")
        if "duration" in self.header.column:
            duration = self._nanoseconds("duration")
            self._refuse("duration", duration < 0, "is less than nothing")
            return begin, begin + duration
        end = self._nanoseconds("end")
        self._refuse("end", end < begin, "lies before the begin of its row")
        return begin, end

    def _nanoseconds(self, column: str) -> IntArray:
        numbers, empty = self._numbers(column)
        self._refuse(column, empty, "is no time")
        unit = self.header.unit_ns[column]
        if numbers.dtype.kind == "i":
            return np.asarray(numbers * unit, np.int64)
        whole = np.floor(numbers)  # seconds since 1970 leave no room for nanoseconds in one number
        return (whole * unit).astype(np.int64) + np.rint((numbers - whole) * unit).astype(np.int64)


PARQUET = b"PAR1"
_SEPARATORS = (",", "\t", ";")
_NO_PARQUET = (
    "{file}: reading parquet needs the package pyarrow, which is not installed: `pip install pyarrow`, or save the "
    "table as CSV or JSON lines"
)


def recognises(beginning: bytes) -> bool:
    """Whether a file that begins so may be a table of operations."""
    if beginning.startswith(PARQUET):
        return True
    first = _text(beginning).lstrip().partition("\n")[0]
    if first.startswith("{"):
        return resembles(re.findall(r'"(\w+)"\s*:', first)) and '"traceEvents"' not in first
    separator = _separator(first)
    return separator is not None and resembles(first.split(separator))


def read_columns(file: TraceFile) -> pd.DataFrame:
    """The columns of a table as it has them: texts of CSV, values of others.

    Raises:
        TraceError: it cannot be read, or what reads it is not installed.
    """
    try:
        with file.open() as opened:
            data = opened.read()
    except (OSError, EOFError) as error:
        raise DamagedTrace(f"{file.name}: cannot be read: {error}") from error
    if data.startswith(PARQUET):
        return _parquet(file.name, data)
    text = _text(data)
    return _lines(file.name, text) if text.lstrip()[:1] == "{" else _csv(file.name, text)


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")


def _separator(line: str) -> str | None:
    """By what the columns of a first line are separated; None where there is nothing of the kind."""
    most = max(_SEPARATORS, key=line.count)
    return most if most in line else None


def _csv(file: str, text: str) -> pd.DataFrame:
    import io

    import pandas as pd

    separator = _separator(text.lstrip().partition("\n")[0]) or ","
    try:
        return pd.read_csv(
            io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, skipinitialspace=True, index_col=False
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TraceError(f"{file}: not a readable CSV table: {error}") from error


def _lines(file: str, text: str) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise TraceError(f"{file}: line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise TraceError(f"{file}: line {number} is not an object with the columns of one operation")
        rows.append(row)
    return pd.DataFrame(rows, dtype=object)


def _parquet(file: str, data: bytes) -> pd.DataFrame:
    import io

    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(data))
    except ImportError as error:
        raise TraceError(_NO_PARQUET.format(file=file)) from error
    except (OSError, ValueError) as error:  # pyarrow's own errors are some of these
        raise TraceError(f"{file}: not a readable parquet file: {error}") from error
