"""By which variables launchers tell a process which rank it is. A new launcher is a new row."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
PMI = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")

RANK_VARIABLES = (TORCHRUN, OPEN_MPI, PMI, SLURM)
"""Rank, size of the job, rank on this host; the first that are there count."""
MPI_VARIABLES = (OPEN_MPI, PMI)
"""Those of launchers of MPI."""
REMOTE_SHELLS = ("ssh", "rsh", "pdsh", "pssh", "parallel-ssh", "clush", "kubectl")
"""Programs that start others on other hosts, without the environment of whoever calls them."""


def rank_of(environ: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Rank, world size and local rank as the launcher gave them, or ``None``."""
    for rank, size, local in RANK_VARIABLES:
        if environ.get(rank, "").isdigit() and environ.get(size, "").isdigit():
            return environ.get(rank, ""), environ.get(size, ""), environ.get(local, "")
    return None
