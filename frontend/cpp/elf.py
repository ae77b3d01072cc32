"""What a program's debug information says: its sources, how they were compiled, and which lines have code.

Reads ELF files with DWARF 2 to 5, by pyelftools.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

LANGUAGES_C = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E})
"""DWARF's numbers of the versions of C."""
LANGUAGES_CPP = frozenset({0x04, 0x1A, 0x21, 0x2B, 0x3A})
"""DWARF's numbers of the versions of C++."""


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
    files: list[str] = field(default_factory=list)
    """Absolute paths of all files that its line table names: the source, and headers."""
    numbers: dict[int, str] = field(default_factory=dict)
    """Files by the number that debug information gives them."""
    tree: Any = None
    """The unit for pyelftools."""
    table: Any = None
    """Its line table for pyelftools."""
    _addresses: list[tuple[int, str, int, int]] | None = None

    @property
    def addresses(self) -> list[tuple[int, str, int, int]]:
        """The line table: first address, file, line and column (from 0, -1 where unknown), by address; an empty file
        ends a sequence.

        Read when it is first asked for, while the program is open: in large programs this takes longest.
        """
        if self._addresses is None:
            found = []
            for entry in self.table.get_entries() if self.table is not None else ():
                state = entry.state
                if state is not None and state.end_sequence:
                    found.append((state.address, "", 0, -1))
                elif state is not None and state.line and state.file in self.numbers:
                    found.append((state.address, self.numbers[state.file], state.line, state.column - 1))
            self._addresses = sorted(found, key=lambda row: row[0])
        return self._addresses

    def lines(self) -> dict[str, set[int]]:
        """Lines with code, by file."""
        found: dict[str, set[int]] = {}
        for _, file, line, _ in self.addresses:
            if file:
                found.setdefault(file, set()).add(line)
        return found


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
            raise BinaryError(f'{path}: reading programs needs pyelftools: pip install "scalana[mpi]"') from error
        self._errors: tuple[type[Exception], ...] = (ELFError, DWARFError, KeyError, ValueError, AssertionError)
        try:
            self._file = open(path, "rb")  # noqa: SIM115 (closed by the context)
        except OSError as error:
            raise BinaryError(f"{path}: cannot be read: {error.strerror or error}") from error
        try:
            self.elf = ELFFile(self._file)
            if not self.elf.has_dwarf_info(strict=True):
                raise BinaryError(f"{path}: has no debug information; compile with -g, or pass the sources")
            self.dwarf = self.elf.get_dwarf_info(follow_links=False)
            self.units = self._units()
        except BinaryError:
            self._file.close()
            raise
        except self._errors as error:
            self._file.close()
            raise BinaryError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error
        if not self.units:
            self._file.close()
            raise BinaryError(f"{path}: has no debug information of C or C++; compile with -g, or pass the sources")

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
            language = _number(top, "DW_AT_language")
            if language not in LANGUAGES_C | LANGUAGES_CPP:
                continue
            directory = _text(top, "DW_AT_comp_dir")
            name = _text(top, "DW_AT_name")
            if not name:
                continue
            made = CompileUnit(
                _join(directory, name), directory, _text(top, "DW_AT_producer"), language in LANGUAGES_CPP, tree=unit
            )
            self._read_files(made)
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
        made.table = program

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


def _join(directory: str, name: str) -> str:
    return os.path.normpath(os.path.join(directory or "/", name))


def _bytes(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _text(die: Any, attribute: str) -> str:
    found = die.attributes.get(attribute)
    return _bytes(found.value) if found is not None else ""


def _number(die: Any, attribute: str) -> int:
    found = die.attributes.get(attribute)
    return int(found.value) if found is not None and isinstance(found.value, int) else 0
