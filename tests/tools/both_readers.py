"""Reads each record twice, by the C extension and by numpy, and compares: each is the other's oracle."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from scalana.graphs.readers.portable import portable_reader
from scalana.graphs.readers.portable.record_tables import TABLES
from scalana.runtime import _core

COMPILED: Callable[..., dict[str, Any]] = _core.read  # type: ignore[assignment]


def read(
    path: str | os.PathLike[str],
    code_type: Callable[..., Any],
    codes: list[Any],
    code_rows: dict[bytes, int],
    ranks: dict[tuple[bool, bytes], memoryview[int]],
) -> dict[str, Any]:
    """Read a record by C; what numpy reads has to be equal, errors too."""
    others = list(codes), dict(code_rows), dict(ranks)
    try:
        expected = COMPILED(path, code_type, codes, code_rows, ranks)
    except (OSError, ValueError) as error:
        assert said(path, code_type, *others) == (type(error), str(error))
        raise
    found = portable_reader.read(path, code_type, *others)
    assert (codes, code_rows, ranks) == others
    compare(expected, found)
    return expected


def said(*arguments: Any) -> tuple[type, str]:
    """What the reader in numpy says of a file that cannot be read."""
    try:
        portable_reader.read(*arguments)
    except (OSError, ValueError) as error:
        return type(error), str(error)
    raise AssertionError("the other reader reads it")


def compare(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Assert that two readers have read the same."""
    assert expected.keys() == found.keys()
    for name in expected:
        if name not in (*TABLES, "codes"):
            assert found[name] == expected[name], name
            continue
        # Of a damaged file, a column of the one in C may be wider than what is left in it.
        damaged = bool(expected["troubles"])
        for number, (column, other) in enumerate(zip(expected[name], found[name], strict=True)):
            assert damaged or column.format == other.format, (name, number)
            assert column.tolist() == other.tolist(), (name, number)
