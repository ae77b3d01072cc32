"""Call paths through code that inductor wrote, as paths through the lines that it came from.

What ``torch.compile`` makes runs in a generated function, each line of which calls one kernel. Its frame, and that of
the function that was compiled, are replaced here by the frames of the line of which the kernel does most. So ranks
whose kernels differ, or which run uncompiled, are compared by the lines of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.attribution.callpaths import FrameRef
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.folder.models import Frame, Kernel
from scalana.graphs.structure.source_tree import FileStructure, FunctionStructure, holds

_BETWEEN = "<torch.compile>"
"""File of frames that run no kernel."""


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A tree of call paths with more frames in it."""

    parents: list[int]
    frames: list[FrameRef]
    at: IntArray
    """Where in it each path of the tree is ``[paths]``."""
    kernel: IntArray
    """Row in the kernels that a path lies in, -1 for none ``[paths]``."""


def unfold(
    tree: CallTree,
    frames: Sequence[FrameRef],
    library: list[bool],
    kernels: Sequence[Kernel],
    parse: Callable[[str], FileStructure | None],
) -> Unfolded:
    """Put the lines that kernels came from into call paths.

    Args:
        frames: innermost frame of each path ``[paths]``.
        library: whether that is a library's ``[paths]``; of generated code only what is left of it is one.
        kernels: all that are known.
        parse: gives the structure of a file, None if it has none.
    """
    at_line = _at_line(kernels)
    parent = tree.parent.tolist()
    result = Unfolded([0], [frames[0]], np.zeros(len(parent), np.int64), np.full(len(parent), -1, np.int64))
    known: dict[int, list[FrameRef]] = {}

    def add(above: int, frame: FrameRef) -> int:
        result.parents.append(above)
        result.frames.append(frame)
        return len(result.parents) - 1

    for path in range(1, len(parent)):
        above, frame = parent[path], frames[path]
        lines = at_line.get(frame.filename)
        if lines is None:
            result.at[path] = add(int(result.at[above]), frame)
            result.kernel[path] = result.kernel[above]
            continue
        row = lines.get(frame.line, -1)
        result.kernel[path] = row
        if row >= 0 and row not in known:
            main = kernels[row].main()
            known[row] = [_frame(one, parse) for one in main.frames] if main is not None else []
        inside = known.get(row)
        if not inside:
            library[path] = True
            result.at[path] = add(int(result.at[above]), FrameRef(_BETWEEN, frame.qualname, 0, 0))
            continue
        library[path] = False
        at = int(result.at[_called_from(above, inside[0], parent, frames, library)])
        for one in inside:
            at = add(at, one)
        result.at[path] = at
    return result


def _at_line(kernels: Sequence[Kernel]) -> Mapping[str, Mapping[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for row, kernel in enumerate(kernels):
        found.setdefault(kernel.file, {})[kernel.line] = row
    return found


def _called_from(
    path: int, first: FrameRef, parent: Sequence[int], frames: Sequence[FrameRef], library: Sequence[bool]
) -> int:
    """The path that the function which was compiled is called from: it has a frame of its own in a forward pass, the
    line of which tells nothing; in a backward pass it has none."""
    own = path
    while own and library[own]:
        own = parent[own]
    here = frames[own]
    if own and here.filename == first.filename and _bare(here.qualname) == _bare(first.qualname):
        return parent[own]
    return path


def _frame(frame: Frame, parse: Callable[[str], FileStructure | None]) -> FrameRef:
    """A frame of which the bare name of the function is known, with all that the source tells of it."""
    file, line, name = frame
    structure = None if file.startswith("<") else parse(file)
    best: FunctionStructure | None = None
    for function in structure.functions if structure is not None else ():
        if _bare(function.place.name) == _bare(name) and holds(function.place, line):
            if best is None or function.place.line >= best.place.line:
                best = function
    if best is None:
        return FrameRef(file, name, line, line)
    return FrameRef(file, best.place.name, best.place.line, line)


def _bare(name: str) -> str:
    return name.rpartition(".")[2]
