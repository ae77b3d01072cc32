"""Readable forms of mangled names, from the C++ runtime where the machine has one.

>>> demangled("main")
'main'
>>> demangled("_ZN4mesh6refineEi").partition("(")[0]
'mesh::refine'
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache

_RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")
"""Libraries with ``__cxa_demangle`` (Itanium C++ ABI, 3.4)."""


def demangled(name: str) -> str:
    """The name of a C++ function with its parameters; names that are not mangled as they are."""
    if not name.startswith("_Z"):
        return name
    runtime = _runtime()
    return (runtime(name) if runtime else None) or _nested(name) or name


@cache
def _runtime() -> Callable[[str], str | None] | None:
    """What the C++ runtime makes of a name, None where there is no such library."""
    for library in _RUNTIMES:
        with suppress(OSError, AttributeError):
            return _demangler(ctypes.CDLL(library))
    return None


def _demangler(runtime: ctypes.CDLL) -> Callable[[str], str | None]:
    demangle, free = runtime.__cxa_demangle, ctypes.CDLL(None).free
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.restype, free.argtypes = None, [ctypes.c_void_p]

    def readable(name: str) -> str | None:
        text = demangle(name.encode(), None, None, None)
        if not text:
            return None
        try:
            return ctypes.string_at(text).decode(errors="replace")
        finally:
            free(text)

    return readable


def _nested(name: str) -> str:
    """Names and nested names without templates, where no runtime tells."""
    match = re.match(r"_Z(?:L|K)?(N[VK]*)?((?:\d+)?.*)", name)
    assert match is not None
    rest, parts = match.group(2), []
    while rest[:1].isdigit():
        digits = re.match(r"\d+", rest)
        assert digits is not None
        length = int(digits.group(0))
        parts.append(rest[digits.end() : digits.end() + length])
        rest = rest[digits.end() + length :]
        if match.group(1) is None:
            break
    return "::".join(part.replace("_GLOBAL__N_1", "(anonymous namespace)") for part in parts)
