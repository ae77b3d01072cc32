"""Where what is compiled for a machine is kept, and what recorded jobs would have liked to find there."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TORCH, MPI = "torch", "mpi"
"""What is compiled: kernels for torch, recorders for MPI."""
WANTED, FAILED = ".wanted", ".failed"
"""Behind the name of a file: a note that asks for it, and one that says why it could not be made."""


def folder_of(kind: str, environ: Mapping[str, str]) -> str:
    """The user's folder for one kind of what is compiled."""
    base = environ.get("SCALANA_CACHE") or os.path.join(
        environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "scalana"
    )
    return os.path.join(base, kind)


def want(path: str, content: str) -> None:
    """Leave a note, beside where a file would be, for whoever compiles it. No more than a try."""
    try:
        if os.path.exists(path + FAILED):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + WANTED, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)
    except OSError:
        pass


def wanted(kind: str, environ: Mapping[str, str]) -> list[str]:
    """The files that there are notes for."""
    folder = folder_of(kind, environ)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name[: -len(WANTED)]) for name in names if name.endswith(WANTED)]
