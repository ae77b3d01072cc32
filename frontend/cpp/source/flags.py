"""How the sources are compiled: flags that were passed, a compilation database, and what compilers say of themselves.

Compilers are asked where their headers are, and nothing else is executed. Only programs whose name is that of a
compiler are asked, and of those that a compilation database names only such as are on the search path by that name, or
are allowed by a pattern.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalana.frontend.cpp.source import mpi_header

ENDINGS = frozenset({".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".i", ".ii"})
"""Of files that are translation units."""
HEADERS = frozenset({".h", ".hh", ".hpp", ".hxx", ".h++", ".H", ".inl", ".ipp", ".tpp", ".tcc", ".inc"})
DATABASE = "compile_commands.json"
SECONDS = 10
"""Longest time that a compiler may take to answer."""
_COMPILER = re.compile(
    r"(.+-)?(mpi(cc|cxx|c\+\+|CC|icc|icx|icpc|icpx|gcc|gxx|g\+\+|clang|clang\+\+|nvc|nvc\+\+)|gcc|g\+\+|cc|c\+\+|CC|c89|"
    r"c99|clang|clang\+\+|icc|icpc|icx|icpx)(-[\d.]+)?"
)
_WITH_VALUE = ("-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-D", "-U", "-isysroot", "-x")
_KEPT = re.compile(
    r"-std=.+|-ansi|--sysroot=.+|-nostdinc(\+\+)?|-stdlib=.+|-pthread|-m(32|64|avx.*|sse.*|fma|bmi2?|f16c)|"
    r"-f(un)?signed-char|-fshort-enums|-fno-exceptions|-fno-rtti|-fms-extensions|-fpermissive|-resource-dir=.+|"
    r"--gcc-toolchain=.+|--gcc-install-dir=.+|-fcoroutines|-fconcepts|-fchar8_t|-O\d?|-Os|-Ofast"
)
_OPENMP = re.compile(r"-f(i?openmp|openmp=.+|openmp-simd)|-qopenmp|-q?smp=omp|-mp(=.+)?|-homp")


_OLD_C = ("implicit-function-declaration", "implicit-int", "int-conversion", "incompatible-function-pointer-types")
"""What old C allows, and many compilers still do."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """How one translation unit is compiled."""

    file: str
    """Absolute path."""
    directory: str
    """In which the compiler ran."""
    arguments: tuple[str, ...]
    """Those that libclang understands and that matter for what the source means."""
    openmp: bool = False
    mpi: tuple[str, ...] = ()
    """Folders of MPI's headers that the compiler adds by itself."""


def is_compiler(program: str) -> bool:
    """Whether a program has the name of a compiler that may be asked."""
    return _COMPILER.fullmatch(os.path.basename(program)) is not None


def is_source(path: str) -> bool:
    """Whether a file is, by its name, C or C++."""
    ending = os.path.splitext(path)[1]
    return ending in ENDINGS or ending in HEADERS


def understood(arguments: Sequence[str], directory: str = ".") -> tuple[tuple[str, ...], bool]:
    """Of the arguments of a compiler those that say what the source means, and whether OpenMP is on."""
    kept: list[str] = []
    openmp = False
    words = iter(_with_response_files(arguments, directory))
    for word in words:
        if word in ("-Xpreprocessor", "-Xclang"):
            word = next(words, "")
        if _OPENMP.fullmatch(word):
            openmp = True
            continue
        option = next((o for o in sorted(_WITH_VALUE, key=len, reverse=True) if word.startswith(o)), None)
        if option is not None and (word == option or option in ("-I", "-D", "-U", "-x", "-isystem", "-iquote")):
            value = next(words, "") if word == option else word[len(option) :]
            if option not in ("-D", "-U", "-x", "-include", "-imacros"):
                value = os.path.normpath(os.path.join(directory, value))
            elif option in ("-include", "-imacros") and os.path.isfile(os.path.join(directory, value)):
                value = os.path.normpath(os.path.join(directory, value))
            kept += [option, value] if option not in ("-D", "-U", "-I") else [option + value]
        elif word in ("-o", "-MF", "-MT", "-MQ", "-L", "-l", "-T", "-u", "-z", "--param", "-arch"):
            next(words, "")
        elif _KEPT.fullmatch(word):
            kept.append(word)
    return tuple(kept), openmp


