"""What was found in translation units, kept on disk: parsing C++ takes seconds, and sources seldom change.

An entry's key is everything that the result depends on: the source, the flags, the compiler library and the format.
The headers that went into it are listed in it, the user's with their content's hash and the system's with size and
time, and checked when it is read. Where entries lie and how they are written is said in
:mod:`scalana.runtime.user_cache`.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable
from typing import Any

from scalana.runtime import user_cache

MOST_ENTRIES = 2000
"""Entries beyond which the oldest are removed."""


def key_of(parts: Iterable[str | bytes]) -> str:
    """A key for what depends on these parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def stamp(path: str, system: bool) -> str:
    """What a header is recognised by; "" if it cannot be read."""
    try:
        if system:
            status = os.stat(path)
            return f"{status.st_size}-{status.st_mtime_ns}"
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


class Cache:
    """Results by key.

    Args:
        folder: where; None for the user's own.
        kind: of what is kept, where it is the user's own.
    """

    def __init__(self, folder: str | None = None, kind: str = user_cache.SOURCES) -> None:
        self.folder = user_cache.folder_of(kind, os.environ) if folder is None else folder
        self._stamps: dict[tuple[str, bool], str] = {}

    def get(self, key: str) -> dict[str, Any] | None:
        """What was kept, None if there is nothing or a header has changed since."""
        try:
            data = json.loads(zlib.decompress(user_cache.kept(self._path(key)) or b""))
            if all(self._stamp(path, system) == known for path, system, known in data["headers"]):
                result: dict[str, Any] = data["result"]
                return result
        except (ValueError, KeyError, TypeError, zlib.error):
            pass
        return None

    def put(self, key: str, result: dict[str, Any], headers: Iterable[tuple[str, bool]] = ()) -> bool:
        """Keep a result, and say whether that worked."""
        stamps = [(path, system, self._stamp(path, system)) for path, system in headers]
        data = zlib.compress(json.dumps({"headers": stamps, "result": result}).encode(), 1)
        if not user_cache.keep(self._path(key), data):
            return False
        self._prune()
        return True

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key[:2], key[2:])

    def _stamp(self, path: str, system: bool) -> str:
        known = self._stamps.get((path, system))
        if known is None:
            known = self._stamps[path, system] = stamp(path, system)
        return known

    def _prune(self) -> None:
        """Remove the oldest entries where there are too many; about every hundredth time."""
        if os.urandom(1)[0] > 2:
            return
        entries: list[tuple[float, str]] = []
        for base, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(base, name)
                try:
                    entries.append((os.stat(path).st_mtime, path))
                except OSError:
                    continue
        for _, path in sorted(entries)[: max(0, len(entries) - MOST_ENTRIES)]:
            user_cache.remove(path)
