"""Loops that numba compiles, with their machine code in the user's cache.

numba would keep it beside the sources, in an installation that is not ours to write to. Its own setting for another
folder is one for the whole process, and programs that use this library may have loops of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numba
import numba.core.config

from scalana.runtime import user_cache
from scalana.version import __version__

_config: Any = numba.core.config


def compiled(loop: Callable[..., Any]) -> Any:
    """Have numba compile a loop when it is first called, and keep the machine code.

    In another folder if the user names one (``NUMBA_CACHE_DIR``); not at all where the cache cannot be written to, or
    where somebody else could have put something there.
    """
    folder = _config.CACHE_DIR or _folder()
    if not folder:
        return numba.njit(nogil=True)(loop)
    before = _config.CACHE_DIR
    _config.CACHE_DIR = folder
    try:
        return numba.njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # the folder that the user names cannot be written to, and nor can any that numba knows
        return numba.njit(nogil=True)(loop)
    finally:
        _config.CACHE_DIR = before


@lru_cache(maxsize=1)
def _folder() -> str:
    """Where this version keeps machine code; empty if there is no such place."""
    folder = os.path.join(user_cache.folder_of(user_cache.LOOPS, os.environ), __version__)
    try:
        user_cache.make_folder(folder)
    except OSError:
        return ""
    usable = os.access(folder, os.W_OK | os.X_OK) and not user_cache.distrust(folder, os.environ)
    return folder if usable else ""
