"""What ``srun`` hands on to all nodes of a job, and not all of them may have: it preloads what is kept here unseen."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from scalana.runtime.mpi.job import programs, texts

_OF_ONE_HOST = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs tmpfs ramfs overlay".split())
"""File systems that no other host sees."""
_NODES = r"(?:^|\s)(?:-N|--nodes)[= ]?(\d+)"
_SIZES = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")


def warning(command: Sequence[str], environ: Mapping[str, str], folder: str, mounts: str = "/proc/mounts") -> str:
    """That nodes which lack the recorder in a folder print errors; empty where they see it, or there is only one."""
    if _nodes(command, environ) < 2 or not _starts_srun(command, environ) or not _is_of_one_host(folder, mounts):
        return ""
    return (
        f"srun has all nodes preload the recorder for MPI from {folder}, which is on a disk of this host: nodes "
        "without it print ld.so errors and are not recorded; set SCALANA_CACHE to a folder that all nodes see"
    )


def _nodes(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """How many nodes a command of Slurm has, as far as it says or the batch job does; else 1."""
    asked = re.search(_NODES, " ".join(command))
    said = [asked.group(1)] if asked else [environ.get(name, "") for name in _SIZES]
    return next((int(size) for size in said if size.isdecimal()), 1)


def _starts_srun(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    words = programs(command, environ)
    named = any(os.path.basename(word) == "srun" for word in words)
    return named or any(re.search(rb"\bsrun\b", text) for text in texts(words, environ))


def _is_of_one_host(folder: str, mounts: str) -> bool:
    """Whether the file system of a folder is on this host, by the table of mounts; False where that is not known."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return False
    path, best, kind = os.path.realpath(folder), -1, ""
    for _, point, kind_here, *_ in (row for row in rows if len(row) > 2):
        point = point.replace("\\040", " ")
        if len(point) >= best and (path + os.sep).startswith(point.rstrip(os.sep) + os.sep):
            best, kind = len(point), kind_here
    return kind in _OF_ONE_HOST
