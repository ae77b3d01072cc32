"""How the sources of a program were compiled, from its debug information.

The compiler's flags are there as far as they matter for the code (with GCC); ``-I`` and ``-D`` are not. Folders of
headers follow from where the included files are: in the line tables, or on disk beside the sources. Macros follow from
the lines that have code, see :mod:`scalana.frontend.cpp.source.macros`.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

from scalana.frontend.cpp.binary.elf import Binary, CompileUnit
from scalana.frontend.cpp.source.flags import HEADERS, Compilation, understood
from scalana.frontend.cpp.source.macros import conditions, includes, macros

_SYSTEM = ("/usr/include/", "/usr/lib/", "/usr/local/include/c++/")
MOST_FILES = 20_000
"""Files among which a header is looked for that is in none of the folders where one would expect it."""
_STANDARD = re.compile(r"GNU (C|C\+\+)(\d\d)\b")


def units_with(files: Collection[str], units: Sequence[CompileUnit]) -> list[CompileUnit]:
    """The translation units that code of some files is in: those of which one is the source; and for what else there is
    (code in headers, sources that include each other), if none of these names it, the first that does."""
    found = [unit for unit in units if unit.file in files]
    left = set(files).difference(*(unit.files for unit in found))
    for unit in units:
        if not left.isdisjoint(unit.files):
            left.difference_update(unit.files)
            found.append(unit)
    return found


def compilations_of(
    binary: Binary, units: Sequence[CompileUnit] | None = None
) -> tuple[list[Compilation], list[CompileUnit]]:
    """How each translation unit, or each of some, was compiled, and those whose source is gone, or of Fortran, which is
    not read."""
    found: list[Compilation] = []
    missing: list[CompileUnit] = []
    disk = Disk(binary.units)
    mpi = binary.mpi_includes()
    for unit in binary.units if units is None else units:
        if unit.fortran or disk.read(unit.file) is None:
            # Optimisation at link time makes units of its own, whose functions are those of others.
            if not unit.file.startswith(_SYSTEM) and not os.path.basename(unit.file).startswith("<"):
                missing.append(unit)
            continue
        found.append(_compilation(unit, disk, mpi))
    return found, missing


def _compilation(unit: CompileUnit, disk: Disk, mpi: list[str]) -> Compilation:
    own, folders = disk.headers(unit)
    words = [word for word in unit.producer.split() if word.startswith("-")]
    kept, openmp = understood(words, unit.directory)
    standard = _STANDARD.search(unit.producer)
    if standard is not None and not any(word.startswith("-std=") for word in kept):
        language = "gnu++" if standard.group(1) == "C++" else "gnu"
        kept = (f"-std={language}{standard.group(2)}", *kept)
    with_mpi = [folder for folder in folders if os.path.isfile(os.path.join(folder, "mpi.h"))]
    arguments = [*kept, *(f"-I{folder}" for folder in folders if folder not in with_mpi)]
    arguments += [f"-D{name}={value}" for name, value in sorted(macros(own, unit.lines, disk.conditions).items())]
    return Compilation(unit.file, unit.directory, tuple(arguments), openmp, tuple(dict.fromkeys((*with_mpi, *mpi))))


class Disk:
    """Finds the headers of translation units.

    Args:
        units: all of a program's.
    """

    def __init__(self, units: Iterable[CompileUnit]) -> None:
        self._contents: dict[str, bytes | None] = {}
        # Most headers belong to many units.
        self._includes = cache(includes)
        self.conditions = cache(conditions)
        """:func:`~scalana.frontend.cpp.source.macros.conditions`, remembered."""
        self._found: dict[tuple[str, str], str | None] = {}
        self._by_name: dict[str, dict[str, None]] = {}
        folders: dict[str, None] = {}
        for unit in units:
            for file in (unit.file, *unit.files):
                self._by_name.setdefault(os.path.basename(file), {})[file] = None
                if not file.startswith(_SYSTEM):
                    folders[os.path.dirname(file)] = None
            if os.path.isabs(unit.directory) and os.path.dirname(unit.directory) != unit.directory:
                folders[unit.directory] = None
        self.folders = [folder for folder in _wider(folders) if os.path.isdir(folder)]
        """Where headers may lie that no line table names, for they hold declarations alone."""
        top = os.path.commonpath(list(folders)) if folders else ""
        self._below = [top] if top.count(os.sep) > 1 else [folder for folder in folders if folder.count(os.sep) > 1]
        self._headers: dict[str, list[str]] | None = None

    def read(self, path: str) -> bytes | None:
        """The content of a file, None if it cannot be read."""
        if path not in self._contents:
            try:
                with open(path, "rb") as file:
                    self._contents[path] = file.read()
            except OSError:
                self._contents[path] = None
        return self._contents[path]

    def headers(self, unit: CompileUnit) -> tuple[Mapping[str, bytes], list[str]]:
        """The user's files that went into a translation unit, with their contents, and the folders to search."""
        own: dict[str, bytes] = {}
        folders: dict[str, None] = {}
        waiting = [unit.file, *unit.files]
        while waiting:
            file = waiting.pop()
            if file in own or file.startswith(_SYSTEM) or os.path.basename(file) == "mpi.h":
                continue
            content = self.read(file)
            if content is None:
                continue
            own[file] = content
            for written in self._includes(content):
                found = self._find(written, file)
                if found is not None:
                    waiting.append(found)
                    if not written.startswith(("/", "..")) and os.path.normpath(written) == written:
                        folders[found[: -len(written) - 1]] = None
        return own, list(folders)

    def _find(self, written: str, includer: str) -> str | None:
        """The user's file that an ``#include`` means, None for the system's."""
        key = written, os.path.dirname(includer)
        if key not in self._found:
            self._found[key] = self._look_for(*key)
        return self._found[key]

    def _look_for(self, written: str, beside: str) -> str | None:
        for file in self._by_name.get(os.path.basename(written), ()):
            if file.endswith("/" + written) and not file.startswith(_SYSTEM):
                return file
        if "." not in written or os.path.isfile(os.path.join("/usr/include", written)):
            return None
        for folder in (beside, *self.folders):
            candidate = os.path.normpath(os.path.join(folder, written))
            if os.path.isfile(candidate):
                return candidate
        if self._headers is None:
            self._headers = _headers_below(self._below)
        found = [path for path in self._headers.get(os.path.basename(written), ()) if path.endswith("/" + written)]
        return max(found, key=lambda path: len(os.path.commonpath([path, beside])), default=None)


def _headers_below(folders: Iterable[str]) -> dict[str, list[str]]:
    """Headers by their names, those in the upper folders first; at most :data:`MOST_FILES` files are looked at."""
    found: dict[str, list[str]] = {}
    waiting, seen, count = deque(folders), set[str](), 0
    while waiting and count < MOST_FILES:
        folder = waiting.popleft()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name) if folder not in seen else []
        except OSError:
            continue
        seen.add(folder)
        count += len(entries)
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif os.path.splitext(entry.name)[1] in HEADERS:
                found.setdefault(entry.name, []).append(entry.path)
    return found


def _wider(folders: Iterable[str]) -> list[str]:
    """The folders, those above the lowest that they share, and what is called ``include`` in any of them."""
    known = dict.fromkeys(folders)
    if not known:
        return []
    top = os.path.commonpath(list(known))
    if top.count(os.sep) < 2:  # nothing in common
        top = ""
    for folder in list(known):
        above = folder
        while top and above != top and above.startswith(top):
            above = os.path.dirname(above)
            known[above] = None
    return [path for folder in known for path in (folder, *(os.path.join(folder, n) for n in ("include", "inc")))]
