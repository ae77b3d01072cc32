"""Recorded call paths -> vertices of the structure, for all processes of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from scalana.graphs.callpaths import FrameRef, Placer
from scalana.graphs.gather import Gathered
from scalana.graphs.own_work import Places
from scalana.graphs.psg import PSG
from scalana.graphs.structure import FileStructure
from scalana.graphs.timeline import IntArray
from scalana.runtime.record_format import Code, ProcessRecord

Parse = Callable[[str], FileStructure | None]
"""Gives the structure of a source file, None if there is none to be had."""
FrontEnd = Callable[[Sequence[str], Sequence[str]], tuple[PSG, Parse]]
"""From the program files and the library folders of a run to its static structure, and to a parser of more files."""

_LOST = FrameRef("<lost>", "<lost>", 0, 0)
_WAITING_FILES = ("threading.py", "queue.py", "selectors.py", "subprocess.py")
_WAITING_FOLDERS = ("/multiprocessing/", "/concurrent/futures/", "/torch/utils/data/")


def no_front_end(programs: Sequence[str], lib_dirs: Sequence[str]) -> tuple[PSG, Parse]:
    """Functions alone, as sampled paths show them: no source is read."""
    return PSG(" ".join(programs)), lambda file: None


def place_paths(data: Gathered, front_end: FrontEnd) -> tuple[PSG, Places, Placer]:
    """Place the paths of all processes; paths of different ranks through the same code share their vertices."""
    frames = _Frames()
    trees = [frames.of(record) for record in data.records]
    lib_dirs = list(dict.fromkeys(folder for record in data.records for folder in library_folders(record)))
    programs = _programs(data, trees, lib_dirs)
    psg, parse = front_end(programs, lib_dirs)
    placer = Placer(psg, parse, lib_dirs=lib_dirs, own=programs)
    size = int(data.path_first[-1])
    vertex, line, waits = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_)
    # Ranks first: what they add comes before what only their children do.
    for process in sorted(range(len(trees)), key=lambda process: not data.is_own[process]):
        tree, parents = trees[process], data.records[process].paths.parent
        rows = slice(int(data.path_first[process]), int(data.path_first[process]) + len(tree))
        vertex[rows], line[rows], _ = placer.place_tree(list(parents), tree)
        waits[rows] = [placer.is_library(frame) and waits_for_others(frame.filename) for frame in tree]
    return psg, Places(vertex, line, waits), placer


def call_vertices(placer: Placer, places: Places, path: IntArray, operation: IntArray) -> IntArray:
    """The communication vertex of every call, from its path and operation."""
    width = int(operation.max(initial=0)) + 1
    keys, inverse = np.unique(path * width + operation, return_inverse=True)
    vertices = [
        placer.comm_vertex(int(places.vertex[key // width]), key % width, int(places.line[key // width]))
        for key in keys.tolist()
    ]
    return np.array(vertices, np.int64)[inverse.reshape(-1)] if len(keys) else np.zeros(0, np.int64)


def library_folders(record: ProcessRecord) -> list[str]:
    """Folders of code that is not the user's own, as a process saw them."""
    return [folder for folder in record.meta.get("lib_dirs", "").split(os.pathsep) if folder]


def waits_for_others(file: str) -> bool:
    """Whether library code in a file, at the end of a path, waits for other threads or processes."""
    path = file.replace("\\", "/")
    return path.rsplit("/", 1)[-1] in _WAITING_FILES or any(folder in path for folder in _WAITING_FOLDERS)


class _Frames:
    """Decodes the innermost frame of every path; equal frames of all processes are one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[Code, str], dict[int, FrameRef]] = {}

    def of(self, record: ProcessRecord) -> list[FrameRef]:
        cwd = record.meta.get("cwd", "")
        by_code = {number: (code, self._decoded(code, cwd)) for number, code in record.codes.items()}
        result = []
        for number, lasti in zip(record.paths.code, record.paths.lasti, strict=True):
            found = by_code.get(number)
            if found is None:
                result.append(_LOST)
                continue
            code, decoded = found
            frame = decoded.get(lasti)
            if frame is None:
                position = code.position(lasti)
                file = _absolute(code.filename, cwd)
                frame = FrameRef(file, code.name, code.first_line, position.line, position.column)
                decoded[lasti] = frame
            result.append(frame)
        return result

    def _decoded(self, code: Code, cwd: str) -> dict[int, FrameRef]:
        return self._known.setdefault((code._replace(id=0), "" if os.path.isabs(code.filename) else cwd), {})


def _absolute(file: str, cwd: str) -> str:
    if not file or file.startswith("<") or os.path.isabs(file) or not cwd:
        return file
    return os.path.normpath(os.path.join(cwd, file))


def _programs(data: Gathered, trees: list[list[FrameRef]], lib_dirs: list[str]) -> list[str]:
    """Files that the ranks ran: where the first module outside of the libraries is at the top of paths."""
    libraries = tuple(folder.rstrip(os.sep) + os.sep for folder in lib_dirs)
    found: dict[str, None] = {}
    for process in np.flatnonzero(data.is_own).tolist():
        tree, parents = trees[process], data.records[process].paths.parent
        below_library = [True] * len(tree)  # whether there is nothing but library code up to and with the path
        for path in range(1, len(tree)):
            frame = tree[path]
            library = frame.filename.startswith(("<", *libraries))
            if below_library[parents[path]] and not library and frame.qualname == "<module>":
                found[frame.filename] = None
            below_library[path] = below_library[parents[path]] and library
    return list(found)