def _with_response_files(arguments: Sequence[str], directory: str, depth: int = 8) -> list[str]:
    """Arguments with those in files that are named as ``@file``; such as cannot be read stay as they are."""
    found: list[str] = []
    for word in arguments:
        if word.startswith("@") and depth:
            try:
                with open(os.path.join(directory, word[1:]), encoding="utf-8", errors="surrogateescape") as file:
                    found += _with_response_files(_split(file.read()), directory, depth - 1)
                continue
            except (OSError, ValueError):
                pass
        found.append(word)
    return found


def find_database(path: str) -> str | None:
    """The nearest compilation database at or above a file or folder, or in a ``build`` folder there."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    while True:
        for candidate in (os.path.join(folder, DATABASE), os.path.join(folder, "build", DATABASE)):
            if os.path.isfile(candidate):
                return candidate
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def read_database(path: str, drivers: Sequence[str] = (), warnings: list[str] | None = None) -> dict[str, Compilation]:
    """The entries of a compilation database by absolute path of the source; of several for one file, the first.

    Args:
        path: of the database.
        drivers: patterns of compilers that may be asked although they are not on the search path.
        warnings: gets a sentence for each compiler that may not be asked.

    Raises:
        ValueError: it is not one; says which file, and why.
    """
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
        found: dict[str, Compilation] = {}
        refused: set[str] = set()
        for entry in entries:
            directory = os.path.normpath(os.path.join(os.path.dirname(path), entry.get("directory", ".")))
            source = os.path.normpath(os.path.join(directory, entry["file"]))
            words = list(entry["arguments"]) if "arguments" in entry else shlex.split(entry["command"])
            if source not in found:
                compiler = words[0] if words else ""
                asked = driver(compiler, directory, drivers) if _is_wrapper(compiler) else ""
                if _is_wrapper(compiler) and not asked:
                    refused.add(os.path.normpath(os.path.join(directory, compiler)))
                found[source] = compilation(source, words[1:], directory, asked)
        if warnings is not None:
            warnings += [
                f"{path}: {compiler} is not on PATH and was not started, so its MPI headers are unknown; "
                f"--query-driver {compiler} allows it"
                for compiler in sorted(refused)
            ]
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no compilation database: {error}") from error


def compilation(file: str, arguments: Sequence[str], directory: str, compiler: str = "") -> Compilation:
    """How a file is compiled by a command; ``compiler`` is a program that may be asked, empty for none."""
    kept, openmp = understood(arguments, directory)
    mpi = wrapper_includes(compiler) if _is_wrapper(compiler) else ()
    return Compilation(file, directory, kept, openmp, mpi)


def _is_wrapper(program: str) -> bool:
    """Whether a program has the name of a compiler wrapper of MPI."""
    return os.path.basename(program).startswith("mpi") and is_compiler(program)


def driver(compiler: str, directory: str, allowed: Sequence[str]) -> str:
    """The program that may be asked for a compiler that somebody else's file names; empty if none may be.

    It is the program of that name on the search path, if the file means that one, or one that a pattern allows.
    """
    name = os.path.basename(compiler)
    own = shutil.which(name)
    if own is not None and not os.path.isabs(own):
        own = None  # a search path that leads to the working folder says nothing
    if compiler == name:
        return own or ""
    path = os.path.normpath(os.path.join(directory, compiler))
    try:
        if own is not None and os.path.samefile(own, path):
            return own
    except OSError:
        pass
    return path if any(fnmatch.fnmatchcase(path, pattern) for pattern in allowed) else ""


@functools.cache
def wrapper_includes(compiler: str) -> tuple[str, ...]:
    """The folders of headers that a compiler wrapper of MPI adds; empty where it does not say."""
    if not is_compiler(compiler) or not os.path.basename(compiler).startswith("mpi"):
        return ()
    listed = _ask([compiler, "--showme:incdirs"])  # Open MPI
    if listed is not None:
        folders = [os.path.normpath(folder) for folder in listed.split()]
        if folders and all(os.path.isdir(folder) for folder in folders):
            return tuple(folders)
    for question in ("-show", "--showme:compile", "-compile_info"):  # MPICH and its kin
        shown = _ask([compiler, question])
        if not shown:
            continue
        kept, _ = understood(_split(shown)[1:])
        folders = [word[2:] for word in kept if word.startswith("-I")]
        if any(os.path.isdir(folder) for folder in folders):
            return tuple(folders)
    return ()


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _ask(command: list[str]) -> str | None:
    """The answer of a compiler, None if it has none."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout if result.returncode == 0 else None


