"""Lines and columns of code, from the tables that interpreters keep."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalana.runtime.record import format as record_format
from scalana.runtime.record.format import position


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def stdlib_codes() -> Iterator[types.CodeType]:
    for name in ("argparse", "ast", "asyncio/base_events", "dataclasses", "inspect", "typing", "tarfile"):
        file = Path(os.__file__).parent / f"{name}.py"
        yield from code_objects(compile(file.read_text(encoding="utf-8"), str(file), "exec"))


def test_lines_are_those_of_the_interpreter() -> None:
    table_name = "co_linetable"
    minor = sys.version_info.minor
    checked = 0
    for code in stdlib_codes():
        table = getattr(code, table_name)
        for start, end, line in code.co_lines():
            if line is None:
                continue
            for lasti in range(start, end, 2):
                assert position(table, minor, code.co_firstlineno, lasti).line == line, (code, lasti)
                checked += 1
    assert checked > 50_000


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 has no columns")
def test_columns_are_those_of_the_interpreter() -> None:
    minor = sys.version_info.minor
    for code in stdlib_codes():
        for index, expected in enumerate(code.co_positions()):  # type: ignore[attr-defined,unused-ignore]
            if expected[0] is None:
                continue
            line, end_line, column, end_column = position(code.co_linetable, minor, code.co_firstlineno, 2 * index)
            assert (line, column) == (expected[0], -1 if expected[2] is None else expected[2])
            assert end_line == expected[1] and end_column == (-1 if expected[3] is None else expected[3])


def test_line_table_of_3_10() -> None:
    # first line 10: 4 bytes of line 10, 2 of line 12, 2 of no line, 4 of line 9
    table = bytes([4, 0, 2, 2, 2, 128, 4, 256 - 3])
    lines = [position(table, 10, 10, lasti).line for lasti in range(0, 12, 2)]
    assert lines == [10, 10, 12, 12, 9, 9]
    assert position(b"", 10, 10, 4).line == 10


def test_line_table_that_is_cut_off() -> None:
    code = compile("x = 1\ny = f(x,\n  2)\n", "f.py", "exec")
    table = code.co_linetable
    for size in range(len(table)):
        for lasti in range(0, 40, 2):
            assert position(table[:size], sys.version_info.minor, 1, lasti).line >= 0


def test_without_a_line_table_the_offset_is_the_line() -> None:
    assert position(b"", record_format.NO_LINE_TABLE, 1, 42).line == 42
    for line, column in ((42, -1), (42, 0), (1_000_000, 2045), (0, -1)):
        found = position(b"", record_format.NO_LINE_TABLE, 1, record_format.packed(line, column))
        assert (found.line, found.column) == (line, column)
    assert record_format.packed(42, 5_000) == 42
    assert record_format.packed(1 << 20, 3) == 0
