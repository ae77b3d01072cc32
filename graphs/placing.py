"""Recorded call paths -> vertices of the structure, for all processes of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

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
    lib_dirs = list(dict.fromkeys(folder for record in data.records for folder in library_folders(record)))
    programs = _programs(data, lib_dirs)
    psg, parse = front_end(programs, lib_dirs)
    placer = Placer(psg, parse, lib_dirs=lib_dirs, own=programs)
    frames = _Frames(placer)
    size = int(data.path_first[-1])
    vertex, line, waits = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_)
    placed: dict[object, tuple[IntArray, IntArray, npt.NDArray[np.bool_]]] = {}
    # Ranks first: what they add comes before what only their children do.
    for process in sorted(range(len(data.records)), key=lambda process: not data.is_own[process]):
        record = data.records[process]
        rows = slice(int(data.path_first[process]), int(data.path_first[process + 1]))
        # Ranks that did the same, call for call, have the same tree.
        key = _tree_key(record)
        if key not in placed:
            tree, waiting = frames.of(record)
            placed[key] = (*placer.place_tree(list(record.paths.parent), tree)[:2], waiting)
        vertex[rows], line[rows], waits[rows] = placed[key]
    return psg, Places(vertex, line, waits), placer


def _tree_key(record: ProcessRecord) -> object:
    """Equal for records with equal call paths."""
    columns = (column.tobytes() for column in (record.paths.parent, record.paths.code, record.paths.lasti))
    return (*columns, *record.codes.values(), record.meta.get("cwd", ""))


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
    """Decodes the innermost frame of every path; equal frames of all processes are one object.

    Only the user's own code is looked up in line tables: most frames are a library's, and its lines tell nothing.
    """

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._known: dict[tuple[Code, str], _CodeFrames] = {}

    def of(self, record: ProcessRecord) -> tuple[list[FrameRef], npt.NDArray[np.bool_]]:
        """The frames ``[paths]``, and whether each is library code that waits for others."""
        cwd = record.meta.get("cwd", "")
        codes = {number: self._code(code, cwd) for number, code in record.codes.items()}
        lost = _CodeFrames(None, _LOST, True, False)
        steps = np.array(record.paths.code, np.int64) << 32 | np.array(record.paths.lasti, np.int64)
        unique, inverse = np.unique(steps, return_inverse=True)
        chosen = [(codes.get(step >> 32, lost), step & 0xFFFFFFFF) for step in unique.tolist()]
        frames = [code.frame(lasti) for code, lasti in chosen]
        waits = np.array([code.waits for code, _ in chosen], np.bool_)
        inverse = inverse.reshape(-1)
        return [frames[row] for row in inverse.tolist()], waits[inverse]

    def _code(self, code: Code, cwd: str) -> _CodeFrames:
        key = (code._replace(id=0), "" if os.path.isabs(code.filename) else cwd)
        found = self._known.get(key)
        if found is None:
            frame = FrameRef(_absolute(code.filename, cwd), code.name, code.first_line, code.first_line)
            library = self._placer.is_library(frame)
            found = _CodeFrames(code, frame, library, library and waits_for_others(frame.filename))
            self._known[key] = found
        return found


@dataclass(slots=True)
class _CodeFrames:
    """Frames of one code object, by instruction."""

    code: Code | None
    anywhere: FrameRef
    library: bool
    waits: bool
    known: dict[int, FrameRef] = field(default_factory=dict)

    def frame(self, lasti: int) -> FrameRef:
        if self.library or self.code is None:
            return self.anywhere
        found = self.known.get(lasti)
        if found is None:
            position = self.code.position(lasti)
            found = self.known[lasti] = self.anywhere._replace(line=position.line, column=position.column)
        return found


def _absolute(file: str, cwd: str) -> str:
    if not file or file.startswith(("<", "[")) or os.path.isabs(file) or not cwd:
        return file
    return os.path.normpath(os.path.join(cwd, file))


def _programs(data: Gathered, lib_dirs: list[str]) -> list[str]:
    """Files that the ranks ran: where the first module outside of the libraries is at the top of paths."""
    libraries = tuple(folder.rstrip(os.sep) + os.sep for folder in lib_dirs)
    found: dict[str, None] = {}
    for process in np.flatnonzero(data.is_own).tolist():
        record = data.records[process]
        cwd = record.meta.get("cwd", "")
        if record.meta.get("program"):  # native code: its debug information names the sources
            found[record.meta["program"]] = None
        kinds: dict[int, tuple[bool, str]] = {0: (True, "")}
        for number, code in record.codes.items():
            file = _absolute(code.filename, cwd)
            library = file.startswith(("<", "[", *libraries))
            kinds[number] = library, file if code.name == "<module>" and not library else ""
        # Whether there is nothing but library code from the root to the path.
        below = [True] * len(record.paths)
        for path, (parent, number) in enumerate(zip(record.paths.parent, record.paths.code, strict=True)):
            if below[parent]:
                below[path], file = kinds.get(number, (True, ""))
                if file:
                    found[file] = None
            else:
                below[path] = False
    return list(found)
