"""Recorded call paths -> vertices of the structure, for all processes of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.attribution.by_value import files_by_value, is_unpickled
from scalana.graphs.attribution.callpaths import FrameRef, Placer
from scalana.graphs.attribution.compiled import unfold
from scalana.graphs.attribution.launchers import STARTED
from scalana.graphs.attribution.library_calls_split import split_library_calls
from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.folder.models import RecordedModels
from scalana.graphs.structure.psg import PSG
from scalana.graphs.structure.source_tree import FileStructure
from scalana.runtime.record.format import NO_LINE_TABLE, Code, ProcessRecord

Parse = Callable[[str], FileStructure | None]
"""Gives the structure of a source file, None if there is none to be had."""
FrontEnds = Callable[[Sequence[str], Sequence[str], Collection[str]], tuple[PSG, Parse]]
"""From the program files and the library folders of a run, and the files in which it was seen, to its static structure,
and to a parser of more files."""
MakePlacer = Callable[..., Placer]
"""Makes a :class:`~scalana.graphs.attribution.callpaths.Placer` of what that takes, or gives one that was made of the
same."""

_LOST = FrameRef("<lost>", "<lost>", 0, 0)
_WAITING_FILES = ("threading.py", "queue.py", "selectors.py", "subprocess.py")
_WAITING_FOLDERS = ("/multiprocessing/", "/multiprocess/", "/loky/", "/concurrent/futures/", "/torch/utils/data/")
_STARTS = re.compile(r"/(multiprocessing|multiprocess|loky/backend|billiard)/|^<frozen importlib")
"""What a line of code that starts a process may call: libraries that start processes, and their import."""
_PROXY = "<proxy>"
"""Stands for the file of the methods of proxies, which ``multiprocessing.managers`` makes from text."""
_CALLED_BY_PROXY = "proxy "
"""Stands in a record's metadata before each method that its process called by a proxy."""
_SPINNING = re.compile(r"<(libgomp|libiomp5|libomp)[-.\w]*>")
"""Runtimes of OpenMP: whoever is in there waits for the other threads of its team."""
_RESTING = frozenset(
    """
    accept connect recv recvfrom recvmsg send sendmsg sendto
    open openat creat close rename renameat unlink unlinkat truncate ftruncate fallocate posix_fallocate flock lockf
    read pread readv preadv preadv2 write pwrite writev pwritev pwritev2 sendfile copy_file_range
    fsync fdatasync sync syncfs sync_file_range msync
    poll ppoll select pselect epoll_wait epoll_pwait pause sigwait sigtimedwait
    sleep usleep nanosleep clock_nanosleep wait waitpid wait4 waitid
    """.split()
)
"""Functions of the C library that ask the system for what takes time."""


def no_front_end(programs: Sequence[str], lib_dirs: Sequence[str], seen: Collection[str]) -> tuple[PSG, Parse]:
    """Functions alone, as sampled paths show them: no source is read."""
    return PSG(" ".join(programs)), lambda file: None


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the paths of a run lie."""

    psg: PSG
    places: Places
    placer: Placer
    kernel: IntArray
    """Row in the kernels of compiled code that a path lies in, -1 for none ``[paths]``."""


def place_paths(
    data: Gathered, front_end: FrontEnds, models: RecordedModels, make_placer: MakePlacer = Placer
) -> Placed:
    """Place the paths of all processes; paths of different ranks through the same code share their vertices."""
    lib_dirs = list(dict.fromkeys(folder for record in data.records for folder in library_folders(record)))
    programs = [file for file in _programs(data, lib_dirs) if file not in models.wrappers]
    seen = {file for _, file in data.tree.codes[1:]} - models.wrappers.keys() | models.compiled_files()
    psg, parse = front_end(programs, lib_dirs, seen)
    placer = make_placer(psg, parse, lib_dirs=lib_dirs, own=programs, models=models.files())
    tree = data.tree
    known = [*programs, *(vertex.place.file for vertex in psg.vertices), *seen]
    own = [file for file in dict.fromkeys(known) if not placer.is_library(_LOST._replace(filename=file))]
    made_up = _proxies(data) | dict.fromkeys(_starting(tree), f"<{STARTED}>")
    by_value = files_by_value(tree.codes[1:], own, parse)
    frames, kinds, library = _frames(tree, placer, models.wrappers, by_value, made_up)
    kernel = np.full(len(frames), -1, np.int64)
    if models.wrappers:
        unfolded = unfold(tree, frames, library, models.kernels(), placer.parse)
        vertex, line, _ = placer.place_tree(unfolded.parents, unfolded.frames)
        vertex, line, kernel = vertex[unfolded.at], line[unfolded.at], unfolded.kernel
    else:
        vertex, line, _ = placer.place_tree(tree.parent.tolist(), frames)
    vertex = split_library_calls(placer, tree, library, vertex, line, data.events.path)
    return Placed(psg, Places(vertex, line, **kinds), placer, kernel)


def call_vertices(placer: Placer, places: Places, path: IntArray, operation: IntArray) -> IntArray:
    """The communication vertex of every call, from its path and operation."""
    width = int(operation.max(initial=0)) + 1
    keys, inverse = np.unique(path.astype(np.int64) * width + operation, return_inverse=True)
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


def spins_for_others(file: str) -> bool:
    """Whether native code of a module, at the end of a path, waits for other threads though it runs."""
    return _SPINNING.fullmatch(file) is not None


def rests_inside(function: str) -> bool:
    """Whether a native function of a library is one of the system's in which threads rest."""
    name = function.lstrip("_").partition("@")[0].removesuffix("_nocancel")
    return name.removesuffix("64") in _RESTING


