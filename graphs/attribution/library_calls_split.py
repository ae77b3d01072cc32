"""Calls of a library that hold a whole loop (``trainer.train()``), taken apart.

Where communication happens inside a call of a library's, what else happens in there cannot be one cause: a checkpoint
and a forward pass would be one. So the time below such a call is told by where its path leaves those that communicate:
the line of the innermost library function that communicates, and the function that it calls there. For a call that does
not communicate the line of the user's is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.attribution.called import name_of_call
from scalana.graphs.attribution.callpaths import COMPILER, Placer
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.structure.psg import Place, VertexKind


def split_library_calls(
    placer: Placer, tree: CallTree, library: Sequence[bool], vertex: IntArray, line: IntArray, communicating: IntArray
) -> IntArray:
    """The vertex of every path ``[paths]``: a part below the call, where a path leaves those that communicate.

    Args:
        library: whether the innermost frame of a path is a library's ``[paths]``.
        vertex: as the placer gave it ``[paths]``.
        line: line of the user's ``[paths]``.
        communicating: paths in which communication was called.
    """
    if not len(communicating):
        return vertex
    functions = _Functions(tree, library, communicating)
    result = vertex.copy()
    psg = placer.psg
    for path, part in enumerate(functions.parts()):
        call = psg[int(vertex[path])]
        if part is None or not line[path] or call.kind is not VertexKind.CALL or call.site is not None:
            continue  # what is in a model is a part already
        if call.place.name == COMPILER:
            continue
        code, file = tree.codes[part.caller]
        at = code.position(part.lasti)
        called = name_of_call(file, at.line, at.column, tree.codes[part.callee][0].name)
        result[path] = placer.part(call.index, Place(file, at.line, at.line, -1, code.name), called)
    return result


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a path leaves those that communicate: rows in the tree's codes, and the instruction of the call."""

    caller: int
    lasti: int
    callee: int


class _Functions:
    """Library functions below each frame of the user's, by call path but without regard to lines."""

    def __init__(self, tree: CallTree, library: Sequence[bool], communicating: IntArray) -> None:
        self._tree = tree
        self._library = library
        speaks = _with_ancestors(tree.parent, communicating)
        numbers: dict[tuple[int, int], int] = {}
        self._function: list[int] = []
        for path, (parent, code) in enumerate(zip(tree.parent.tolist(), tree.code.tolist(), strict=True)):
            if not library[path]:
                self._function.append(-1 - path)  # a frame of the user's begins anew
                continue
            key = (self._function[parent] if path else 0, code)
            self._function.append(numbers.setdefault(key, len(numbers)))
        self._speaks = np.zeros(len(numbers), np.bool_)
        function = np.array(self._function, np.int64)
        self._speaks[function[speaks & (function >= 0)]] = True

    def parts(self) -> list[_Part | None]:
        """The part of every path, None where it has none ``[paths]``."""
        tree, result = self._tree, list[_Part | None]()
        codes, lasti = tree.code.tolist(), tree.lasti.tolist()
        known: dict[tuple[int, int, int], _Part] = {}
        for path, parent in enumerate(tree.parent.tolist()):
            function = self._function[path]
            part = None
            if function >= 0 and not self._speaks[function]:
                above = self._function[parent]
                part = result[parent] if above >= 0 else None
                if above >= 0 and self._speaks[above]:
                    key = (codes[parent], lasti[parent], codes[path])
                    part = known.setdefault(key, _Part(*key))
            result.append(part)
        return result


def _with_ancestors(parent: IntArray, paths: IntArray) -> npt.NDArray[np.bool_]:
    """Whether a path, or one that goes on from it, is among ``paths`` ``[paths]``."""
    result = np.zeros(len(parent), np.bool_)
    front = np.unique(paths)
    while len(front):
        result[front] = True
        front = np.unique(parent[front])
        front = front[~result[front]]
    return result
