"""Frames at addresses of programs, remembered on disk: debug information is read once for each address."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import astuple
from functools import lru_cache

from scalana.frontend.cpp import names
from scalana.frontend.cpp.binary import dies, elf, line_table, symbols
from scalana.frontend.cpp.binary.debug_files import build_id, debug_file
from scalana.frontend.cpp.binary.symbols import NativeFrame, Symbols
from scalana.frontend.cpp.cache import Cache, key_of
from scalana.runtime import user_cache

MOST_ADDRESSES = 50_000
"""Addresses of one program beyond which those of earlier runs are forgotten."""
Frames = dict[int, tuple[NativeFrame, ...]]


def frames_at(path: str, addresses: Collection[int], *, debug: bool = True, cache: Cache | None = None) -> Frames:
    """The frames at addresses of a program or library, as :meth:`Symbols.frames` tells them.

    Any number of processes may ask at once: each writes what it has learnt as a whole, and the last one's is kept.

    Args:
        path: the program, wherever its debug information is.
        addresses: in the file.
        debug: whether lines are of interest, and not only names.
        cache: of results; None to use the user's own.

    Raises:
        BinaryError: the file cannot be read.
    """
    store = Cache(kind=user_cache.FRAMES) if cache is None else cache
    found = debug_file(path)
    key = _key(path, found, debug)
    known = _known(store, key)
    new = [address for address in addresses if address not in known]
    if new:
        with Symbols(found, debug=debug) as resolver:
            learnt = {address: resolver.frames(address) for address in new}
        known = (
            {**known, **learnt}
            if len(known) + len(learnt) <= MOST_ADDRESSES
            else learnt | {address: known[address] for address in addresses if address in known}
        )
        if key:
            store.put(key, {str(address): [astuple(frame) for frame in frames] for address, frames in known.items()})
    return {address: known[address] for address in addresses}


def _known(store: Cache, key: str) -> Frames:
    kept = store.get(key) if key else None
    try:
        return {
            int(address): tuple(NativeFrame(*frame) for frame in frames) for address, frames in (kept or {}).items()
        }
    except (TypeError, ValueError, AttributeError):  # damaged
        return {}


def _key(path: str, found: str, debug: bool) -> str:
    """What a program is recognised by: its build id, or else its content. Empty if it cannot be read."""
    try:
        state = os.stat(found)
        identity = build_id(path)
        if not identity:
            with open(found, "rb") as file:
                identity = hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""
    return key_of([_code(), path, found, str(debug), identity, f"{state.st_size}-{state.st_mtime_ns}"])


@lru_cache(maxsize=1)
def _code() -> bytes:
    """What the answers depend on besides the program: the code that reads it."""
    digest = hashlib.sha256()
    for module in (dies, elf, line_table, names, symbols):
        try:
            with open(str(module.__file__), "rb") as file:
                digest.update(file.read())
        except OSError:
            digest.update(os.urandom(16))
    return digest.digest()
