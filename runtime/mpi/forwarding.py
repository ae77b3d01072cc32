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

    Before version 5, Open MPI refuses a job that has both this variable and the option ``-x``, which a script may have
    as well: there it is only told where the command itself is the launcher, and has no such option.

    Args:
        command: what starts the job, in the user's own words.
        environ: its environment, with all that recorders go by.
        compilers: the ``mpicc`` of each MPI that it may use.
    """
    folders = {os.path.dirname(compiler) for compiler in compilers}
    open_mpi = [folder for folder in folders if os.path.exists(os.path.join(folder, "ompi_info"))]
    refuses = any(not os.path.exists(os.path.join(folder, "prterun")) for folder in open_mpi)
    plain = os.path.basename(command[0]) in ("mpirun", "mpiexec", "orterun") and "-x" not in command
    if not open_mpi or (refuses and not plain):
        return {}
    names = [name for name in environ if name in _OURS or name.startswith("SCALANA_")]
    before = [environ[_LIST]] if environ.get(_LIST) else []
    return {_LIST: environ.get(f"{_LIST}_delimiter", ";").join([*before, *sorted(names)])}
