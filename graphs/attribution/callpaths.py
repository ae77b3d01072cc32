"""Where sampled call paths lie in the structure.

A call path is a list of frames from the outermost to the innermost. :class:`Placer` walks the graph from the root, one
frame at a time: under the call site of the frame before, the vertex of the function; in it, the innermost vertex that
holds the frame's line (and column, where known). What the source does not tell extends the graph, so that no sample is
ever dropped:

* a function that was called where the source does not show it (through a table, a parameter, a decorator, C code)
  becomes a function vertex below a call vertex at that place, with its own structure from its file;
* a chain of library frames is one call vertex, named for the outermost library function that was entered, and the
  user's functions that it calls back hang below it, unless the source shows them (``model(x)`` leads to
  ``Net.forward`` through several frames of the library);
* what ``torch.compile`` does when a line is run for the first time is a call vertex of its own;
* the code of a model in a library is a chain of such call vertices, one for each line that calls the next;
* a function that is on the path already is gone back to, as the source's own recursion is;
* a path that begins in a library (a thread's bootstrap) begins with a call vertex below the root;
* code without a source (``<string>``) is a function vertex without a structure, or a library's if that compiled it.

What a frame adds depends on the path to it alone, never on what was placed before, so that the graph is the same, up
to the numbering of vertices, in whatever order the ranks' paths come.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.attribution.by_value import UNPICKLED
from scalana.graphs.attribution.called import name_of_call
from scalana.graphs.attribution.launchers import BETWEEN_CALLS, LOOPS, NEXT_CALL, STARTERS
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.structure.source_tree import (
    Body,
    FileStructure,
    FunctionStructure,
    holds,
    instantiate,
    settle,
    unresolved,
)
from scalana.graphs.structure.source_view import SourceView
from scalana.runtime.operations import BY_CODE

CLOSURE_DEPTH = 8
"""A closure (the wrapper of a decorator), or a line of a model's, may be inside itself this often before it counts as
recursion."""
_INNER = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
COMPILER = "torch.compile"
"""Name of the vertices of what compiles."""
_COMPILERS = ("/torch/_dynamo/convert_frame.py", "/torch/_inductor/compile_fx.py")
"""What compiles a function of the user's when that is called: it is no part of what the call does else."""
_WRAPPER = re.compile(r"[/\\][a-z2-7]{2}[/\\]c[a-z2-7]{51}\.py$")
"""Files that inductor writes, called by the hash of what is in them."""
_GENERATED = frozenset("__init__ __new__ __eq__ __repr__ __hash__ __lt__ __setattr__ __delattr__".split())


_WITHOUT_FILE = ("<string>", "<stdin>", "<ipython", "<cell", "<notebook", "<unknown>", UNPICKLED)
"""What stands for the file in code of the user's own that has none."""


class FrameRef(NamedTuple):
    """One frame of a call path."""

    filename: str
    """As the code object has it."""
    qualname: str
    """Qualified name; the bare name where the interpreter has no other (Python 3.10)."""
    firstlineno: int
    line: int
    column: int = -1
    """Offset of the first byte of the expression that runs, -1 where unknown."""
    inside: bool = False
    """Whether the column is that of any byte of the expression, as compilers of native code have it."""


class _State(NamedTuple):
    """Where a frame is. Frames that are in the same place share one, however they came there."""

    vertex: int
    """Where the time of the frame itself belongs."""
    function: int
    """Function vertex of the innermost frame of the user's, 0 if there is none."""
    user_vertex: int
    line: int
    """Line of the innermost frame of the user's, 0 if there is none."""
    column: int
    """Of the call that its next frame is of, -1 where that is not known."""
    inside: bool
    """Whether it is only known to lie inside of that call; see :class:`FrameRef`."""
    chain: str
    """Of a library frame: the outermost function of the chain; "" for the user's own frames."""


_START = _State(0, 0, 0, 0, -1, False, "")


