"""Runs whose sources are elsewhere by now: copied from another machine, or moved."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scalana.runtime.record.format import Decoder, ProcessRecord


@dataclass(frozen=True, slots=True)
class Moved:
    """Which folders of a run are to be read from others."""

    folders: tuple[tuple[str, str], ...] = ()
    """The folder where the job ran, and the one that holds its content here; the first that fits counts."""

    def path(self, path: str) -> str:
        """Where a file of the run is here."""
        for old, new in self.folders:
            if path == old or path.startswith(old.rstrip("/") + "/"):
                return posixpath.join(new, path[len(old) :].lstrip("/")).rstrip("/")
        return path

    def paths(self, joined: str) -> str:
        """The same of several paths, joined as they are in ``PATH``."""
        return ":".join(self.path(path) for path in joined.split(":"))

    def decoder(self, decode: Decoder) -> Decoder:
        """One that finds code at its new place."""
        if not self.folders:
            return decode

        def moved(path: str, code_type: Callable[..., Any], *rest: Any) -> dict[str, Any]:
            return decode(path, lambda file, *values: code_type(self.path(file), *values), *rest)

        return moved

    def record(self, record: ProcessRecord) -> ProcessRecord:
        """A record whose code was found at its new place already, with all else that it says of folders."""
        if not self.folders:
            return record
        meta = {key: self.paths(value) if key in ("cwd", "lib_dirs") else value for key, value in record.meta.items()}
        return replace(record, meta=meta)


NOT_MOVED = Moved()
"""A run that is read where it was recorded."""
