"""The recorder for MPI that a published wheel brings, compiled: fitted to the MPI at hand without a compiler.

Wrappers are compiled for the binary interface of Open MPI 3 to 5 and for that of MPICH (which Intel's and Cray's MPI
have, too), by the header of a new version of each. An older one has fewer functions. The preloaded library must have
the names of the MPI at hand and no others: programs look whether a name is there to know what they can call. So names
that this MPI lacks are hidden in a copy, what the wrappers need for them becomes optional, and the wrappers ask for
its library by name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from scalana.runtime import user_cache
from scalana.runtime.mpi.elf import SharedLibrary
from scalana.runtime.mpi.kept import HERE, Kept, version
from scalana.runtime.mpi.slots import names

FOLDER = os.path.join(HERE, "prebuilt")
SOURCES = "sources"
"""A file that says from which sources the others were compiled."""
PRELOAD = "preload.so"
OPEN_MPI, MPICH = "openmpi.so", "mpich.so"
INTERFACES = {
    ("libmpi.so.40", True): OPEN_MPI,
    ("libmpi.so.12", False): MPICH,
    ("libmpich.so.12", False): MPICH,
    ("libmpi_cray.so.12", False): MPICH,
}
"""Which wrappers fit a library: by its name, and by whether it is an Open MPI (1.10 was a ``libmpi.so.12``, too)."""
OF_OPEN_MPI = "ompi_mpi_comm_world"
STAND_IN = f"libmpi-{'of-the-job-' * 4}.so"
"""The library that the wrappers ask for before they are bound to one."""


def place(kept: Kept, environ: Mapping[str, str]) -> bool:
    """Write the recorder for an MPI where it is kept. Says whether that worked, and it fits: it was compiled from the
    sources that are here, and has wrappers for all that this MPI has.

    Args:
        kept: the files, of which those are written that are not there.
        environ: of the job.
    """
    if not _is_of_these_sources(environ):
        return False
    library = next(filter(None, map(_read, kept.libraries)), None)
    name = INTERFACES.get((library.soname, OF_OPEN_MPI in library.defined())) if library else None
    wrappers, preload = (_read(os.path.join(FOLDER, one)) for one in (name or "", PRELOAD))
    if library is None or wrappers is None or preload is None:
        return False
    has = library.defined()
    asked = wrappers.undefined()
    known = {one for one in names() if f"P{one}" in asked}
    if not has.intersection(names()) <= known:
        return False
    preload.hide(set(names()) - has)
    wrappers.weaken({one for one in asked - has if one.startswith(("PMPI_", "MPI_", "ompi_"))})
    wrappers.ask_for(library.soname, STAND_IN)
    made = {file: preload if file == kept.preloaded else wrappers for file in kept.missing}
    return all(user_cache.keep(file, library.data) for file, library in made.items())


def _is_of_these_sources(environ: Mapping[str, str]) -> bool:
    try:
        with open(os.path.join(FOLDER, SOURCES), encoding="utf-8") as file:
            return file.read() == version(environ)
    except (OSError, ValueError):
        return False


def _read(path: str) -> SharedLibrary | None:
    """A shared library, None where there is none: a linker's script may have the name of one."""
    try:
        with open(path, "rb") as file:
            return SharedLibrary(file.read())
    except (OSError, ValueError):
        return None
