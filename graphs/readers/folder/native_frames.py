"""Native call paths, recorded as module and offset, as frames with functions and lines.

What the compiler inlined has no frame of its own in the process, so that one recorded frame may become several.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.folder.reading import Rows
from scalana.runtime.record.format import (
    NATIVE_MODULE,
    NO_LINE_TABLE,
    Code,
    Codes,
    PathColumns,
    ProcessRecord,
    packed,
)


class SourceFrame(Protocol):
    """A function and a line in it."""

    @property
    def file(self) -> str:
        """Source of the function; the module itself where that is not known."""

    @property
    def name(self) -> str: ...

    @property
    def first_line(self) -> int: ...

    @property
    def line(self) -> int:
        """0 where it is not known."""

    @property
    def column(self) -> int:
        """From 0, somewhere in the expression that runs, -1 where it is not known."""


class PlainFrame(NamedTuple):
    """A :class:`SourceFrame` that is nothing else."""

    file: str
    name: str
    first_line: int
    line: int
    column: int = -1


Symbols = Callable[[str, str, Collection[int]], Mapping[int, Sequence[SourceFrame]]]
"""From a module's path, its build id and offsets in it to the frames at each offset, the outermost first."""
Module = tuple[str, str]
"""Path and build id."""
Frames = Mapping[Module, Mapping[int, Sequence[SourceFrame]]]

_BEGINNINGS = re.compile(
    r"(libc|libpthread|ld-linux[\w-]*|libgomp|libiomp5|libomp|libtbb|libstdc\+\+)[-.\w]*\.so[.\d]*$"
)
"""Libraries that start programs and threads: what they call is what counts."""
_MINOR = attrgetter("minor")
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_FOREIGN = re.compile(r"lib(mpi|mpich|mpifort|open-(pal|rte)|pmix|prrte|event|hwloc|ucp|ucs|uct|fabric|psm2)[-_.\w]*$")
_RECORDER = re.compile(r"[0-9a-f]{16}-[0-9a-f]+-[0-9a-f]+(-preload)?\.so$")
"""What is compiled for an MPI, to record it."""
_FOREIGN_SOURCES = ("/usr/include", "/usr/lib", "/usr/local/include/c++")


def no_symbols(path: str, build_id: str, offsets: Collection[int]) -> Mapping[int, Sequence[SourceFrame]]:
    """Nothing is known but the modules."""
    return {}


def resolve_native(records: Iterable[ProcessRecord], symbols: Symbols) -> list[ProcessRecord]:
    """The records with native frames replaced by those of their sources; others as they are."""
    records = list(records)
    are_native = _are_native(records)
    frames = source_frames(native_offsets(itertools.compress(records, are_native)), symbols)
    return [
        with_sources(record, frames) if is_native else record
        for record, is_native in zip(records, are_native, strict=True)
    ]


def native_offsets(records: Iterable[ProcessRecord]) -> dict[Module, set[int]]:
    """The offsets at which native frames of the records lie, by module."""
    wanted: dict[Module, set[int]] = defaultdict(set)
    for record in records:
        modules = _modules(record)
        if not modules:
            continue
        for code, offset in zip(record.paths.code, record.paths.lasti, strict=True):
            if code in modules:
                wanted[modules[code].filename, modules[code].name].add(offset & 0xFFFFFFFF)
    return wanted


def source_frames(wanted: Mapping[Module, Collection[int]], symbols: Symbols) -> Frames:
    """The frames at offsets, by module and offset."""
    return {module: symbols(*module, offsets) for module, offsets in wanted.items()}


def with_sources(record: ProcessRecord, frames: Frames) -> ProcessRecord:
    """A record with its native frames replaced, if there are any."""
    return _Resolver(record, frames).record() if _modules(record) else record


def _modules(record: ProcessRecord) -> dict[int, Code]:
    return {number: code for number, code in record.codes.items() if code.minor == NATIVE_MODULE}


def _are_native(records: Sequence[ProcessRecord]) -> list[bool]:
    """Which records have native modules among their codes. Codes that records have in common are looked at once."""
    native: dict[int, npt.NDArray[np.bool_]] = {}

    def is_native(codes: Mapping[int, Code]) -> bool:
        if not isinstance(codes, Codes):
            return NATIVE_MODULE in map(_MINOR, codes.values())
        rows = native.get(id(codes.every))
        if rows is None:
            rows = native[id(codes.every)] = np.array([code.minor == NATIVE_MODULE for code in codes.every], np.bool_)
        return bool(rows[np.asarray(codes.rows)].any())

    return [is_native(record.codes) for record in records]


