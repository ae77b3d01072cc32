"""By what the two ends of a pipe know it, whichever way a process came by its end."""

from __future__ import annotations

import os
import sys

from scalana.runtime.remote import calls, libraries
from scalana.runtime.typed import Any


def id_of_queue(queue: Any) -> int:
    """The same for a queue of :mod:`multiprocessing` in all processes that have it: its pipe has one inode."""
    known = queue.__dict__.get("_scalana_id")
    if known is None:
        pipe = os.fstat(queue._reader.fileno())
        known = calls.id_of(f"{os.uname().nodename}:{pipe.st_dev}:{pipe.st_ino}:{_owner()}".encode())
        queue._scalana_id = known
    return int(known)


def _owner() -> int:
    """The process that has started this one by such a library, or else this one: an inode may be used again."""
    for package in libraries.LIKE_MULTIPROCESSING:
        process = sys.modules.get(f"{package}.process")
        parent = process.parent_process() if process is not None else None
        if parent is not None:
            return int(parent.pid)
    return os.getpid()