def _frames(
    tree: CallTree,
    placer: Placer,
    wrappers: Container[str],
    by_value: Mapping[tuple[str, int], str],
    made_up: Mapping[int, str],
) -> tuple[list[FrameRef], dict[str, BoolArray], list[bool]]:
    """The innermost frame of every path ``[paths]``, of what kind each is, by the name that
    :class:`~scalana.graphs.samples.between.Places` gives it, and whether it is library code.

    Only the code of the user's own, of models and of ``wrappers`` is looked up in line tables: most frames are a
    library's, and its lines tell nothing. ``by_value`` are the files of code that came by value, ``made_up`` what
    stands for the file of code that libraries make from text, by its row.
    """
    codes = [_CodeFrames(None, _LOST, True, False, False, False)]
    for number, (code, named) in enumerate(tree.codes[1:], 1):
        file = by_value.get((code.name, code.first_line), named) if is_unpickled(named) else named
        file = made_up.get(number, file)
        frame = FrameRef(file, code.name, code.first_line, code.first_line)
        library = placer.is_library(frame)
        lines = not library or placer.is_model_code(file) or file in wrappers
        waits = library and waits_for_others(file)
        codes.append(_CodeFrames(code, frame, library, waits, spins_for_others(file), lines))
    of_path = tree.code.tolist()
    frames = [codes[of].frame(lasti) for of, lasti in zip(of_path, tree.lasti.tolist(), strict=True)]
    kinds = {
        name: np.array([getattr(code, name) for code in codes], np.bool_)[tree.code]
        for name in ("waits", "spins", "computes", "native", "calls_rest")
    }
    return frames, kinds, [codes[of].library for of in of_path]


def _starting(tree: CallTree) -> set[int]:
    """Rows of the lines of code by which libraries start processes (``python -c``)."""
    lines = {row for row, (code, file) in enumerate(tree.codes) if file == "<string>" and code.name == "<module>"}
    if not lines:
        return lines
    outermost = np.flatnonzero(np.isin(tree.code, list(lines)) & (tree.parent == 0))
    called = np.flatnonzero(np.isin(tree.parent, outermost) & (tree.parent > 0))
    by_line: dict[int, set[str]] = {}
    for parent, code in zip(tree.parent[called].tolist(), tree.code[called].tolist(), strict=True):
        by_line.setdefault(int(tree.code[parent]), set()).add(tree.codes[code][1].replace("\\", "/"))
    return {row for row, files in by_line.items() if all(map(_STARTS.search, files))}


def _proxies(data: Gathered) -> dict[int, str]:
    """What stands for the file of methods of proxies, by their rows: processes say which they called."""
    prefix = _CALLED_BY_PROXY
    called = {key.removeprefix(prefix) for record in data.records for key in record.meta if key.startswith(prefix)}
    codes = enumerate(data.tree.codes)
    return {row: _PROXY for row, (code, file) in codes if file == "<string>" and code.name in called}


@dataclass(slots=True)
class _CodeFrames:
    """Frames of one code object, by instruction."""

    code: Code | None
    anywhere: FrameRef
    library: bool
    waits: bool
    spins: bool
    has_lines: bool
    """Whether its lines tell anything."""
    known: dict[int, FrameRef] = field(default_factory=dict)

    @property
    def computes(self) -> bool:
        """Whether it is native code of the user's own."""
        return self.native and not self.library

    @property
    def calls_rest(self) -> bool:
        """Whether it is a function of the system's in which threads rest."""
        return self.native and self.library and self.code is not None and rests_inside(self.code.name)

    @property
    def native(self) -> bool:
        """Whether it is native code."""
        return self.code is not None and self.code.minor == NO_LINE_TABLE

    def frame(self, lasti: int) -> FrameRef:
        if not self.has_lines or self.code is None:
            return self.anywhere
        found = self.known.get(lasti)
        if found is None:
            position = self.code.position(lasti)
            found = self.known[lasti] = self.anywhere._replace(
                line=position.line, column=position.column, inside=self.code.minor == NO_LINE_TABLE
            )
        return found


def _programs(data: Gathered, lib_dirs: list[str]) -> list[str]:
    """Files that the ranks ran: where the first module outside of the libraries is at the top of paths."""
    libraries = tuple(folder.rstrip(os.sep) + os.sep for folder in lib_dirs)
    found: dict[str, None] = {}
    for process in np.flatnonzero(data.is_own).tolist():
        meta = data.records[process].meta
        for module in (meta.get("program", ""), *meta.get("modules", "").split(os.pathsep)):
            if module:  # native code: its debug information names the sources
                found[module] = None
    tree = data.tree
    kinds: list[tuple[bool, str]] = [(True, "")]
    for code, file in tree.codes[1:]:
        library = file.startswith(("<", "[", *libraries))
        kinds.append((library, file if code.name == "<module>" and not library else ""))
    # Whether there is nothing but library code from the root to the path.
    below = [True] * data.own_paths
    of_ranks = slice(0, data.own_paths)
    for path, (parent, number) in enumerate(
        zip(tree.parent[of_ranks].tolist(), tree.code[of_ranks].tolist(), strict=True)
    ):
        if below[parent]:
            below[path], file = kinds[number]
            if file:
                found[file] = None
        else:
            below[path] = False
    return list(found)
