"""Source positions of instructions, from the line tables of CPython's code objects.

Pure functions over bytes: a record holds the tables as they were in the interpreter that was recorded, which need not
be the one that reads it. Formats: ``Objects/lnotab_notes.txt`` (3.10) and ``Objects/locations.md`` (3.11 and later) of
CPython's sources.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

NO_LINE_TABLE = 0
"""Minor version of codes whose instruction offset is the line number itself, see :func:`packed`."""
_LINE_BITS, _MOST_COLUMN = 20, 2045


class Position(NamedTuple):
    """Where an instruction stands in its source file. Columns are UTF-8 byte offsets from 0, -1 where unknown."""

    line: int
    end_line: int
    column: int
    end_column: int


class _Span(NamedTuple):
    start: int
    """First byte of bytecode that it covers."""
    position: Position


def position(linetable: bytes, minor: int, firstlineno: int, lasti: int) -> Position:
    """Position of the instruction at byte offset ``lasti`` of a code object.

    An instruction without a line of its own (cleaning up after an ``except``) gets that of the one before it; one
    beyond the table gets the first line of the function.
    """
    if minor == NO_LINE_TABLE:
        line, column = max(lasti, 0) & ((1 << _LINE_BITS) - 1), (lasti >> _LINE_BITS) - 1
        return Position(line, line, column, -1)
    starts, positions = _decode(linetable, minor, firstlineno)
    row = bisect_right(starts, lasti) - 1
    if row < 0:
        return Position(firstlineno, firstlineno, -1, -1)
    return positions[row]


def packed(line: int, column: int) -> int:
    """What stands for a position where there is no line table: the line, with the column above it in 31 bits.

    A column that does not fit, or is not known (-1), is left out; of a line that does not fit nothing is kept.
    """
    if not 0 <= line < 1 << _LINE_BITS:
        return 0
    return line | (column + 1 << _LINE_BITS if 0 <= column <= _MOST_COLUMN else 0)


@lru_cache(maxsize=8192)
def _decode(linetable: bytes, minor: int, firstlineno: int) -> tuple[list[int], list[Position]]:
    spans = _spans_310(linetable, firstlineno) if minor == 10 else _spans_311(linetable, firstlineno)
    return [span.start for span in spans], [span.position for span in spans]


def _spans_310(table: bytes, firstlineno: int) -> list[_Span]:
    """Pairs of bytes: length of the range in bytecode, and signed step in lines (-128: no line)."""
    spans: list[_Span] = []
    line = firstlineno
    start = 0
    latest = Position(firstlineno, firstlineno, -1, -1)
    for at in range(0, len(table) - 1, 2):
        length, step = table[at], table[at + 1]
        if step != 128:
            line += step - 256 if step > 128 else step
            latest = Position(line, line, -1, -1)
        if length:
            spans.append(_Span(start, latest))
        start += length
    return spans


def _varint(table: bytes, at: int) -> tuple[int, int]:
    """Little endian, six bits a byte, bit 6 says that more follow. Returns the value and the next offset."""
    value = shift = 0
    while at < len(table):
        byte = table[at]
        at += 1
        value |= (byte & 63) << shift
        if not byte & 64:
            break
        shift += 6
    return value, at


def _signed_varint(table: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(table, at)
    return (-(value >> 1) if value & 1 else value >> 1), at


def _spans_311(table: bytes, firstlineno: int) -> list[_Span]:
    """Entries of varying form; the first byte holds bit 7, the form (4 bits) and the length in code units less 1."""
    spans: list[_Span] = []
    line = firstlineno
    start = 0
    at = 0
    latest = Position(firstlineno, firstlineno, -1, -1)
    while at < len(table):
        first = table[at]
        at += 1
        form = first >> 3 & 15
        length = ((first & 7) + 1) * 2
        if form == 14:  # long: everything as varints, columns plus 1 so that 0 is none
            step, at = _signed_varint(table, at)
            more, at = _varint(table, at)
            column, at = _varint(table, at)
            end_column, at = _varint(table, at)
            line += step
            latest = Position(line, line + more, column - 1, end_column - 1)
        elif form == 13:  # no columns
            step, at = _signed_varint(table, at)
            line += step
            latest = Position(line, line, -1, -1)
        elif form >= 10 and form != 15:  # one line, 0 to 2 below the last, columns as bytes
            if at + 1 >= len(table):
                break
            line += form - 10
            latest = Position(line, line, table[at], table[at + 1])
            at += 2
        elif form < 10:  # same line, columns in one byte and the form
            if at >= len(table):
                break
            second = table[at]
            at += 1
            column = form << 3 | second >> 4
            latest = Position(line, line, column, column + (second & 15))
        spans.append(_Span(start, latest))
        start += length
    return spans
