"""By which variables launchers tell a process which rank it is. A new launcher is a new row."""

from __future__ import annotations

from scalana.runtime.typed import Mapping, Sequence

TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
PMI = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")

RANK_VARIABLES = (TORCHRUN, OPEN_MPI, PMI, SLURM)
"""Rank, size of the job, rank on this host; the first that are there count."""
MPI_VARIABLES = (OPEN_MPI, PMI)
"""Those of launchers of MPI."""
REMOTE_SHELLS: dict[str, tuple[str, str] | None] = {
    "ssh": ("", "BbcDEeFIiJLlmOoPpQRSWw"),
    "rsh": ("", "kl"),
    "pdsh": ("-w", ""),
    "clush": ("-w", ""),
    "pssh": ("-H", ""),
    "parallel-ssh": ("-H", ""),
    "kubectl": None,
}
"""Programs that start others on other hosts, without the environment of whoever calls them. The option that names the
hosts, "" where a word does, and the letters of options with a value before that word; None where nothing does."""
_HERE = ("localhost", "127.0.0.1")


def hosts_reached(words: Sequence[str]) -> list[str]:
    """The other hosts on which a remote shell starts something, as far as its words name them one by one.

    >>> hosts_reached(["pdsh", "-S", "-f", "1024", "-w", "node0,node1", "hostname"])
    ['node0', 'node1']
    >>> hosts_reached(["/usr/bin/ssh", "-n", "-p", "22", "me@node1", "hostname"])
    ['node1']
    >>> hosts_reached(["pdsh", "-w", "node[0-3]", "hostname"])
    []
    """
    shell = words[0].rpartition("/")[2] if words else ""
    naming = REMOTE_SHELLS.get(shell)
    if naming is None:
        return []
    option, with_value = naming
    at = 1
    while not option and at < len(words) and words[at].startswith("-"):
        at += 2 if words[at][1:] in with_value else 1
    if option:
        at = words.index(option) + 1 if option in words else len(words)
    names = words[at].replace(",", " ").split() if at < len(words) else []
    hosts = [name.rpartition("@")[2] for name in names]
    return [
        host for host in hosts if host not in _HERE and all(letter.isalnum() or letter in "-._:" for letter in host)
    ]


def rank_of(environ: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Rank, world size and local rank as the launcher gave them, or ``None``."""
    for rank, size, local in RANK_VARIABLES:
        if environ.get(rank, "").isdigit() and environ.get(size, "").isdigit():
            return environ.get(rank, ""), environ.get(size, ""), environ.get(local, "")
    return None
