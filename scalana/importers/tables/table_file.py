"""One file with a table of operations -> its columns, as they stand there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from scalana.importers.errors import DamagedTrace, TraceError
from scalana.importers.tables.table_columns import resembles

if TYPE_CHECKING:
    import pandas as pd

    from scalana.importers.files import TraceFile

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
