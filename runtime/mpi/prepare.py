"""What a job that uses MPI needs in its environment to be recorded.

All that a job has to wait for before it starts: what compiles is only imported where something is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from scalana.runtime import user_cache
from scalana.runtime.mpi.job import library_folders, mpi_compilers, programs, uses_mpi, with_static_mpi
from scalana.runtime.mpi.kept import BuildError, Kept, cache_folder, kept_for, libraries_in, roomy_folder

_NO_COMPILER = "MPI calls are not recorded: no mpicc next to the launcher or in PATH"


class Prepared:
    """What a job needs to be recorded.

    Args:
        environment: what it needs in its environment.
        notes: what will not be recorded, and why.
    """

    def __init__(self, environment: dict[str, str], notes: list[str]) -> None:
        self.environment, self.notes = environment, notes


def prepare(
    command: Sequence[str],
    environ: Mapping[str, str],
    tell: Callable[[str], None] = lambda _: None,
    *,
    expected: bool = False,
) -> Prepared:
    """The variables that preload the recorder into an MPI job; none for other jobs. Makes what is missing: from what
    the installation brings where that fits the MPI, or else by its compiler.

    Args:
        command: what starts the job.
        environ: its environment.
        tell: is given a line for the user before what takes seconds.
        expected: the job uses MPI, whether the command shows it or not.
    """
    command = programs(command, environ)
    if not expected and not uses_mpi(command, environ):
        return Prepared({}, [])
    inside = [
        f"{program} contains a statically linked MPI, whose calls cannot be recorded: link a shared MPI library"
        for program in with_static_mpi(command, environ)
    ]
    compilers = mpi_compilers(command, environ)
    libraries = [] if compilers else [one for at in library_folders(command, environ) if (one := libraries_in([at]))]
    if not compilers and not libraries:
        return Prepared({}, [_NO_COMPILER, *inside])
    try:
        folder = cache_folder(environ)
    except OSError as error:
        names = compilers or [names[0] for names in libraries]
        return Prepared({}, [*(f"MPI calls of {name} are not recorded: {error}" for name in names), *inside])
    trouble = user_cache.distrust(user_cache.folder_of(user_cache.MPI, environ), environ)
    if trouble:
        tell(f"the cache of recorders is not safe to load from and is not used: {trouble}")
    found = [Kept("", of_one, folder) for of_one in libraries]
    made: list[Kept] = []
    refused = []
    for compiler in compilers:
        try:
            found.append(kept_for(compiler, folder, environ))
        except (BuildError, OSError) as error:
            refused.append(f"MPI calls of {compiler} are not recorded: {error}")
    once = "once"
    if any(kept.missing for kept in found):
        roomy = roomy_folder(folder, environ)
        if roomy != folder:
            once = f"for this run only: no space in {folder}"
            folder, found = roomy, [kept.moved(roomy) for kept in found]
    for kept in found:
        try:
            if kept.missing and not _placed(kept, environ):
                from scalana.runtime.mpi.build import build

                tell(f"compiling the recorder for the MPI of {kept.compiler}, {once}; the job starts afterwards")
                build(kept)
            made.append(kept)
        except (BuildError, OSError) as error:
            refused.append(f"MPI calls of {kept.mpi} are not recorded: {error}")
    if not made:
        return Prepared({}, [*(refused if compilers else [_NO_COMPILER]), *inside])
    preloaded = ":".join(filter(None, [made[0].preloaded, environ.get("LD_PRELOAD")]))
    environment = {"LD_PRELOAD": preloaded, "SCALANA_MPI_WRAPPERS": folder}
    notes = []
    if any(word.startswith("LD_PRELOAD=") for word in command):
        notes.append("the command overwrites LD_PRELOAD and drops the MPI recorder: set it before scalana run instead")
    return Prepared(environment, [*notes, *inside])


def _placed(kept: Kept, environ: Mapping[str, str]) -> bool:
    """Whether what is missing of a recorder came with the installation, and now is where it is kept.

    Raises:
        BuildError: it did not, and there is no ``mpicc``.
    """
    from scalana.runtime.mpi.prebuilt import place

    placed = place(kept, environ)
    if not placed and not kept.compiler:
        raise BuildError(_NO_COMPILER)
    return placed