@functools.cache
def mpi_includes() -> tuple[str, ...]:
    """The folders of MPI's headers: of the compilers on the search path, beside ``mpirun``, or where variables say.

    Empty where there is no MPI.
    """
    homes = [os.environ.get(name, "") for name in ("MPI_HOME", "MPI_ROOT", "I_MPI_ROOT")]
    places = [os.path.join(home, "bin") for home in homes if home]
    launcher = shutil.which("mpirun") or shutil.which("mpiexec")
    if launcher:
        places.append(os.path.dirname(launcher))
    places.append(os.path.join(sys.prefix, "bin"))
    for folder in [None, *places]:
        for name in ("mpicxx", "mpicc", "mpic++", "mpiicpc", "mpiicc"):
            wrapper = shutil.which(name) if folder is None else os.path.join(folder, name)
            if wrapper and os.access(wrapper, os.X_OK):
                found = wrapper_includes(wrapper)
                if found:
                    return found
    for folder in places:
        include = os.path.join(os.path.dirname(folder), "include")
        if os.path.isfile(os.path.join(include, "mpi.h")):
            return (include,)
    return ()


@functools.cache
def builtin_arguments() -> tuple[str, ...]:
    """What makes libclang find the compiler's own headers (``stddef.h``), which it does not bring itself.

    A ``clang`` knows its resource folder; without one, the folder of ``gcc`` serves, for it has the same layout.
    """
    for name in ("clang", "clang++"):
        path = shutil.which(name)
        answer = _ask([path, "-print-resource-dir"]) if path else None
        if answer and os.path.isfile(os.path.join(answer.strip(), "include", "stddef.h")):
            return ("-resource-dir", answer.strip())
    for name in ("gcc", "g++", "cc", "c++"):
        path = shutil.which(name)
        answer = _ask([path, "-print-file-name=include"]) if path else None
        if answer and os.path.isfile(os.path.join(answer.strip(), "stddef.h")):
            return ("-resource-dir", os.path.dirname(answer.strip()))
    return ()


def command_line(compilation: Compilation, mpi: Iterable[str] = ()) -> list[str]:
    """The arguments for libclang. ``mpi`` are folders of MPI's headers, searched after everything else."""
    words = list(compilation.arguments)
    if "-x" not in words and os.path.splitext(compilation.file)[1] in HEADERS:
        words = ["-x", "c++", *words]
    if not any(word.startswith("-resource-dir") for word in words):
        words += builtin_arguments()
    if compilation.openmp:
        words.append("-D_OPENMP=201511")  # see pragmas.py: read as ordinary code
    for folder in dict.fromkeys((*compilation.mpi, *mpi, mpi_header.FOLDER)):
        words += ["-idirafter", folder]
    # What a compiler only warns about, or what another one accepts, is no reason to read less.
    words += ["-w", "-ferror-limit=0", "-fno-spell-checking"]
    words += [f"-Wno-error={name}" for name in _OLD_C]
    return [*words, f"-working-directory={compilation.directory}"]
