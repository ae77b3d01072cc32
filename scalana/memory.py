"""How the process of a command uses memory. A library leaves that to the program that it is a part of."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def keep_freed() -> None:
    """Let the C library keep freed memory for what comes next, where it can (glibc does: mallopt(3)).

    The tables of an analysis come and go. Pages that went back to the system have to be asked for, and cleared, anew:
    that took a third of the CPU time of an analysis of many ranks. With no more heaps than cores, most of what one
    thread has freed serves the others too, and threads that work at once seldom wait for each other.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: on Windows, there is no library of the process
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)
    mallopt(_M_ARENA_MAX, os.cpu_count() or 1)
