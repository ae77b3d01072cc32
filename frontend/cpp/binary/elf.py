"""What a program's debug information says: its sources, how they were compiled, and which lines have code.

Reads ELF files with DWARF 2 to 5, by pyelftools.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, cast

from scalana.frontend.cpp.binary.line_table import Row, sequences, unsigned

LANGUAGES_C = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E})
"""DWARF's numbers of the versions of C."""
LANGUAGES_CPP = frozenset({0x04, 0x1A, 0x21, 0x2B, 0x3A})
"""DWARF's numbers of the versions of C++."""
LANGUAGES_FORTRAN = frozenset({0x07, 0x08, 0x0E, 0x22, 0x23, 0x2D})
"""DWARF's numbers of the versions of Fortran, from 77 on."""
_IMPLICIT_CONST = 0x21
"""The form of attributes whose value stands in the abbreviation."""


class BinaryError(Exception):
    """A program that cannot be used; says which and why."""


def is_elf(path: str) -> bool:
    """Whether a file is a program, library or object file by its first bytes."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


@dataclass(slots=True)
class CompileUnit:
    """One translation unit of a program."""

    file: str
    """Absolute path of the source when it was compiled."""
    directory: str
    """In which the compiler ran."""
    producer: str
    """The compiler, and with GCC the flags that matter for code generation."""
    cpp: bool
    fortran: bool = False
    files: list[str] = field(default_factory=list)
    """Absolute paths of all files that its line table names: the source, and headers."""
    numbers: dict[int, str] = field(default_factory=dict)
    """Files by the number that debug information gives them."""
    tree: Any = None
    """The unit for pyelftools."""
    table: Callable[[], list[list[Row]]] | None = None
    """Reads its line table."""
    linked: bool = True
    """Whether code has its address; in object files, that of a first piece may be 0."""
    split: bool = False
    """Whether all but its lines is in a file of its own (``.dwo``), which is not read."""
    _sequences: list[list[Row]] | None = None
    _addresses: list[tuple[int, str, int, int]] | None = None

    def _read(self) -> list[list[Row]]:
        if self._sequences is None:
            self._sequences = self.table() if self.table is not None else []
        return self._sequences

    @property
    def addresses(self) -> list[tuple[int, str, int, int]]:
        """The line table: first address, file, line and column (from 0, -1 where unknown), by address; an empty file
        ends a sequence.

        Read when it is first asked for, while the program is open.
        """
        if self._addresses is None:
            numbers = self.numbers
            found = [
                (address, numbers[file], line, column - 1) if line else (address, "", 0, -1)
                for rows in self._read()
                if rows[0][0] or not self.linked  # what the linker left out is said to be at 0
                for address, file, line, column in rows
                if file in numbers or not line
            ]
            # Where one sequence ends another may begin, and of several rows for an address the last counts.
            self._addresses = sorted(found, key=lambda row: (row[0], row[2] != 0))
        return self._addresses

    def lines(self) -> dict[str, set[int]]:
        """Lines that code was made of, by file; that the linker left out, too."""
        found: dict[int, set[int]] = {}
        for rows in self._read():
            for _, file, line, _ in rows:
                found.setdefault(file, set()).add(line)
        named: dict[str, set[int]] = {}
        for number, numbers in found.items():
            if number in self.numbers:
                named.setdefault(self.numbers[number], set()).update(numbers - {0})
        return {file: numbers for file, numbers in named.items() if numbers}


class Binary:
    """A program. A context manager: the file is open inside.

    Raises:
        BinaryError: it is no ELF file, cannot be read, or has no debug information.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            from elftools.common.exceptions import DWARFError, ELFError
            from elftools.elf.elffile import ELFFile
        except ImportError as error:
            raise BinaryError(f"{path}: reading programs needs pyelftools: pip install pyelftools") from error
        self._line_tables: bytes | None = None
        self._by_offset: dict[int, CompileUnit] | None = None
        self._errors: tuple[type[Exception], ...] = (ELFError, DWARFError, KeyError, ValueError, AssertionError)
        try:
            self._file = open(path, "rb")  # noqa: SIM115 (closed by the context)
        except OSError as error:
            raise BinaryError(f"{path}: cannot be read: {error.strerror or error}") from error
        try:
            self.elf = ELFFile(self._file)
            if not self.elf.has_dwarf_info(strict=True):
                raise BinaryError(f"{path}: no debug information; compile with -g, or pass the sources")
            self.dwarf = cast(Any, self.elf.get_dwarf_info(follow_links=False))
            self.dwarf.get_abbrev_table = lru_cache(maxsize=None)(partial(_Abbreviations, self.dwarf))
            self.units = self._units()
        except BinaryError:
            self._file.close()
            raise
        except self._errors as error:
            self._file.close()
            raise BinaryError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error
        if not self.units:
            self._file.close()
            raise BinaryError(
                f"{path}: no debug information of C, C++ or Fortran; compile with -g, or pass the sources"
            )

    def __enter__(self) -> Binary:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _units(self) -> list[CompileUnit]:
        found = []
        for unit in self.dwarf.iter_CUs():
            top = unit.get_top_DIE()
            if top.tag not in ("DW_TAG_compile_unit", "DW_TAG_skeleton_unit"):
                continue
            language, split = _number(top, "DW_AT_language"), _is_split(top)
            if language not in LANGUAGES_C | LANGUAGES_CPP | LANGUAGES_FORTRAN and not split:
                continue
            directory, name = _text(top, "DW_AT_comp_dir"), _text(top, "DW_AT_name")
            made = CompileUnit(
                _join(directory, name),
                directory,
                _text(top, "DW_AT_producer"),
                language in LANGUAGES_CPP,
                language in LANGUAGES_FORTRAN,
                tree=unit,
                linked=self.elf.header["e_type"] != "ET_REL",
                split=split,
            )
            self._read_files(made)
            if split and made.files:  # its source comes first
                made.file = made.files[0]
                made.cpp = os.path.splitext(made.file)[1] != ".c"
            elif not name:
                continue
            found.append(made)
        return found

    def _read_files(self, made: CompileUnit) -> None:
        program = self.dwarf.line_program_for_CU(made.tree)
        if program is None:
            return
        header = program.header
        new = header["version"] >= 5
        folders = [_bytes(folder) for folder in header["include_directory"]]
        for number, entry in enumerate(header["file_entry"], 0 if new else 1):
            index = entry.dir_index
            if new:
                folder = folders[index] if index < len(folders) else ""
            else:
                folder = folders[index - 1] if 0 < index <= len(folders) else ""
            made.numbers[number] = _join(made.directory, os.path.join(folder, _bytes(entry.name)))
        made.files = list(dict.fromkeys(made.numbers.values()))
        made.table = partial(self._table, program)

    def _table(self, program: Any) -> list[list[Row]]:
        if self._line_tables is None:
            stream: Any = program.stream
            self._line_tables = stream.getvalue()
        start, end = program.program_start_offset, program.program_end_offset
        try:
            return sequences(self._line_tables, start, end, program.header, self.elf.little_endian)
        except IndexError:  # cut off
            return []

    def unit(self, offset: int) -> CompileUnit | None:
        """The unit at an offset of the debug information."""
        if self._by_offset is None:
            self._by_offset = {made.tree.cu_offset: made for made in self.units}
        return self._by_offset.get(offset)

    def file(self, unit: int, number: int) -> str:
        """The file with a number in the unit at an offset; empty where there is none."""
        made = self.unit(unit)
        return made.numbers.get(number, "") if made is not None else ""

    def mpi_includes(self) -> list[str]:
        """Folders of MPI's headers beside the MPI library that the program is linked with."""
        found: list[str] = []
        dynamic: Any = self.elf.get_section_by_name(".dynamic")
        if not hasattr(dynamic, "iter_tags"):  # none, or empty in a file of debug information
            return found
        folders: list[str] = []
        linked = False
        for tag in dynamic.iter_tags():
            if tag.entry.d_tag in ("DT_RUNPATH", "DT_RPATH"):
                text = tag.runpath if tag.entry.d_tag == "DT_RUNPATH" else tag.rpath
                origin = os.path.dirname(os.path.abspath(self.path))
                folders += [folder.replace("$ORIGIN", origin) for folder in text.split(":") if folder]
            elif tag.entry.d_tag == "DT_NEEDED":
                linked = linked or os.path.basename(tag.needed).startswith(("libmpi", "libmpich"))
        for folder in folders if linked else ():
            for include in ("include", "include/mpi", "include/openmpi"):
                candidate = os.path.normpath(os.path.join(folder, "..", include))
                if os.path.isfile(os.path.join(candidate, "mpi.h")) and candidate not in found:
                    found.append(candidate)
        return found


