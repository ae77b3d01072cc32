"""How the sources of a program were compiled, from its debug information."""

from __future__ import annotations

import os
import re

from scalana.frontend.cpp.elf import Binary, CompileUnit
from scalana.frontend.cpp.flags import Compilation, understood
from scalana.frontend.cpp.macros import include_folders, macros

_SYSTEM = ("/usr/include/", "/usr/lib/", "/usr/local/include/c++/")
_STANDARD = re.compile(r"GNU (C|C\+\+)(\d\d)\b")


def compilations_of(binary: Binary) -> tuple[list[Compilation], list[CompileUnit]]:
    """How each translation unit was compiled, and those whose source is gone."""
    found: list[Compilation] = []
    missing: list[CompileUnit] = []
    contents: dict[str, bytes | None] = {}
    mpi = binary.mpi_includes()
    for unit in binary.units:
        if _read(contents, unit.file) is None:
            if not unit.file.startswith(_SYSTEM):
                missing.append(unit)
            continue
        found.append(_compilation(unit, contents, mpi))
    return found, missing


def _compilation(unit: CompileUnit, contents: dict[str, bytes | None], mpi: list[str]) -> Compilation:
    own = {}
    for file in dict.fromkeys((unit.file, *unit.files)):
        if not file.startswith(_SYSTEM) and os.path.basename(file) != "mpi.h":
            content = _read(contents, file)
            if content is not None:
                own[file] = content
    words = [word for word in unit.producer.split() if word.startswith("-")]
    kept, openmp = understood(words, unit.directory)
    standard = _STANDARD.search(unit.producer)
    if standard is not None and not any(word.startswith("-std=") for word in kept):
        language = "gnu++" if standard.group(1) == "C++" else "gnu"
        kept = (f"-std={language}{standard.group(2)}", *kept)
    arguments = list(kept)
    folders = include_folders(own, [file for file in unit.files if not file.startswith(_SYSTEM)])
    with_mpi = [folder for folder in folders if os.path.isfile(os.path.join(folder, "mpi.h"))]
    arguments += [f"-I{folder}" for folder in folders if folder not in with_mpi]
    arguments += [f"-D{name}={value}" for name, value in sorted(macros(own, unit.lines).items())]
    return Compilation(unit.file, unit.directory, tuple(arguments), openmp, tuple(dict.fromkeys((*with_mpi, *mpi))))


def _read(contents: dict[str, bytes | None], path: str) -> bytes | None:
    if path not in contents:
        try:
            with open(path, "rb") as file:
                contents[path] = file.read()
        except OSError:
            contents[path] = None
    return contents[path]
