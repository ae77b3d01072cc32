"""Line tables of debug information: which file, line and column the code at an address was made of.

The programs that encode them are run here, over the bytes: pyelftools makes an object of every step, which takes most
of the time that reading a program needs. The encoding is that of section 6.2 of the DWARF standard, versions 2 to 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Row = tuple[int, int, int, int]
"""First address, number of the file, line, and column from 1 (0 where unknown). Line 0 ends a sequence."""
_END_SEQUENCE, _SET_ADDRESS = 1, 2
"""Extended operations that matter here."""
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
"""Standard operations that matter here."""


def sequences(data: bytes, start: int, end: int, header: Mapping[str, Any], little_endian: bool) -> list[list[Row]]:
    """The rows of a line table, a list for each piece of code that lies together, in the order of the program.

    Args:
        data: the section of all line tables.
        start: where in it the program begins, behind its header.
        end: where the program ends.
        header: that of the table, with the names of the standard's fields.
        little_endian: the byte order.
    """
    base, width, step = header["line_base"], header["line_range"], header["minimum_instruction_length"]
    first = header["opcode_base"]
    operands = header["standard_opcode_lengths"]
    order: Literal["little", "big"] = "little" if little_endian else "big"
    special = [((code - first) // width * step, base + (code - first) % width) for code in range(first, 256)]
    whole = (255 - first) // width * step
    found: list[list[Row]] = []
    rows: list[Row] = []
    address, file, line, column = 0, 1, 1, 0
    at = start
    while at < end:
        code = data[at]
        at += 1
        if code >= first:
            more, lines = special[code - first]
            address += more
            line += lines
            if line:
                rows.append((address, file, line, column))
        elif code == _SET_COLUMN:
            column, at = unsigned(data, at)
        elif code == _ADVANCE_LINE:
            lines, at = _signed(data, at)
            line += lines
        elif code == _COPY:
            if line:
                rows.append((address, file, line, column))
        elif code == 0:
            size, at = unsigned(data, at)
            code = data[at] if size else 0
            if code == _SET_ADDRESS:
                address = int.from_bytes(data[at + 1 : at + size], order)
            elif code == _END_SEQUENCE:
                rows.append((address, 0, 0, 0))
                found.append(rows)
                rows = []
                address, file, line, column = 0, 1, 1, 0
            at += size
        elif code == _ADVANCE_PC:
            more, at = unsigned(data, at)
            address += more * step
        elif code == _CONST_ADD_PC:
            address += whole
        elif code == _SET_FILE:
            file, at = unsigned(data, at)
        elif code == _FIXED_ADVANCE_PC:
            address += int.from_bytes(data[at : at + 2], order)
            at += 2
        else:  # what it means does not matter
            for _ in range(operands[code - 1]):
                _, at = unsigned(data, at)
    return found


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length (LEB128), and where the next thing begins."""
    byte = data[at]
    at += 1
    if byte < 128:
        return byte, at
    value, shift = byte & 127, 7
    while byte & 128:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    start = at
    value, at = unsigned(data, at)
    bits = 7 * (at - start)
    return (value - (1 << bits) if value >> (bits - 1) else value), at
