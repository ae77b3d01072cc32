"""Addresses in programs and libraries to functions and lines: what native call paths are made of.

An address is that of the file: the one in the process minus where the file was loaded. One address may be several
frames, for what the compiler inlined has no frame of its own in the process.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from scalana.frontend.cpp.binary.demangling import demangled
from scalana.frontend.cpp.binary.dies import (
    OUTLINED,
    attribute,
    chain_of,
    declared,
    qualified,
    ranges,
    subprograms,
    text,
)
from scalana.frontend.cpp.binary.elf import Binary, BinaryError, CompileUnit
from scalana.frontend.cpp.names import plain_name

_FUNCTION, _INDIRECT_FUNCTION = 2, 10
"""Types of symbols."""
_UNDEFINED = 0
"""Section of symbols that another file defines."""
_ROW = (("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("start", "u8"), ("size", "u8"))
"""Fields of a symbol, and their types."""


@dataclass(frozen=True, slots=True)
class NativeFrame:
    """A function and a line in it."""

    file: str
    """Of the function: absolute path when it was compiled. Where that is not known, the program or library."""
    name: str
    """Qualified, without template arguments and parameters, as in the structure."""
    first_line: int
    """In which the function is declared; 0 where that is not known."""
    line: int
    """0 where that is not known."""
    column: int = -1
    """From 0, somewhere in the expression that runs: of a call many compilers name its parenthesis."""
    outlined: bool = False
    """Whether this is a region of OpenMP that the compiler made a function of; ``name`` is the function it is in."""


class Symbols:
    """Resolves addresses of one program or library.

    Use as a context manager: the file is open inside. With ``debug`` false, only its table of symbols is read: names of
    functions, and no lines.

    Raises:
        BinaryError: the file cannot be read. One without debug information is fine: its symbols are used.
    """

    def __init__(self, path: str, *, debug: bool = True) -> None:
        self.path = path
        self._binary: Binary | None = None
        self._table: list[tuple[int, int, str]] = []
        try:
            if debug:
                self._binary = Binary(path)
            else:
                self._table = _symbol_table(path, None)
        except BinaryError as error:
            self._table = _symbol_table(path, error)
        self._units: list[tuple[int, int, CompileUnit]] = []
        if self._binary is not None:
            for unit in self._binary.units:
                top = unit.tree.get_top_DIE()
                self._units += [(low, high, unit) for low, high in ranges(top, self._binary.dwarf)]
            self._units.sort(key=lambda entry: entry[:2])
            self._table = symbols_of(self._binary.elf)
        self._functions: dict[int, list[tuple[int, int, Any]]] = {}
        self._names: dict[int, dict[str, tuple[str, int]]] = {}
        self._known: dict[int, tuple[NativeFrame, ...]] = {}

    def __enter__(self) -> Symbols:
        return self

    def __exit__(self, *_: object) -> None:
        if self._binary is not None:
            self._binary.__exit__()

    def frames(self, address: int) -> tuple[NativeFrame, ...]:
        """The functions at an address, the outermost first; empty where nothing is known.

        A return address lies behind its call: pass it less one.
        """
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = self._by_debug_information(address) or self._by_symbol(address)
        return known

    def _by_symbol(self, address: int) -> tuple[NativeFrame, ...]:
        at = bisect_right(self._table, (address, 1 << 64, "")) - 1
        if at < 0 or not self._table[at][0] <= address < self._table[at][1]:
            return ()
        name = plain_name(demangled(self._table[at][2]))
        unit = self._unit(address)
        if unit is not None:  # a function that debug information leaves out, or has in a file of its own
            start = _row(unit, self._table[at][0])
            file, line, column = _row(unit, address)
            if file and start[0] == file and line:
                return (NativeFrame(file, name, start[1], line, column),)
            if start[0] and start[1]:  # inlined from another file, by a function that is not known
                return (NativeFrame(start[0], name, start[1], 0, -1),)
        return (NativeFrame(self.path, name, 0, 0),)

    def _unit(self, address: int) -> CompileUnit | None:
        at = bisect_right(self._units, address, key=lambda entry: entry[0]) - 1
        return self._units[at][2] if at >= 0 and address < self._units[at][1] else None

    def _by_debug_information(self, address: int) -> tuple[NativeFrame, ...]:
        unit = self._unit(address)
        function = _containing(self._of(unit), address) if unit is not None else None
        if unit is None or function is None:
            return ()
        chain = [function, *self._inlined(function, address)]
        file, line, last = _row(unit, address)
        found: list[NativeFrame] = []
        for number, die in enumerate(chain):
            if number + 1 < len(chain):  # it stands where the next was inlined
                inner = chain[number + 1]
                where, column = attribute([inner], "DW_AT_call_line"), attribute([inner], "DW_AT_call_column") - 1
            else:
                where, column = line, last
            found.append(self._frame(unit, die, where, column, file))
        return tuple(found)

    def _frame(self, unit: CompileUnit, die: Any, line: int, column: int, file: str) -> NativeFrame:
        assert self._binary is not None
        entries = chain_of(die)
        name = qualified(entries)
        where, first, _ = declared(entries)
        outlined = OUTLINED.fullmatch(name)
        if outlined is not None:
            symbol = outlined.group(1).rpartition("::")[2]
            home = self._binary.unit(where[0]) or unit
            name, first = self._named(home).get(symbol, (demangled(symbol), first))
        return NativeFrame(
            self._binary.file(*where) or file, plain_name(name), first, line, column, outlined is not None
        )

    def _of(self, unit: CompileUnit) -> list[tuple[int, int, Any]]:
        """The functions of a unit that have code, by address."""
        found = self._functions.get(id(unit))
        if found is None:
            assert self._binary is not None
            found = []
            for die in subprograms(unit.tree.get_top_DIE()):
                found += [(low, high, die) for low, high in ranges(die, self._binary.dwarf)]
            found.sort(key=lambda entry: entry[:2])
            self._functions[id(unit)] = found
        return found

    def _named(self, unit: CompileUnit) -> dict[str, tuple[str, int]]:
        """Qualified names and lines of the functions of a unit, by their names and, in C++, by their symbols."""
        found = self._names.get(id(unit))
        if found is None:
            found = {}
            for die in subprograms(unit.tree.get_top_DIE()):
                entries = chain_of(die)
                line = attribute(entries, "DW_AT_decl_line")
                if not line:
                    continue
                for part in entries:
                    for key in part.attributes.keys() & {"DW_AT_name", "DW_AT_linkage_name"}:
                        found.setdefault(text(part, key), (qualified(entries), line))
            self._names[id(unit)] = found
        return found

    def _inlined(self, die: Any, address: int) -> list[Any]:
        """What is inlined at an address, the outermost first."""
        assert self._binary is not None
        found = []
        stack = list(die.iter_children())
        while stack:
            child = stack.pop()
            if child.tag not in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"):
                continue
            spans = ranges(child, self._binary.dwarf)
            if spans and not any(low <= address < high for low, high in spans):
                continue
            if child.tag == "DW_TAG_inlined_subroutine":
                if not spans:
                    continue
                found.append(child)
                stack = []  # what lies beside it does not hold the address
            stack.extend(child.iter_children())
        return found


def _plainness(name: str) -> tuple[int, int]:
    """Least for that of several names of one function that programs call it by: ``cbrt``, not ``__cbrt``."""
    return len(name) - len(name.lstrip("_")), len(name)


def symbols_of(elf: Any) -> list[tuple[int, int, str]]:
    """Functions of a symbol table: first address, the one behind the last, and the plainest name, by address."""
    found: dict[int, tuple[int, int, str]] = {}
    for table in (".dynsym", ".symtab"):
        section = elf.get_section_by_name(table)
        if not hasattr(section, "iter_symbols"):  # empty in debug files
            continue
        for start, size, name in _functions(elf, section):
            known = found.get(start)
            if known is None or _plainness(name) < _plainness(known[2]):
                found[start] = start, start + max(size, 1), name
    return sorted(found.values())


def _functions(elf: Any, section: Any) -> Iterator[tuple[int, int, str]]:
    """Address, size and name of every function that a symbol table defines.

    Unpacked as a whole: pyelftools takes a hundred times as long, one by one.
    """
    order = "<" if elf.little_endian else ">"
    names, data = elf.get_section(section["sh_link"]).data(), section.data()
    entry = struct.Struct(order + ("IBBHQQ" if elf.elfclass == 64 else "IIIBBH"))
    for fields in entry.iter_unpack(data[: len(data) - len(data) % entry.size]):
        if elf.elfclass == 64:
            offset, info, _, index, start, size = fields
        else:
            offset, start, size, info, _, index = fields
        if info & 15 in (_FUNCTION, _INDIRECT_FUNCTION) and index != _UNDEFINED:
            yield start, size, names[offset : names.find(b"\0", offset)].decode("utf-8", "replace")


def _symbol_table(path: str, error: BinaryError | None) -> list[tuple[int, int, str]]:
    try:
        from elftools.common.exceptions import ELFError
    except ImportError:  # why nothing can be read of it, and what to do, was told by what tried to before
        raise (error or BinaryError(f"{path}: its symbols cannot be read")) from None
    try:
        state = os.stat(path)
        return _read_symbol_table(path, state.st_mtime_ns, state.st_size)
    except (OSError, ELFError, KeyError, ValueError, AssertionError) as reason:
        raise (error or BinaryError(f"{path}: {reason}")) from None


@lru_cache(maxsize=32)
def _read_symbol_table(path: str, mtime_ns: int, size: int) -> list[tuple[int, int, str]]:
    """Kept for runs that are analysed together: ``mtime_ns`` and ``size`` say whether it is the same file still."""
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:
        return symbols_of(ELFFile(file))


def function_at(path: str, address: int) -> str:
    """The function at an address, without parameters; empty where none is known. Where only a few are asked for, this
    takes a hundredth of the time of :class:`Symbols`, as no other names are read."""
    found = []
    for rows, texts in _symbol_rows(path):
        kind, end = rows["info"] & 15, rows["start"] + np.maximum(rows["size"], 1)
        is_function = ((kind == _FUNCTION) | (kind == _INDIRECT_FUNCTION)) & (rows["section"] != _UNDEFINED)
        for offset in rows["name"][is_function & (rows["start"] <= address) & (address < end)].tolist():
            found.append(texts[offset : texts.find(b"\0", offset)].decode("utf-8", "replace"))
    return plain_name(demangled(min(found, key=_plainness))) if found else ""


@lru_cache(maxsize=64)
def _symbol_rows(path: str) -> list[tuple[Any, bytes]]:
    """The tables of symbols of a file for 64-bit machines, each with its texts; none where it cannot be read."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    found: list[tuple[Any, bytes]] = []
    with suppress(OSError, ELFError, ValueError, KeyError, AssertionError), open(path, "rb") as file:
        elf = ELFFile(file)
        order = "<" if elf.little_endian else ">"
        row = np.dtype([(name, order + size) for name, size in _ROW])
        for name in (".dynsym", ".symtab"):
            section: Any = elf.get_section_by_name(name)
            if hasattr(section, "iter_symbols") and elf.elfclass == 64:
                data = section.data()
                rows = np.frombuffer(data[: len(data) - len(data) % row.itemsize], row)
                found.append((rows, elf.get_section(section["sh_link"]).data()))
    return found


def _containing(functions: list[tuple[int, int, Any]], address: int) -> Any:
    at = bisect_right(functions, address, key=lambda entry: entry[0]) - 1
    if at < 0 or not functions[at][0] <= address < functions[at][1]:
        return None
    return functions[at][2]


def _row(unit: CompileUnit, address: int) -> tuple[str, int, int]:
    at = bisect_right(unit.addresses, address, key=lambda row: row[0]) - 1
    return unit.addresses[at][1:] if at >= 0 else ("", 0, -1)