def is_foreign(module: str) -> bool:
    """Whether a module is the system's, MPI's or the recorder, whatever it says of its sources."""
    name = os.path.basename(module)
    return module.startswith(_SYSTEM) or bool(_FOREIGN.match(name) or _RECORDER.match(name))


class _Resolver:
    """Writes the tree of paths of one record anew."""

    def __init__(self, record: ProcessRecord, frames: Frames) -> None:
        self.old = record
        self.frames = frames
        self.codes = {n: code for n, code in record.codes.items() if code.minor != NATIVE_MODULE}
        self.next_code = max(record.codes, default=0) + 1
        self.numbers: dict[tuple[str, str, int], int] = {}
        self.rows: list[tuple[int, int, int]] = [(0, 0, 0)]
        self.known: dict[tuple[int, int, int], int] = {}
        self.bare = self._bare_program()

    def record(self) -> ProcessRecord:
        old = self.old
        modules = _modules(old)
        moved = np.zeros(len(old.paths), np.int32)
        for path, (parent, code, lasti) in enumerate(
            zip(old.paths.parent, old.paths.code, old.paths.lasti, strict=True)
        ):
            if path == 0:
                continue
            above = int(moved[parent])
            module = modules.get(code)
            if module is None:
                moved[path] = self._path(above, code, lasti)
                continue
            for file, name, first, position in self._sources(module, lasti & 0xFFFFFFFF, above):
                above = self._path(above, self._code(file, name, first), position)
            moved[path] = above
        meta = dict(old.meta)
        folders = [folder for folder in meta.get("lib_dirs", "").split(os.pathsep) if folder]
        meta["lib_dirs"] = os.pathsep.join(dict.fromkeys((*folders, *_FOREIGN_SOURCES)))
        meta["modules"] = os.pathsep.join(sorted({code.filename for code in modules.values() if self._is_own(code)}))
        table = np.array(self.rows, np.int32)
        return replace(
            old,
            meta=meta,
            codes=self.codes,
            paths=PathColumns(*(_column(table[:, number]) for number in range(3))),
            samples=_moved(old.samples, moved),
            events=_moved(old.events, moved),
            spans=_moved(old.spans, moved),
            span_totals=_moved(old.span_totals, moved),
            totals=_moved(old.totals, moved),
            open=_moved(old.open, moved),
        )

    def _bare_program(self) -> Code | None:
        """The program itself, where nothing of it has lines: its functions are all that can be told of the user's."""
        program = self.old.meta.get("program", "")
        modules = _modules(self.old)
        if len(modules) < len(self.old.codes) or is_foreign(program):  # an interpreter, whose programs have lines
            return None
        for module in modules.values():
            if module.filename == program:
                frames = self.frames[module.filename, module.name].values()
                return None if any(frame.line for found in frames for frame in found) else module
        return None

    def _is_own(self, module: Code) -> bool:
        """Whether a module's lines are known, and count."""
        frames = self.frames[module.filename, module.name]
        return not is_foreign(module.filename) and any(frame.line for found in frames.values() for frame in found)

    def _sources(self, module: Code, offset: int, above: int) -> list[tuple[str, str, int, int]]:
        """File, function, its first line and position of what lies at an offset, the outermost first."""
        base = os.path.basename(module.filename)
        found = self.frames[module.filename, module.name].get(offset, ())
        if above == 0 and (_BEGINNINGS.match(base) or any(frame.name == "_start" for frame in found)):
            return []
        foreign = is_foreign(module.filename)
        if not found:
            return [(f"<{base}>", base, 0, 0)]
        if module == self.bare:
            return [(module.filename, frame.name, 0, 0) for frame in found]
        return [
            (frame.file, frame.name, frame.first_line, packed(frame.line, frame.column))
            if frame.line and not foreign
            else (f"<{base}>", frame.name, 0, 0)
            for frame in found
        ]

    def _code(self, file: str, name: str, first: int) -> int:
        key = (file, name, first)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = self.next_code
            self.next_code += 1
            self.codes[number] = Code(file, name, first, NO_LINE_TABLE, b"")
        return number

    def _path(self, parent: int, code: int, lasti: int) -> int:
        row = (parent, code, lasti)
        number = self.known.get(row)
        if number is None:
            number = self.known[row] = len(self.rows)
            self.rows.append(row)
        return number


def _column(values: IntArray | Any) -> Any:
    return memoryview(np.ascontiguousarray(values, np.int32).tobytes()).cast("i")


def _moved(columns: Any, moved: Any) -> Any:
    old = np.asarray(columns.path)
    known = (old >= 0) & (old < len(moved))
    path = _column(np.where(known, moved[np.where(known, old, 0)], 0))
    return columns.having(path=path) if isinstance(columns, Rows) else replace(columns, path=path)