class Placer:
    """Finds the vertices of call paths in a graph, and extends the graph where it must.

    Args:
        psg: the graph; it grows.
        parse: gives the structure of a file, None if it has none; called for files in which frames lie.
        lib_dirs: folders of code that is not the user's own.
        own: files and folders that are the user's even below ``lib_dirs`` (an installed main program).
        models: files of libraries in which the modules of the run's models are defined.
        budget: vertices beyond which functions that samples add get no inner structure, and models no lines.
    """

    def __init__(
        self,
        psg: PSG,
        parse: Callable[[str], FileStructure | None],
        *,
        lib_dirs: Iterable[str] = (),
        own: Iterable[str] = (),
        models: Iterable[str] = (),
        budget: int = 1_000_000,
    ) -> None:
        self.psg = psg
        self._source = SourceView(psg)
        self.parse = parse
        self.budget = budget
        self._lib_dirs = tuple(folder.rstrip(os.sep) + os.sep for folder in lib_dirs if folder)
        self._own = tuple(own)
        self._recorder = tuple(folder for folder in self._lib_dirs if folder.endswith(f"{os.sep}runtime{os.sep}"))
        self._library: dict[str, bool] = {}
        self._models = frozenset(file for file in models if not self._is_of_torch(file))
        self._model_folders = tuple({folder for file in self._models for folder in self._package_of(file)})
        self._states: list[_State] = [_START]
        self._numbers: dict[_State, int] = {_START: 0}
        self._steps: dict[tuple[int, FrameRef], int] = {}
        self._functions: dict[tuple[str, str, int, int], tuple[Place, FunctionStructure | None]] = {}
        self._bodies: dict[FunctionStructure, Body] = {}
        self._children: dict[tuple[int, object], int] = {}  # what samples added: (parent, what) -> vertex
        for index in sorted(psg.added):
            self._children[psg[index].parent, self._key(index)] = index

    # whole trees of paths

    def place_tree(self, parents: Sequence[int], frames: Sequence[FrameRef]) -> tuple[IntArray, IntArray, IntArray]:
        """Place all paths of an interned tree of call paths. O(paths) after the first of each place.

        Args:
            parents: of each path the path without its innermost frame; smaller than the path's own number. Path 0 is
                the empty one.
            frames: innermost frame of each path; that of path 0 is ignored.

        Returns:
            ``[paths]`` each: the vertex in which the path's own time lies; the line of its innermost frame of the
            user's own code (0 if it has none); and the vertex in which that line lies (the root if it has none).
        """
        number = np.zeros(len(parents), dtype=np.int64)
        for path in range(1, len(parents)):
            number[path] = self._step(int(number[parents[path]]), frames[path])
        states = self._states
        table = np.array([(s.vertex, s.line, s.user_vertex) for s in states], dtype=np.int64)[number]
        return table[:, 0], table[:, 1], table[:, 2]

    def place(self, path: Iterable[FrameRef]) -> tuple[int, int, int]:
        """Place one path, outermost frame first: (vertex, line of the user's, vertex of that line)."""
        number = 0
        for frame in path:
            number = self._step(number, frame)
        state = self._states[number]
        return state.vertex, state.line, state.user_vertex

    def comm_vertex(self, vertex: int, operation: int, line: int = 0) -> int:
        """The communication vertex for a call that was made at a vertex: it, one beside it, or a new one below it.

        Args:
            vertex: as :meth:`place_tree` gave it for the call's path.
            operation: code in the table of operations.
            line: the user's line of the path, to tell calls of one stretch of code apart; 0 if not known.
        """
        here = self.psg[vertex]
        if here.kind is VertexKind.COMM and here.operation == operation:
            return vertex
        if line and here.parent >= 0 and vertex not in self.psg.added:
            function = self.psg.enclosing(vertex, VertexKind.FUNCTION)
            for other in self._source.calls_at(function, line) if function >= 0 else ():
                beside = self.psg[other]
                if beside.kind is VertexKind.COMM and beside.operation == operation:
                    return other
        if here.kind is VertexKind.COMM:
            return vertex
        name = BY_CODE[operation].name if operation in BY_CODE else "unknown"
        name = NEXT_CALL if here.place.file == BETWEEN_CALLS else name
        place = here.place
        if line and not (here.kind is VertexKind.CALL and place.line == line):
            place = Place(place.file, line, line, -1, name)
        key = ("comm", operation, place.line)
        return self._child(vertex, key, VertexKind.COMM, replace(place, name=name), operation)

    def part(self, call: int, inside: Place, name: str) -> int:
        """The vertex of a part of a call of a library's: of what its code calls at a place inside it.

        Args:
            call: the call vertex.
            inside: the line of the library's, by the name of its function; becomes the site of the vertex.
            name: what is called there.
        """
        known = len(self.psg)
        key = ("call", self.psg[call].place.line, f"{name} {inside}:{inside.column}")
        found = self._child(call, key, VertexKind.CALL, replace(self.psg[call].place, name=name))
        if found == known:
            self.psg[found].site = inside
        return found

    # one frame

    def _step(self, number: int, frame: FrameRef) -> int:
        key = (number, frame)
        found = self._steps.get(key)
        if found is None:
            state = self._states[number]
            if self.is_library(frame) or _compiled_by_library(state, frame):
                after = self._library_frame(state, frame)
            else:
                after = self._own_frame(state, frame)
            found = self._numbers.setdefault(after, len(self._states))
            if found == len(self._states):
                self._states.append(after)
            self._steps[key] = found
        return found

    def is_library(self, frame: FrameRef) -> bool:
        """Whether a frame is not in the user's own code."""
        file = frame.filename
        known = self._library.get(file)
        if known is None:
            known = self._library[file] = self._is_library(file)
        if not known and file == "<string>":  # made by dataclasses, namedtuple ...
            return frame.qualname.rpartition(".")[2] in _GENERATED
        return known

    def _is_library(self, file: str) -> bool:
        if file.startswith(self._own) and self._own:
            return False
        if file.startswith("<"):
            return not file.startswith(_WITHOUT_FILE)
        return is_wrapper(file) or (bool(self._lib_dirs) and file.startswith(self._lib_dirs))

    def is_model_code(self, file: str) -> bool:
        """Whether a library's file defines modules of the run's models, or is of a package that does."""
        return file in self._models or file.startswith(self._model_folders)

    def _package_of(self, file: str) -> list[str]:
        """The folder of the installed package that a file is part of; none for a module that is a file."""
        for folder in self._lib_dirs:
            package, separator, _ = file.removeprefix(folder).partition(os.sep)
            if file.startswith(folder) and separator:
                return [folder + package + os.sep]
        return []

    def _is_of_torch(self, file: str) -> bool:
        return any(package.endswith(f"{os.sep}torch{os.sep}") for package in self._package_of(file))

    def _library_frame(self, state: _State, frame: FrameRef) -> _State:
        after = self._entered(state, frame)
        here, kind = self.psg[state.vertex], self.psg[after.vertex].kind
        inside = here.kind is VertexKind.CALL and here.site is not None and self.is_model_code(frame.filename)
        if kind is VertexKind.COMM or not (inside or frame.filename in self._models):
            return after
        call = after.vertex if kind is VertexKind.CALL else self._call(after, after.vertex, after.chain, frame)
        site = Place(frame.filename, frame.line, frame.line, frame.column, frame.qualname)
        return after._replace(vertex=self._part_of_model(call, site))

    def _part_of_model(self, call: int, site: Place) -> int:
        """The vertex of a line of a model's below the call that led there; one that is often on the way, as a wrapper
        may be, is gone back to."""
        above, times = self.psg[call], 0
        while above.kind is VertexKind.CALL and above.site is not None:
            times += above.site == site
            if times >= CLOSURE_DEPTH:
                return above.index
            above = self.psg[above.parent]
        return self.part(call, site, site.name) if len(self.psg) < self.budget else call

    def _entered(self, state: _State, frame: FrameRef) -> _State:
        """After a frame of a library, whatever is in it."""
        compiles = frame.filename.endswith(_COMPILERS) and frame.qualname != "<module>"  # else it is being imported
        if state.line and state.chain != COMPILER and compiles:
            return state._replace(vertex=self._call(state, state.vertex, COMPILER, frame), chain=COMPILER)
        if state.chain and state.chain not in STARTERS:
            return state
        here = self.psg[state.vertex]
        name = self._name_of_call(state, frame)
        if state.vertex == 0:
            module = os.path.basename(frame.filename.strip("<>").replace("frozen ", "")).removesuffix(".py") + ".py"
            if module in STARTERS:
                return state._replace(chain=module)
            if state.chain and self._recorder and frame.filename.startswith(self._recorder):
                return state
            if (module, frame.qualname) in LOOPS:
                place = Place(BETWEEN_CALLS, 0, 0, -1, NEXT_CALL)
                loop = self._child(0, ("call", 0, NEXT_CALL), VertexKind.CALL, place)
                return state._replace(vertex=loop, chain=NEXT_CALL)
        if here.kind in (VertexKind.COMM, VertexKind.CALL):
            return state._replace(chain=name)
        shown = [self.psg[c] for c in self._source.calls_at(state.function, state.line)] if state.line else []
        if state.column < 0:
            # Which call of a line it is, is not known; but communication is entered through its own library.
            comms = [vertex.index for vertex in shown if vertex.kind is VertexKind.COMM]
            if comms and f"{os.sep}distributed{os.sep}" in frame.filename:
                return state._replace(vertex=comms[0], user_vertex=comms[0], chain=name)
        else:
            shown = [vertex for vertex in shown if self._source.site(vertex.index).column == state.column]
        if any(vertex.kind is VertexKind.FUNCTION or vertex.recursion >= 0 for vertex in shown):
            return state._replace(chain=name)  # the library is how the call that the source shows is made
        return state._replace(vertex=self._call(state, state.vertex, name, frame), chain=name)

    def _name_of_call(self, state: _State, frame: FrameRef) -> str:
        """What is called where a library is entered."""
        if frame.filename.startswith("<frozen importlib"):
            return "import"
        file = self.psg[state.user_vertex].place.file
        return name_of_call(file, state.line, -1 if state.inside else state.column, frame.qualname)

    def _own_frame(self, state: _State, frame: FrameRef) -> _State:
        inner = frame.qualname.rpartition(".")[2] in _INNER
        if inner:
            function = self._around(state.function, frame)
            if function:
                return self._at(function, frame, inner)
        place, structure = self._find(frame)
        function = self._shown(state, place)
        if function < 0:
            function = self._above(state, place)
            if function >= 0:
                back = self._call_place(state, frame.qualname)
                self._child(
                    state.vertex, ("back", function, back.line, back.name), VertexKind.CALL, back, back=function
                )
        if function < 0:
            function = self._enter(self._caller(state, place, frame), place, structure, inner)
        return self._at(function, frame, inner)

    def _caller(self, state: _State, place: Place, frame: FrameRef) -> int:
        """The vertex below which a function hangs that the source does not show: a call vertex, or the root."""
        parent = state.vertex
        if parent == 0:
            starter = STARTERS.get(state.chain, "") if place.name != "<module>" else ""
            return self._call(state, 0, f"{starter} {place.name}", frame) if starter else 0
        if self.psg[parent].kind is VertexKind.CALL:
            return parent
        if (state.column < 0 or state.inside) and not state.chain:
            # Without its column the stretch of code around it was taken; a call of that line that is open is nearer.
            for call in self._source.calls_at(state.function, state.line):
                open_call = self.psg[call].kind is VertexKind.CALL and self.psg[call].recursion < 0
                if open_call and (state.column < 0 or self._source.site(call).column == state.column):
                    return call
        return self._call(state, parent, state.chain or frame.qualname, frame)

    def _at(self, function: int, frame: FrameRef, inner: bool) -> _State:
        vertex = self._source.innermost(function, frame.line, frame.column, inner)
        column = frame.column
        if frame.inside and column >= 0:
            column = self._source.column_of_call_around(function, frame.line, column)
        return _State(vertex, function, vertex, frame.line, column, frame.inside, "")

    def _find(self, frame: FrameRef) -> tuple[Place, FunctionStructure | None]:
        """The place of a frame's function, and its structure if there is a source."""
        several = frame.qualname.endswith("<lambda>")  # in one line; which one it is only a position can tell
        position = (frame.line << 12 | max(frame.column, 0)) if several else 0
        key = (frame.filename, frame.qualname, frame.firstlineno, position)
        found = self._functions.get(key)
        if found is None:
            file = None if frame.filename.startswith("<") else self.parse(frame.filename)
            structure = None
            if file is not None:
                structure = file.find(frame.qualname, frame.firstlineno, frame.line, frame.column)
            if structure is not None:
                found = structure.place, structure
            else:
                first = frame.firstlineno
                found = Place(frame.filename, first, first, -1, frame.qualname.rpartition("<locals>.")[2]), None
            self._functions[key] = found
        return found

    def _enter(self, parent: int, place: Place, structure: FunctionStructure | None, inner: bool) -> int:
        """The function vertex below a call vertex (or the root), made with its structure where it is new."""
        known = len(self.psg)
        function = self._child(parent, place, VertexKind.FUNCTION, place)
        if len(self.psg) > known and structure is not None and not inner:
            if len(self.psg) < self.budget:
                body = self._bodies.get(structure)
                if body is None:
                    body = self._bodies[structure] = settle(structure.nodes, unresolved)
                instantiate(self.psg, function, body)
            else:
                warning = f"more than {self.budget} vertices: further functions found by samples are not analysed"
                if warning not in self.psg.warnings:
                    self.psg.warnings.append(warning)
        return function

    def _shown(self, state: _State, place: Place) -> int:
        """The vertex of a function that the source shows to be called where a frame is, -1 if it shows none."""
        vertices = self.psg.vertices
        if not state.function:
            starts = place.name == "<module>" or not state.chain
            for child in vertices[0].children if starts else ():
                if vertices[child].kind is VertexKind.FUNCTION and vertices[child].place == place:
                    return child
            return -1
        best = -1
        for call in self._source.calls_at(state.function, state.line):
            vertex = vertices[call]
            target = call if vertex.kind is VertexKind.FUNCTION else vertex.recursion
            if target < 0 or vertices[target].place != place:
                continue
            site = self._source.site(call)
            if best < 0 or (site.line == state.line and site.column == state.column):
                best = target
        return best

    def _above(self, state: _State, place: Place) -> int:
        """The function vertex above that a frame goes back to (recursion), -1 if it does not."""
        allowed = CLOSURE_DEPTH if "<locals>" in place.name else 1
        vertex, first = state.vertex, -1
        times = 0
        while vertex >= 0:
            here = self.psg[vertex]
            if here.kind is VertexKind.FUNCTION and here.place == place:
                times += 1
                first = first if first >= 0 else vertex
                if times >= allowed:
                    return first
            vertex = here.parent
        return -1

    def _around(self, function: int, frame: FrameRef) -> int:
        """The function vertex at or above one whose code a comprehension's frame is part of, 0 if there is none."""
        owner = _owner(frame.qualname)
        while function > 0:
            here = self.psg[function]
            place = here.place
            if here.kind is VertexKind.FUNCTION and place.file == frame.filename:
                bare = frame.qualname in _INNER  # says nothing before 3.11
                if holds(place, frame.line) and (owner == place.name or bare):
                    return function
                if owner == place.name and place.line == place.end_line <= frame.line:
                    return function  # of code without a source the end is not known
            function = here.parent
        return 0

    # what samples add

    def _call(self, state: _State, parent: int, name: str, frame: FrameRef) -> int:
        """The call vertex for a call at a frame's place that the source does not show."""
        place = self._call_place(state, name)
        if not place.file:
            place = Place(frame.filename, frame.firstlineno, frame.firstlineno, -1, name)
        return self._child(parent, ("call", place.line, name), VertexKind.CALL, place)

    def _call_place(self, state: _State, name: str) -> Place:
        return Place(self.psg[state.user_vertex].place.file, state.line, state.line, -1, name)

    def _child(
        self, parent: int, key: object, kind: VertexKind, place: Place, operation: int = 0, back: int = -1
    ) -> int:
        found = self._children.get((parent, key))
        if found is None:
            found = self.psg.add(kind, place, parent, operation, recursion=back)
            self.psg.added.add(found)
            self._children[parent, key] = found
        return found

    def _key(self, index: int) -> object:
        """The key in :attr:`_children` of a vertex that samples added before."""
        vertex = self.psg[index]
        if vertex.kind is VertexKind.FUNCTION:
            return vertex.place
        if vertex.kind is VertexKind.COMM:
            return ("comm", vertex.operation, vertex.place.line)
        if vertex.recursion >= 0:
            return ("back", vertex.recursion, vertex.place.line, vertex.place.name)
        if vertex.site is not None:
            return ("call", vertex.place.line, f"{vertex.place.name} {vertex.site}:{vertex.site.column}")
        return ("call", vertex.place.line, vertex.place.name)


def is_wrapper(file: str) -> bool:
    """Whether a file is one that inductor writes, by its name."""
    return _WRAPPER.search(file) is not None


def _compiled_by_library(state: _State, frame: FrameRef) -> bool:
    """Whether a library that the user's code has called runs code that it has made up (an import of all it has)."""
    return frame.filename == "<string>" and state.line > 0 and state.chain != "" and state.chain not in STARTERS


def _owner(qualname: str) -> str:
    """Qualified name of the function whose code a comprehension is part of."""
    parts = qualname.split(".")
    while parts and parts[-1] in _INNER:
        parts.pop()
        if parts and parts[-1] == "<locals>":
            parts.pop()
    return ".".join(parts) or "<module>"
