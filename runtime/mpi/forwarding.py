"""What ranks on other hosts have of the environment.

Open MPI starts them, by ``ssh``, with what a login there has, and hands on only what it is told to; other launchers
hand on everything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

_LIST = "OMPI_MCA_mca_base_env_list"
_OURS = ("LD_PRELOAD", "PYTHONPATH")


def forwarding(command: Sequence[str], environ: Mapping[str, str], compilers: Sequence[str]) -> dict[str, str]:
    """The variable that tells Open MPI to hand on to other hosts what recorders go by; none for other MPIs.

    It ends a job in whose environment one of the variables is missing by then, as a script may have it: so it is told
    only where the command itself is the launcher, and where no file sets the same. Before version 5 it refuses a job
    that has the option ``-x`` as well.

    Args:
        command: what starts the job, in the user's own words.
        environ: its environment, with all that recorders go by.
        compilers: the ``mpicc`` of each MPI that it may use.
    """
    folders = {os.path.dirname(compiler) for compiler in compilers}
    open_mpi = [folder for folder in folders if os.path.exists(os.path.join(folder, "ompi_info"))]
    older = any(not os.path.exists(os.path.join(folder, "prterun")) for folder in open_mpi)
    launches = os.path.basename(command[0]) in ("mpirun", "mpiexec", "orterun")
    if not open_mpi or not launches or (older and "-x" in command) or _is_set_in_files(open_mpi, environ):
        return {}
    names = [name for name in environ if name in _OURS or name.startswith("SCALANA_")]
    before = [environ[_LIST]] if environ.get(_LIST) else []
    return {_LIST: environ.get(f"{_LIST}_delimiter", ";").join([*before, *sorted(names)])}


def _is_set_in_files(folders: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether a user's or an installation's own file sets the parameter, which the variable would hide."""
    files = [os.path.join(environ.get("HOME", ""), ".openmpi", "mca-params.conf")]
    files += [os.path.join(os.path.dirname(folder), "etc", "openmpi-mca-params.conf") for folder in folders]
    return any("mca_base_env_list" in _text(file) for file in files)


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
