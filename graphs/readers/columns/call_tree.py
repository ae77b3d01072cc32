"""The call paths of all processes as one tree.

Every process numbers the code and the call paths that its samples saw in the order in which it saw them. Here equal
paths of all processes become one, whatever their numbers, so that each is looked up in the structure only once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import IntArray
from scalana.runtime.record.format import Code, Codes, ProcessRecord


class _Columns(NamedTuple):
    """A table of paths, each ``[paths]``."""

    parent: IntArray
    code: IntArray
    lasti: IntArray


class CallTree:
    """A tree of call paths that grows with every record. Path 0 is the empty one, code 0 code that was lost."""

    def __init__(self) -> None:
        self.codes: list[tuple[Code, str]] = [(Code("<lost>", "<lost>", 0, 0, b""), "<lost>")]
        """Every code object with its file; names of files are absolute where the working directory is known."""
        self._code_numbers: dict[tuple[object, ...], int] = {}
        self._shared: dict[tuple[int, str], tuple[Sequence[Code], IntArray]] = {}
        self._columns = np.zeros((3, 1024), np.int64)
        self._slots = np.full(4096, -1, np.int64)
        self._count = 1

    def __len__(self) -> int:
        return self._count

    @property
    def parent(self) -> IntArray:
        """Path without its innermost frame; smaller than the path's own number ``[paths]``."""
        return self._columns[0, : self._count]

    @property
    def code(self) -> IntArray:
        """Row in :attr:`codes` of the innermost frame ``[paths]``."""
        return self._columns[1, : self._count]

    @property
    def lasti(self) -> IntArray:
        """Offset of its instruction ``[paths]``."""
        return self._columns[2, : self._count]

    def add(self, record: ProcessRecord) -> IntArray:
        """Add the paths of a record; returns the tree's path for each of the record's own ``[record's paths]``."""
        paths = record.paths
        if len(paths) == 0:
            return np.zeros(1, np.int64)
        parent, code, lasti = (np.array(column, np.int64) for column in (paths.parent, paths.code, paths.lasti))
        result = np.zeros(len(parent), np.int64)
        self._add(parent, self._codes(record, code), lasti, result, slice(1, len(parent)))
        return result

    def add_root(self, code: Code) -> int:
        """Add a path of one code that is in no record; returns its number."""
        result, number = np.zeros(2, np.int64), self._code(code, "")
        one = np.array([0, number], np.int64)
        self._add(np.zeros(2, np.int64), one, np.zeros(2, np.int64), result, slice(1, 2))
        return int(result[1])

    def add_tree(self, other: CallTree) -> TreeMerge:
        """Add the codes of another tree. Its paths are added by :meth:`TreeMerge.add`, in pieces."""
        codes = np.zeros(len(other.codes), np.int64)
        for number, key in enumerate(other._code_numbers, 1):
            known = self._code_numbers.get(key)
            if known is None:
                known = self._code_numbers[key] = len(self.codes)
                self.codes.append(other.codes[number])
            codes[number] = known
        return TreeMerge(self, other.parent, codes[other.code], other.lasti)

    def _add(self, parent: IntArray, code: IntArray, lasti: IntArray, result: IntArray, rows: slice) -> None:
        """Add some rows of a table of paths, whose parents are in it before them and have been added; fills in
        ``result``, the tree's path for each row."""
        wanted = self._count + rows.stop - rows.start
        if wanted > self._columns.shape[1]:
            self._columns = np.concatenate((self._columns, np.zeros((3, 2 * wanted), np.int64)), axis=1)
        if 2 * wanted > len(self._slots):
            self._slots = np.full(1 << (4 * wanted).bit_length(), -1, np.int64)
            _insert_all(self._columns[0], self._columns[1], self._columns[2], self._slots, self._count)
        known, new = _Columns(*self._columns), _Columns(parent, code, lasti)
        self._count = _merge(new, result, rows.start, rows.stop, known, self._slots, self._count)

    def __getstate__(self) -> tuple[object, ...]:
        return self.codes, self._code_numbers, self._columns[:, : self._count].astype(np.int32), self._count

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.codes, self._code_numbers, columns, self._count = state
        self._shared = {}
        self._columns = columns.astype(np.int64)
        self._slots = np.zeros(0, np.int64)  # made anew when something is added

    def _codes(self, record: ProcessRecord, used: IntArray) -> IntArray:
        """The tree's codes in place of a record's own."""
        codes, cwd = record.codes, record.meta.get("cwd", "")
        if not codes:
            return np.zeros(len(used), np.int64)
        if isinstance(codes, Codes):
            own, known = np.asarray(codes.ids), self._known_of(codes, cwd)
        else:
            own = np.fromiter(codes, np.int64, len(codes))
            known = np.array([self._code(code, cwd) for code in codes.values()], np.int64)
        number_of = np.append(known, 0)
        if (own == np.arange(1, len(own) + 1)).all():
            return number_of[np.where((used > 0) & (used <= len(own)), used - 1, -1)]
        order = np.argsort(own, kind="stable")  # of equal ids the last
        at = np.maximum(np.searchsorted(own, used, side="right", sorter=order) - 1, 0)
        return number_of[np.where(own[order[at]] == used, order[at], -1)]

    def _known_of(self, codes: Codes, cwd: str) -> IntArray:
        """The tree's number of each code of a record, which are looked up once for all records that share them."""
        key = id(codes.every), cwd
        if key not in self._shared or len(self._shared[key][1]) < len(codes.every):
            self._shared[key] = codes.every, np.full(len(codes.every), -1, np.int64)  # holds what the id is of
        numbers, rows = self._shared[key][1], np.asarray(codes.rows)
        for row in rows[numbers[rows] < 0].tolist():
            numbers[row] = self._code(codes.every[row], cwd)
        return numbers[rows]

    def _code(self, code: Code, cwd: str) -> int:
        """The tree's number of a code of a process with a working directory."""
        # What is relative means something else in another folder.
        key = code if code.filename.startswith("/") else (*code, cwd)
        number = self._code_numbers.get(key)
        if number is None:
            number = self._code_numbers[key] = len(self.codes)
            self.codes.append((code, absolute(code.filename, cwd)))
        return number