class _Abbreviations:
    """A unit's table of abbreviations, of which only what is asked for is more than a position.

    Stands in for pyelftools' own, which takes most of the time that opening a large program needs.
    """

    def __init__(self, dwarf: Any, offset: int) -> None:
        self._structs, self._stream = dwarf.structs, dwarf.debug_abbrev_sec.stream
        self._at = _abbreviations(self._stream.getvalue(), offset)
        self._known: dict[int, Any] = {}

    def get_abbrev(self, code: int) -> Any:
        """The declaration with a code; KeyError if there is none."""
        from elftools.common.utils import struct_parse
        from elftools.dwarf.abbrevtable import AbbrevDecl

        if code not in self._known:
            declaration = struct_parse(self._structs.Dwarf_abbrev_declaration, self._stream, self._at[code])
            self._known[code] = AbbrevDecl(code, declaration)
        return self._known[code]


def _abbreviations(data: bytes, at: int) -> dict[int, int]:
    """Where in the section of abbreviations each of a table stands, behind its code. O(size of the table).

    Raises:
        ValueError: the table is cut off.
    """
    found: dict[int, int] = {}
    try:
        code, at = unsigned(data, at)
        while code:
            found[code] = at
            _, at = unsigned(data, at)
            at += 1  # whether it has children
            name, form = 1, 1
            while name or form:
                name, at = unsigned(data, at)
                form, at = unsigned(data, at)
                if form == _IMPLICIT_CONST:
                    _, at = unsigned(data, at)
            code, at = unsigned(data, at)
    except IndexError as error:
        raise ValueError("its abbreviations are truncated") from error
    return found


def _join(directory: str, name: str) -> str:
    return os.path.normpath(os.path.join(directory or "/", name))


def _bytes(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _text(die: Any, attribute: str) -> str:
    found = die.attributes.get(attribute)
    return _bytes(found.value) if found is not None else ""


def _is_split(top: Any) -> bool:
    return any(name in top.attributes for name in ("DW_AT_dwo_name", "DW_AT_GNU_dwo_name"))


def _number(die: Any, attribute: str) -> int:
    found = die.attributes.get(attribute)
    return int(found.value) if found is not None and isinstance(found.value, int) else 0
