"""What is compiled for an MPI, and where it is kept.

That depends on the sources here (a folder per version) and, for the wrappers, on the file of the MPI library they were
compiled for: its path, size and time are in their name, so that another library gets its own.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Mapping

from scalana.runtime import user_cache
from scalana.runtime.mpi.answers import answer, output_of
from scalana.runtime.mpi.job import LIBRARY

HERE = os.path.dirname(os.path.abspath(__file__))
CORE = os.path.join(os.path.dirname(HERE), "_core")
_SEPARATORS = " :"
"""What separates the paths in ``LD_PRELOAD``, whose loader knows no way to quote them."""
_ROOM = 8 << 20
"""Bytes that compiling needs, on the disk where the result is kept."""
_SAYING = ("PATH", "LD_LIBRARY_PATH", "OMPI_", "OPAL_", "MPICH_", "I_MPI_", "MPI", "CC")
"""How variables begin that may change what an ``mpicc`` shows."""


class BuildError(Exception):
    """The recorder for an MPI cannot be made; says why."""


class Kept:
    """The files of the recorder for an MPI, made or not, in the folder where they are kept.

    Args:
        compiler: the ``mpicc``, empty where there is none.
        libraries: the files of the MPI library.
        folder: where they are kept.

    Attributes:
        wrappers: one for each file of the MPI library, all with the same contents.
        preloaded: what is preloaded.
    """

    def __init__(self, compiler: str, libraries: list[str], folder: str) -> None:
        self.compiler, self.libraries = compiler, libraries
        self.wrappers = [os.path.join(folder, wrappers_name(library)) for library in libraries]
        self.preloaded = self.wrappers[0].removesuffix(".so") + "-preload.so"

    @property
    def mpi(self) -> str:
        """What names the MPI to the user."""
        return self.compiler or self.libraries[0]

    @property
    def missing(self) -> list[str]:
        """Files that are not there, or that somebody else could have changed."""
        files = (*self.wrappers, self.preloaded)
        return [file for file in files if not os.path.exists(file) or user_cache.distrust(file, os.environ)]

    def moved(self, folder: str) -> Kept:
        """The same files in another folder."""
        return Kept(self.compiler, self.libraries, folder)


def kept_for(compiler: str, folder: str, environ: Mapping[str, str]) -> Kept:
    """The files for an ``mpicc`` in the folder where they are kept.

    Raises:
        BuildError: the MPI's library is not found.
    """
    libraries = mpi_libraries(compiler, environ)
    if not libraries:
        raise BuildError(f"{compiler} does not report the path of its library")
    return Kept(compiler, libraries, folder)


def cache_folder(environ: Mapping[str, str]) -> str:
    """The folder for what is compiled from these sources, made if need be: the user's, or else in the run's.

    Raises:
        OSError: neither can be made, or the loader of programs cannot preload from there.
    """
    folder = user_cache.folder_for(user_cache.MPI, environ, version(environ))
    if any(separator in folder for separator in _SEPARATORS):
        raise OSError(f"no program can preload from {folder}, which has a space or a colon: set SCALANA_CACHE")
    return folder


def roomy_folder(folder: str, environ: Mapping[str, str]) -> str:
    """The folder, or one in the run's where nothing can be compiled into it: its disk is full, or not to be written."""
    return user_cache.roomy_folder(folder, user_cache.MPI, environ, _ROOM)


def version(environ: Mapping[str, str]) -> str:
    """A name for the sources of the recorder, by their contents."""

    def ask() -> tuple[str, list[str]]:
        mark, size = 0, 0
        sources = [os.path.join(os.path.dirname(HERE), "operations.py")]
        folders = []
        for base in (HERE, CORE):
            for folder, inside, names in os.walk(base):
                inside[:] = sorted(name for name in inside if name != "__pycache__")
                folders.append(folder)
                sources += [os.path.join(folder, name) for name in sorted(names) if name.endswith((".c", ".h", ".py"))]
        above = os.path.dirname(HERE)
        for source in sources:
            with open(source, "rb") as file:
                content = file.read()
            mark = zlib.crc32(os.fsencode(os.path.relpath(source, above)) + b"\0" + content, mark)
            size += len(content)
        return f"{mark:08x}{size:08x}", [*folders, *sources]

    return answer(f"version of {HERE}", environ, ask)


def wrappers_name(library: str) -> str:
    """File name of the wrappers for an MPI library; the preloaded library looks for the same."""
    whole = os.path.realpath(library)
    status = os.stat(whole)
    value = 0xCBF29CE484222325
    for byte in os.fsencode(whole):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}-{status.st_size:x}-{status.st_mtime_ns:x}.so"


def mpi_libraries(compiler: str, environ: Mapping[str, str]) -> list[str]:
    """The files of the MPI library that programs compiled by an ``mpicc`` load."""
    folders = _searched(compiler, environ)
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(compiler))), "lib"))
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(compiler))), "lib"))
    return libraries_in(folders)


def libraries_in(folders: Iterable[str]) -> list[str]:
    """The files of MPI libraries in some folders, without links to them."""
    found: dict[str, None] = {}
    for folder in folders:
        if os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                if re.match(LIBRARY, name) and not name.startswith("libmpi_abi"):
                    found[os.path.realpath(os.path.join(folder, name))] = None
    return list(found)


def _searched(compiler: str, environ: Mapping[str, str]) -> list[str]:
    """The folders in which an ``mpicc`` has libraries searched for, by what it shows."""

    def ask() -> tuple[str, list[str]]:
        import shlex

        output = output_of([compiler, "-show"], 30)
        folders = [word[2:] for word in shlex.split(output) if word.startswith("-L")]
        return "\n".join(folders), [compiler, os.path.realpath(compiler), *folders]

    said = sorted(f"{name}={value}" for name, value in environ.items() if name.startswith(_SAYING))
    try:
        return answer(f"folders of {compiler} with {' '.join(said)}", environ, ask).splitlines()
    except (OSError, ValueError):
        return []
