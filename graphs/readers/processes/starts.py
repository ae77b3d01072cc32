"""Ranks that other ranks start: by whom, and at which line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from scalana.graphs.readers.processes.launches import parent_of, process_of
from scalana.runtime.record.format import ProcessRecord


@dataclass(frozen=True, slots=True)
class Start:
    """How a rank comes to be."""

    by: int
    """The rank that starts it."""
    file: str
    line: int
    function: str


def starts_of(records: Sequence[ProcessRecord], ranks: Sequence[int], is_own: Sequence[bool]) -> dict[int, Start]:
    """The ranks that others start, where these recorded the line, by rank. ``ranks`` and ``is_own`` are those of
    records: their ranks, and whether they are these themselves, not helpers of theirs."""
    parents = {process_of(record): (record, rank) for record, rank in zip(records, ranks, strict=True)}
    found = {}
    for record, rank, own in zip(records, ranks, is_own, strict=True):
        parent, by = parents.get(parent_of(record), (None, rank))
        frames = parent.meta.get(f"started:{record.meta.get('pid')}", "") if parent is not None else ""
        if own and by != rank and parent is not None and frames:
            found[rank] = _start(by, frames, parent.meta.get("lib_dirs", ""))
    return found


def _start(by: int, frames: str, lib_dirs: str) -> Start:
    """From the frames of a start, innermost first: the first that is of no library, or else the last."""
    libraries = tuple(folder for folder in lib_dirs.split(os.pathsep) if folder)
    parts = [frame.split("\t", 2) for frame in frames.split("\n")]
    own = [part for part in parts if not part[2].startswith(("<", *libraries))]
    line, function, file = (own or parts[-1:])[0]
    return Start(by, file, int(line), function)
