"""The processes that a process of this host has started, as the kernel says."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator

from scalana.live.kernel_files import text_of


def below(pid: int, without: Container[int] = ()) -> Iterator[int]:
    """All processes that a process started, those that these started, and so on; some of them, and what is below these,
    left out."""
    waiting = _children(pid)
    while waiting:
        child = waiting.pop()
        if child not in without:
            yield child
            waiting += _children(child)


def _children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for task in tasks for child in text_of(f"/proc/{pid}/task/{task}/children").split()]
