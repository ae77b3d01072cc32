"""The functions and loops of C and C++ sources as the compiler sees them: found without libclang and without our code.

Functions are those that a build without optimisation has code of, by its debug information; loops are the words
``for``, ``do`` and ``while`` of the preprocessed text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

Line = tuple[str, int]
"""File and line."""

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|\S')
_MARKER = re.compile(r'# (\d+) "((?:\\.|[^"\\])*)"')
_DIRECTIVE = re.compile(r"\s*#\s*pragma\s+omp\b.*\b(for|simd|taskloop|distribute|loop)\b")
_MADE = re.compile(r"\._omp_fn|^_GLOBAL__|^__static_init|^__tcf_")
"""Functions that are the compiler's own."""


def compiler_of(source: str) -> str:
    """The one in PATH that wraps MPI's flags, if there is one."""
    names = ("mpicc", "gcc", "cc") if source.endswith(".c") else ("mpicxx", "g++", "c++")
    return next((name for name in names if shutil.which(name)), names[-1])


def loops(source: str, flags: Sequence[str], below: str) -> Counter[Line]:
    """How many loops begin in each line of the files in a folder, for one translation unit.

    A loop that a directive of OpenMP divides begins with the directive.
    """
    text = subprocess.run(
        [compiler_of(source), *flags, "-E", source], capture_output=True, text=True, check=True
    ).stdout
    found: Counter[Line] = Counter()
    file, line = source, 0
    words: list[tuple[str, str, int]] = []
    for row in text.splitlines():
        marker = _MARKER.match(row)
        if marker is not None:
            file, line = os.path.abspath(marker.group(2)), int(marker.group(1)) - 1
            continue
        line += 1
        if "-fopenmp" in flags and _DIRECTIVE.match(row):
            words.append(("#pragma", file, line))
        if not row.lstrip().startswith("#"):
            words += [(word, file, line) for word in _TOKEN.findall(row)]
    blocks: list[bool] = []  # of every open brace, whether it is the body of a do
    ends = False  # whether a while that comes now belongs to a do
    directive: Line | None = None  # whose loop is still to come
    bare = 0  # do statements without braces whose while is still to come
    for number, (word, at, where) in enumerate(words):
        after = words[number + 1][0] if number + 1 < len(words) else ""
        closes, ends = ends, False
        if word == "#pragma":
            directive = at, where
        elif word == "{":
            blocks.append(number > 0 and words[number - 1][0] == "do")
        elif word == "}":
            ends = bool(blocks) and blocks.pop()
        elif word == "do" and after != "{":
            bare += 1
        elif word == "while" and not closes and bare:
            closes, bare = True, bare - 1
        starts = word in ("for", "do") or (word == "while" and not closes)
        if starts and (word == "do" or after == "(") and _in(at, below):
            if not (word == "do" and _runs_once(words, number)):
                found[(directive if word == "for" else None) or (at, where)] += 1
                directive = None if word == "for" else directive
    return found


def _runs_once(words: list[tuple[str, str, int]], number: int) -> bool:
    """Whether a do is one that makes a statement of a macro: ``do { ... } while (0)``."""
    depth = 0
    for at in range(number + 1, len(words)):
        depth += {"{": 1, "}": -1}.get(words[at][0], 0)
        if depth == 0 and words[at][0] in ("}", ";"):
            return [word for word, _, _ in words[at + 1 : at + 5]] in (
                ["while", "(", "0", ")"],
                ["while", "(", "false", ")"],
            )
    return False


def functions(source: str, flags: Sequence[str], below: str) -> dict[Line, str]:
    """The functions of one translation unit that are defined in the files of a folder, by where they are declared.

    Closures are not among them: the compiler does not say where they are declared.
    """
    from elftools.elf.elffile import ELFFile

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "unit.o")
        words = [compiler_of(source), *flags, "-O0", "-g", "-gdwarf-4", "-c", source, "-o", str(target)]
        subprocess.run(words, capture_output=True, text=True, check=True)
        found: dict[Line, str] = {}
        with open(target, "rb") as file:
            dwarf = ELFFile(file).get_dwarf_info()
            for unit in dwarf.iter_CUs():
                top = unit.get_top_DIE().attributes
                directory = top["DW_AT_comp_dir"].value.decode()
                program = dwarf.line_program_for_CU(unit)
                for die in unit.iter_DIEs():
                    if (
                        die.tag != "DW_TAG_subprogram"
                        or "DW_AT_low_pc" not in die.attributes
                        and ("DW_AT_ranges" not in die.attributes)
                    ):
                        continue
                    chain = [die]
                    for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
                        if link in chain[-1].attributes:
                            chain.append(chain[-1].get_DIE_from_attribute(link))
                    values: dict[str, object] = {}
                    for part in chain:
                        for key, value in part.attributes.items():
                            values.setdefault(key, value.value)
                    name = values.get("DW_AT_name", b"")
                    number, line = values.get("DW_AT_decl_file"), values.get("DW_AT_decl_line")
                    if not isinstance(number, int) or not isinstance(line, int) or not isinstance(name, bytes):
                        continue
                    if "DW_AT_artificial" in values or "DW_AT_defaulted" in values or _MADE.search(name.decode()):
                        continue
                    entry = program.header["file_entry"][number - 1]
                    inside = program.header["include_directory"][entry.dir_index - 1] if entry.dir_index else b""
                    path = os.path.normpath(os.path.join(directory, inside.decode(), entry.name.decode()))
                    if _in(path, below):
                        found[path, line] = name.decode()
    return found


def _in(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
