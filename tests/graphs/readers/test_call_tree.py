"""Call paths of all processes become one tree, whatever their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.runtime.record.format import ProcessRecord
from scalana.runtime.record.writer import RecordWriter


def record(path: Path, order: list[int], depth: int = 1, cwd: str = "/job") -> ProcessRecord:
    """A process that met ``main``'s callees in the given order, each ``depth`` calls deep."""
    with RecordWriter(path) as writer:
        writer.meta("cwd", cwd)
        writer.code(7, "train.py", "<module>")
        writer.call_path(1, 0, 7, 3)
        number = 1
        for place, callee in enumerate(order):
            writer.code(10 + place, "/lib/work.py", f"f{callee}", callee)
            parent = 1
            for level in range(depth):
                number += 1
                writer.call_path(number, parent, 10 + place, level)
                parent = number
    return ProcessRecord.read(path)


def names(tree: CallTree, path: int) -> list[tuple[str, str, int]]:
    frames = []
    while path:
        code, file = tree.codes[tree.code[path]]
        frames.append((file, code.name, int(tree.lasti[path])))
        path = int(tree.parent[path])
    return frames[::-1]


def test_equal_paths_are_one_in_whatever_order_they_came(tmp_path: Path):
    tree = CallTree()
    first = tree.add(record(tmp_path / "a.rec", [1, 2, 3]))
    size = len(tree)
    second = tree.add(record(tmp_path / "b.rec", [3, 1]))
    assert len(tree) == size
    assert second.tolist() == [0, first[1], first[4], first[2]]
    assert names(tree, int(second[2])) == [("/job/train.py", "<module>", 3), ("/lib/work.py", "f3", 0)]


def test_relative_files_of_other_folders_are_others(tmp_path: Path):
    tree = CallTree()
    first = tree.add(record(tmp_path / "a.rec", [1]))
    second = tree.add(record(tmp_path / "b.rec", [1], cwd="/other"))
    assert not set(first.tolist()[1:]) & set(second.tolist()[1:])
    assert names(tree, int(second[1]))[0][0] == "/other/train.py"


def test_trees_grow_and_keep_what_they_know(tmp_path: Path):
    tree = CallTree()
    wanted = tree.add(record(tmp_path / "a.rec", [1, 2], depth=20))
    large = tree.add(record(tmp_path / "b.rec", list(range(300)), depth=20))
    again = tree.add(record(tmp_path / "c.rec", [1, 2], depth=20))
    np.testing.assert_array_equal(again, wanted)
    assert len(np.unique(large)) == len(large) == 1 + 1 + 300 * 20
    assert (tree.parent[1:] < np.arange(1, len(tree))).all()
    assert len(names(tree, int(large[-1]))) == 21


def test_a_path_whose_code_was_lost_has_no_name(tmp_path: Path):
    with RecordWriter(tmp_path / "a.rec") as writer:
        writer.call_path(1, 0, 99, 5)
    tree = CallTree()
    (_, path) = tree.add(ProcessRecord.read(tmp_path / "a.rec"))
    assert tree.codes[tree.code[path]][1] == "<lost>"
