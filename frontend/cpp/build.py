"""C and C++ sources, folders of them, or a program with debug information to a Program Structure Graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalana.frontend.cpp.binary.debug_files import debug_file
from scalana.frontend.cpp.binary.elf import Binary, BinaryError, is_elf
from scalana.frontend.cpp.binary.skeleton import skeleton
from scalana.frontend.cpp.cache import Cache, key_of
from scalana.frontend.cpp.evidence import compilations_of, units_with
from scalana.frontend.cpp.resolve import Program
from scalana.frontend.cpp.source import clang, flags, mpi_header
from scalana.frontend.cpp.source.pool import run
from scalana.frontend.cpp.unit import FORMAT, Unit, decode
from scalana.frontend.front_end import UNSPECIFIED, Options, files_below
from scalana.frontend.linker import Linker
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.structure.source_tree import Decision, FileStructure, FunctionStructure, Node, Target

LARGE = 40
"""Translation units of a program past which those are left out in which a run was not seen."""

Progress = Callable[[int, int, str], None]
"""Called with the number of translation units that are done, how many there are, and the file of the latest."""


@dataclass(slots=True)
class Plan:
    """What is to be read."""

    compilations: dict[str, flags.Compilation] = field(default_factory=dict)
    """By absolute path of the source."""
    only: dict[str, frozenset[str]] = field(default_factory=dict)
    """By absolute path of the source the files of whose functions alone there is need; of others that of all."""
    units: list[Unit] = field(default_factory=list)
    """What is known without its source."""
    warnings: list[str] = field(default_factory=list)


def plan(
    paths: Sequence[str | Path],
    arguments: Sequence[str] | None = None,
    seen: Collection[str] | None = None,
    drivers: Sequence[str] = (),
) -> Plan:
    """Find the sources and how each is compiled.

    The flags of a source are those of ``arguments`` if these are given, else what a ``compile_commands.json`` at or
    above it says, else what a program's debug information tells. Of a large program only those are taken that have
    code of the files ``seen``, if these are given, and of their headers only these. Compilers that a database names are
    asked if they are on the search path, or fit one of the patterns ``drivers``.
    """
    made = Plan()
    databases: dict[str, dict[str, flags.Compilation]] = {}
    passed, openmp = flags.understood(arguments or (), os.getcwd())

    def database(source: str) -> flags.Compilation | None:
        path = flags.find_database(source)
        if path is None:
            return None
        if path not in databases:
            try:
                databases[path] = flags.read_database(path, drivers, made.warnings)
            except ValueError as error:
                databases[path] = {}
                made.warnings.append(str(error))
        return databases[path].get(source)

    def add(source: str, otherwise: flags.Compilation | None = None) -> None:
        if arguments is not None:
            found: flags.Compilation | None = flags.Compilation(source, os.getcwd(), passed, openmp)
        else:
            found = database(source) or otherwise
        made.compilations.setdefault(source, found or flags.Compilation(source, os.path.dirname(source), ()))

    for path in paths:
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            for source in files_below(absolute, flags.ENDINGS):
                add(source)
        elif is_elf(absolute):
            _add_binary(made, absolute, add, seen)
        elif not os.path.isfile(absolute):
            made.warnings.append(f"{absolute}: cannot be read: no such file")
        else:
            add(absolute)
    return made


def _add_binary(
    made: Plan, path: str, add: Callable[[str, flags.Compilation | None], None], seen: Collection[str] | None
) -> None:
    try:
        with Binary(debug_file(path)) as binary:
            wanted = units_with(seen, binary.units) if seen is not None and len(binary.units) > LARGE else None
            compiled, missing = compilations_of(binary, wanted)
            for unit in wanted or ():
                # Headers may be most of a unit: what is in them is read where the run was there.
                made.only.setdefault(unit.file, frozenset({unit.file, *set(unit.files).intersection(seen or ())}))
            for compilation in compiled:
                add(compilation.file, compilation)
            if any(unit.split for unit in binary.units):
                made.warnings.append(
                    f"{path}: its debug information is in separate files (-gsplit-dwarf), which are not read: flags "
                    "are unknown, and inlined functions count as part of their callers"
                )
            # A compiler's own start-up code may have debug information, and hardly ever sources.
            told = units_with(seen, missing) if seen else missing
            made.warnings += _without_structure(
                path, [unit.file for unit in told if not unit.fortran], "cannot be read"
            )
            made.warnings += _without_structure(path, [unit.file for unit in told if unit.fortran], "is Fortran")
            if missing:
                made.units += skeleton(binary, {unit.file for unit in missing})
    except BinaryError as error:
        made.warnings.append(str(error))


def _without_structure(path: str, sources: Sequence[str], why: str) -> list[str]:
    """The warning, if any, that sources of a program are not parsed."""
    if not sources:
        return []
    several = len(sources) > 1
    more = f" and {len(sources) - 1} more sources" if several else ""
    why, whose = (why.replace("is ", "are "), "their") if several else (why, "its")
    end = f"{whose} functions and calls come from debug information, without loops and branches"
    return [f"{path}: {sources[0]}{more} {why}; {end}"]


def read_units(
    made: Plan,
    *,
    mpi: Sequence[str] = (),
    cache: Cache | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Unit]:
    """Parse what a plan lists, as far as it is not kept from before.

    Raises:
        ClangMissing: there is no libclang.
    """
    if not made.compilations:
        return list(made.units)
    folders = tuple(mpi) or flags.mpi_includes()
    library = clang.version()
    found: dict[str, Unit] = {}
    jobs: list[dict[str, Any]] = []
    keys: list[str] = []
    total = len(made.compilations)

    def finished(file: str, unit: Unit) -> None:
        found[file] = unit
        if progress is not None:
            progress(len(found), total, file)

    for file, compilation in made.compilations.items():
        words = flags.command_line(compilation, folders)
        try:
            with open(file, "rb") as source:
                content = source.read()
        except OSError:
            content = b""
        key = key_of([str(FORMAT), library, file, str(compilation.openmp), *words, content])
        unit, only = _kept(cache, key), made.only.get(file)
        if unit is not None and _covers(unit, only):
            finished(file, unit)
            continue
        if only is not None and unit is not None and unit.only is not None:
            only = only.union(unit.only)  # so that runs that were in different files do not take turns
        jobs.append(
            {
                "file": file,
                "arguments": words,
                "directory": compilation.directory,
                "openmp": compilation.openmp,
                "only": None if only is None else sorted(only),
            }
        )
        keys.append(key)

    def done(number: int, result: dict[str, Any]) -> None:
        unit = decode(result)
        if cache is not None and unit.complete:
            cache.put(keys[number], result, unit.headers)
        finished(jobs[number]["file"], unit)

    if jobs:
        run(jobs, done, workers)
    return [found[file] for file in made.compilations] + made.units


def _kept(cache: Cache | None, key: str) -> Unit | None:
    kept = cache.get(key) if cache is not None else None
    if kept is None:
        return None
    try:
        return decode(kept)
    except ValueError:
        return None


def _covers(unit: Unit, only: Collection[str] | None) -> bool:
    """Whether a unit has the functions of some files, None for all."""
    return unit.only is None or (only is not None and set(only).issubset(unit.only))


class Cpp:
    """The front end for C and C++.

    Args:
        options: flags of the compiler, and the files that a run was seen in: of a program of more than :data:`LARGE`
            translation units, only those are read that have code of these, and of their headers only these.
        mpi: folders of MPI's headers; by default those of the MPI on the search path.
        cache: of results; None to use the user's own.
        workers: processes that parse; None for as many as pay, 0 to do it in this one.
        progress: told about each translation unit.
    """

    languages: Sequence[str] = ("C", "C++")

    def __init__(
        self,
        options: Options = UNSPECIFIED,
        *,
        mpi: Sequence[str] = (),
        cache: Cache | None = None,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.options = options
        self.program = Program()
        self.warnings: list[str] = []
        self.lacking: list[str] = []
        self._mpi = mpi
        self._cache = cache
        self._workers = workers
        self._progress = progress

    def takes(self, path: str) -> bool:
        """Whether a path is a C or C++ source, a program, or a folder with such sources."""
        if os.path.isdir(path):
            return any(True for _ in files_below(path, flags.ENDINGS))
        return flags.is_source(path) or is_elf(path)

    def read(self, paths: Sequence[str]) -> None:
        """Read sources, folders and programs. Where there is no libclang, nothing but a warning comes of sources."""
        made = plan(paths, self.options.flags, self.options.seen, self.options.drivers)
        self.warnings += made.warnings
        cache = Cache() if self._cache is None else self._cache
        try:
            units = read_units(made, mpi=self._mpi, cache=cache, workers=self._workers, progress=self._progress)
        except clang.ClangMissing as error:
            self.warnings.append(str(error))
            self.lacking.append(str(error))
            units = made.units
        without: list[str] = []
        for unit in units:
            self.program.add(unit)
            if any(path == mpi_header.PATH for path, _ in unit.headers):
                without.append(unit.file)
            self.warnings += [warning for warning in unit.warnings if warning not in self.warnings]
        if without:
            more = f" (nor for {len(without) - 1} more sources)" if len(without) > 1 else ""
            self.warnings.append(f"{without[0]}: mpi.h was not found{more}; the names of the MPI standard replace it")
        self.program.finish()
        about = tuple(f"{file}: " for file in paths)  # and not about lines of their sources
        self.lacking += [warning for warning in self.warnings if warning.startswith(about)]

    def decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision | None:
        """What a call site in a function is; None if it is in no C or C++."""
        return self.program.decide(function, context, node)

    def entries(self, linker: Linker) -> Iterable[Target]:
        """What runs before ``main``, and ``main``."""
        modules = [Target(file.module) for file in self.program.files.values()]
        return [*(m for m in modules if linker.body(m).nodes), *map(Target, self.program.mains)]

    def add_uncalled(self, linker: Linker) -> None:
        """Add functions that nothing has called."""
        _add_uncalled(linker, self.program)

    def parses(self, file: str) -> bool:
        """Whether a file is, by its name or by what was read, C or C++."""
        return file in self.program.files or flags.is_source(file)

    def parse(self, file: str) -> FileStructure | None:
        """The structure of a file, None if it belongs to no translation unit."""
        return self.program.parse(file)


def _add_uncalled(linker: Linker, program: Program) -> None:
    """Add functions that nothing has called, those first that no other one of them calls.

    Last come functions that are called only from where the graph had to be cut off: they are shown once, by themselves,
    so that the loops of all functions are in the graph.
    """
    shown = _Shown(linker.psg)
    left = [
        function
        for file in program.files.values()
        for function in file.functions
        if function not in linker.called and not shown.has(function) and not program.is_superseded(function)
    ]
    called: set[FunctionStructure] = set()
    for function in left:
        called.update(_calls(linker, function))
    for function in sorted(left, key=lambda function: function in called):
        if function not in linker.called:
            linker.add(Target(function))
    for file in program.files.values():
        for function in file.functions:
            if not program.is_superseded(function) and not shown.has(function):
                linker.add(Target(function), share=0)


class _Shown:
    """The functions that have a vertex."""

    def __init__(self, psg: PSG) -> None:
        self.psg = psg
        self._places: set[Place] = set()
        self._seen = 0

    def has(self, function: FunctionStructure) -> bool:
        """Whether a function, or another instantiation of it, is in the graph by now."""
        for vertex in self.psg.vertices[self._seen :]:
            if vertex.kind is VertexKind.FUNCTION:
                self._places.add(vertex.place)
        self._seen = len(self.psg)
        return function.place in self._places


def _calls(linker: Linker, function: FunctionStructure) -> Iterable[FunctionStructure]:
    stack = list(linker.body(Target(function)).nodes)
    while stack:
        node = stack.pop()
        yield from (target.function for target in node.targets if target.function is not function)
        stack.extend(node.children)
