"""How the process of a command uses memory. A library leaves that to the program that it is a part of."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_MADV_HUGEPAGE = 14
_HEAP = 0.5
"""Part of the machine's memory that is to come in large pages, if it is used at all."""


def keep_freed() -> None:
    """Let the C library keep freed memory for what comes next, where it can (glibc does: mallopt(3)), in one heap for
    all threads, and in large pages where Linux has them.

    The tables of an analysis come and go. Pages that went back to the system have to be asked for, and cleared, anew:
    that took a third of the CPU time of an analysis of many ranks.
    """
    try:
        library = ctypes.CDLL(None)
        mallopt = library.mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)
    mallopt(_M_ARENA_MAX, 1)
    _ask_for_large_pages(library)


def _ask_for_large_pages(library: ctypes.CDLL) -> None:
    """Let the heap grow, which takes addresses but no memory, and ask for large pages there before any is touched."""
    page = os.sysconf("SC_PAGE_SIZE")
    size = int(_HEAP * os.sysconf("SC_PHYS_PAGES")) * page
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.free.argtypes, library.free.restype = [ctypes.c_void_p], None
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    begin = library.malloc(size)
    if begin:  # else addresses are scarce, too
        first = -(-begin // page) * page
        library.madvise(first, begin + size - first - page, _MADV_HUGEPAGE)
        library.free(begin)