class TreeMerge:
    """A tree on its way into another one."""

    def __init__(self, tree: CallTree, parent: IntArray, code: IntArray, lasti: IntArray) -> None:
        self.tree = tree
        self.paths = np.zeros(len(parent), np.int64)
        """The other tree's path for each path that was added ``[paths]``."""
        self._rows = parent, code, lasti
        self._done = 1

    def add(self, count: int) -> None:
        """Add the next ``count`` paths."""
        rows = slice(self._done, self._done + count)
        self.tree._add(*self._rows, self.paths, rows)
        self._done = rows.stop


def absolute(file: str, cwd: str) -> str:
    """A file of code as an absolute name, where it is one of a file at all."""
    if not file or file.startswith(("<", "[")) or os.path.isabs(file) or not cwd:
        return file
    return os.path.normpath(os.path.join(cwd, file))


@compiled
def _slot(parent, code, lasti, bits):  # type: ignore[no-untyped-def]  # pragma: no cover
    mixed = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(code) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= np.uint64(lasti) * np.uint64(0x165667B19E3779F9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((mixed >> np.uint64(24)) & np.uint64(bits))


@compiled
def _merge(new, result, begin, end, tree, slots, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    parent, code, lasti = new
    tree_parent, tree_code, tree_lasti = tree
    for path in range(begin, end):
        up = result[parent[path]]
        slot = _slot(up, code[path], lasti[path], len(slots) - 1)
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot] = known = count
                tree_parent[count], tree_code[count], tree_lasti[count] = up, code[path], lasti[path]
                count += 1
                break
            if tree_parent[known] == up and tree_code[known] == code[path] and tree_lasti[known] == lasti[path]:
                break
            slot = (slot + 1) & (len(slots) - 1)
        result[path] = known
    return count


@compiled
def _insert_all(parent, code, lasti, slots, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    for path in range(1, count):
        slot = _slot(parent[path], code[path], lasti[path], len(slots) - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = path
