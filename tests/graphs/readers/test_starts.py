"""Ranks that other ranks start: by whom, and at which line of the program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scalana.graphs.readers.processes.starts import Start, starts_of

LIBRARIES = "/usr/lib/python3:/usr/lib/python3/site-packages"
FRAMES = "\n".join(
    f"{line}\t{function}\t{file}"
    for line, function, file in (
        (1026, "__init__", "/usr/lib/python3/subprocess.py"),
        (93, "_call_children_scripts", "/usr/lib/python3/site-packages/lightning/launcher.py"),
        (33, "launch", "/job/train.py"),
        (50, "<module>", "/job/train.py"),
    )
)


def record(pid: int, ppid: int, started: dict[int, str] | None = None, host: str = "node0") -> Any:
    meta = {"host": host, "pid": str(pid), "ppid": str(ppid), "lib_dirs": LIBRARIES}
    return SimpleNamespace(meta=meta | {f"started:{child}": frames for child, frames in (started or {}).items()})


def test_the_innermost_line_of_the_program_that_starts_a_rank() -> None:
    parent = record(10, 1, {11: FRAMES, 12: FRAMES})
    found = starts_of([parent, record(11, 10), record(12, 10)], [0, 1, 2], [True] * 3)
    assert found == {rank: Start(0, "/job/train.py", 33, "launch") for rank in (1, 2)}


def test_a_rank_that_a_helper_of_another_rank_starts_is_started_by_that_rank() -> None:
    helper = record(20, 10, {11: FRAMES})
    found = starts_of([record(10, 1), helper, record(11, 20)], [0, 0, 1], [True, False, True])
    assert found == {1: Start(0, "/job/train.py", 33, "launch")}


def test_launchers_children_and_other_hosts_start_no_rank() -> None:
    """A launcher is no rank, what a rank starts as its helper is none, and pids of two hosts are no relation."""
    assert starts_of([record(11, 10), record(12, 10)], [0, 1], [True] * 2) == {}
    assert starts_of([record(10, 1, {11: FRAMES}), record(11, 10)], [0, 0], [True, False]) == {}
    assert starts_of([record(10, 1, {11: FRAMES}), record(11, 10, host="node1")], [0, 1], [True] * 2) == {}


def test_only_libraries() -> None:
    frames = "7\trun\t/usr/lib/python3/subprocess.py\n3\t<module>\t/usr/lib/python3/site-packages/tool.py"
    found = starts_of([record(10, 1, {11: frames}), record(11, 10)], [0, 1], [True] * 2)
    assert found[1].file.endswith("tool.py") and found[1].line == 3
