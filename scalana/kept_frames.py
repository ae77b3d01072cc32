"""Functions and lines of native code, kept in the run folder: other machines do not have the binaries of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from scalana.runtime.record import layout

if TYPE_CHECKING:
    from scalana.frontend.cpp.binary.symbols import NativeFrame

Module = tuple[str, str]
"""Path and build id."""


class KeptFrames:
    """What is known of native code of a run, by module and offset.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: str) -> None:
        self._file = layout.frames_file(folder)
        self._known: dict[Module, dict[int, list[Any]]] = {}
        self._is_new = False
        try:
            with open(self._file, encoding="utf-8") as file:
                for path, build_id, frames in json.load(file)["modules"]:
                    self._known[str(path), str(build_id)] = {int(offset): rows for offset, rows in frames.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # there is none, or it is damaged
            self._known = {}

    def learn(self, module: Module, frames: Mapping[int, Sequence[NativeFrame]]) -> None:
        """What the binary itself says."""
        rows = {offset: [list(astuple(frame)) for frame in found] for offset, found in frames.items()}
        known = self._known.setdefault(module, {})
        self._is_new = self._is_new or any(known.get(offset) != found for offset, found in rows.items())
        known.update(rows)

    def frames(self, module: Module, offsets: Collection[int]) -> dict[int, list[NativeFrame]]:
        """What was kept."""
        from scalana.frontend.cpp.binary.symbols import NativeFrame

        known = self._known.get(module, {})
        try:
            return {offset: [NativeFrame(*row) for row in known[offset]] for offset in offsets if offset in known}
        except TypeError:  # by another version
            return {}

    def write(self) -> None:
        """Keep what is new, if the folder can be written to."""
        if not self._is_new:
            return
        modules = [
            [path, build_id, {str(offset): rows for offset, rows in sorted(frames.items())}]
            for (path, build_id), frames in sorted(self._known.items())
        ]
        try:
            layout.write_text(self._file, json.dumps({"modules": modules}) + "\n")
        except OSError:
            return
        self._is_new = False


def keep(folder: str | os.PathLike[str]) -> None:
    """Look up all native code of a run, and keep what is found: for a run that is analysed elsewhere.

    Raises:
        RecordError: none of its records can be read.
    """
    from scalana.api import symbols
    from scalana.graphs.readers.folder.moved import NOT_MOVED
    from scalana.graphs.readers.folder.native_frames import native_offsets, source_frames
    from scalana.graphs.readers.folder.run_folder import RunFolder

    kept = KeptFrames(os.fspath(folder))
    wanted = native_offsets(RunFolder(folder).processes())
    source_frames(wanted, lambda *module: symbols([], kept, NOT_MOVED, *module))
    kept.write()
