"""Functions and lines of native code, kept in the run folder: other machines do not have the binaries of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

from scalana.runtime.record import layout

if TYPE_CHECKING:
    from scalana.frontend.cpp.binary.symbols import NativeFrame
    from scalana.graphs.readers.folder.moved_sources import Moved

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


def symbols(
    changed: list[str], kept: KeptFrames, moved: Moved, path: str, build_id: str, offsets: Collection[int]
) -> Mapping[int, Sequence[NativeFrame]]:
    """Functions and lines at offsets of a program or library.

    Where the file is gone, or another one by now, those that were kept in the run folder; without any it is added to
    ``changed``, if it is not the system's, MPI's or ours.
    """
    from scalana.frontend.cpp.binary import debug_files
    from scalana.frontend.cpp.binary.elf import BinaryError
    from scalana.frontend.cpp.binary.frames import frames_at
    from scalana.graphs.readers.folder.native_frames import is_foreign

    here = moved.path(path)
    same = debug_files.build_id(here) == build_id if build_id else os.path.isfile(here)
    found: Mapping[int, Sequence[NativeFrame]] = {}
    if same:
        try:
            # Of the system's libraries, MPI's and ours nothing but names is used: their debug information is large.
            found = frames_at(here, offsets, debug=not is_foreign(path))
        except BinaryError:
            same = False
    if same:
        kept.learn((path, build_id), found)
    else:
        found = kept.frames((path, build_id), offsets)
        if not found and build_id and path.startswith("/") and not is_foreign(path):  # not the kernel's own ([vdso])
            changed.append(path)
    return {offset: [replace(one, file=moved.path(one.file)) for one in frames] for offset, frames in found.items()}


def keep(folder: str | os.PathLike[str]) -> None:
    """Look up all native code of a run, and keep what is found: for a run that is analysed elsewhere.

    Raises:
        RecordError: none of its records can be read.
    """
    from scalana.graphs.readers.folder.moved_sources import NOT_MOVED
    from scalana.graphs.readers.folder.native_frames import native_offsets, source_frames
    from scalana.graphs.readers.folder.run_folder import RunFolder

    kept = KeptFrames(os.fspath(folder))
    wanted = native_offsets(RunFolder(folder).processes())
    source_frames(wanted, lambda *module: symbols([], kept, NOT_MOVED, *module))
    kept.write()
