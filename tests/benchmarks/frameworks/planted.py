"""The fault of a program, which it has where PLANTED=1 asks for it, with the program's own clock.

What a program measures goes to the folder TRUTH, a file a process: the seconds at its fault, by ``spent``, and those of
its loop, by ``loop``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLANTED = os.environ.get("PLANTED") == "1"
RANK = int(os.environ.get("RANK", 0))
_known: dict[str, float] = {}


def is_planted(*ranks: int) -> bool:
    """Whether the fault is here: on one of these ranks, on any if none is named."""
    return PLANTED and (not ranks or RANK in ranks)


@contextmanager
def clock(name: str = "spent") -> Iterator[None]:
    """Measure what is done within."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        _known[name] = _known.get(name, 0.0) + time.perf_counter() - begun
        if folder := os.environ.get("TRUTH"):
            Path(folder, str(os.getpid())).write_text(json.dumps(_known), encoding="utf-8")


def computing(seconds: float) -> float:
    """Some work of Python, for so many seconds of the CPU."""
    end, total = time.thread_time() + seconds, 0.0
    while time.thread_time() < end:  # <- computing
        total += sum(number * 0.5 for number in range(200))  # <- computing
    return total


def forgotten() -> None:
    """A process was forked: what its parent measured is not its own."""
    _known.clear()


os.register_at_fork(after_in_child=forgotten)
