"""Code that came by value: functions that a process unpickled instead of importing them (cloudpickle).

Such code lies in no file: whoever pickles it leaves out the name. Its qualified name and its first line are still those
of the source, so it is looked for in the files of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scalana.graphs.structure.source_tree import FileStructure, FunctionStructure, holds
from scalana.runtime.record.format import NO_LINE_TABLE, Code

UNPICKLED = "<dynamic-code>"
"""What cloudpickle writes in place of a file."""


def is_unpickled(file: str) -> bool:
    """Whether code that has such a file came by value."""
    return file == UNPICKLED


def files_by_value(
    codes: Iterable[tuple[Code, str]], files: Iterable[str], parse: Callable[[str], FileStructure | None]
) -> dict[tuple[str, int], str]:
    """Of code that came by value, the file that it is from, by its name and its first line, where one file alone has
    such a function.

    Args:
        codes: Code objects with what stands in them as their file.
        files: Those of the program, in which they may be.
        parse: Gives the structure of a file.
    """
    wanted = {(code.name, code.first_line) for code, file in codes if is_unpickled(file) and _is_python(code)}
    if not wanted:
        return {}
    parsed = [structure for file in dict.fromkeys(files) if (structure := parse(file)) is not None]
    found: dict[tuple[str, int], str] = {}
    for name, first_line in wanted:
        there = [structure.file for structure in parsed if _has(structure, name, first_line)]
        if len(there) == 1:
            found[name, first_line] = there[0]
    return found


def _is_python(code: Code) -> bool:
    return code.minor != NO_LINE_TABLE


def _has(structure: FileStructure, name: str, first_line: int) -> bool:
    """Whether a file has a function of that name, which begins in that line."""
    found: FunctionStructure | None = structure.find(name, first_line)
    if found is None or not holds(found.place, first_line):
        return False
    return name in (found.place.name, found.place.name.rpartition(".")[2])
