"""The fault of a program, which it has where PLANTED=1 asks for it, with the program's own clock.

What a program measures goes to the folder TRUTH, a file a process: the seconds at its fault, by ``spent``, and those of
its loop, by ``loop``, as two doubles. The file is mapped into memory: workers are killed at any time, and a write each
time would cost more than what is recorded.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PLANTED = os.environ.get("PLANTED") == "1"
RANK = int(os.environ.get("RANK", 0))
NAMES = ("spent", "loop")
SECONDS = struct.Struct("=d")


@cache
def _known(process: int) -> mmap.mmap:
    """What a process measured, where the benchmark reads it; a forked process has its own."""
    size = len(NAMES) * SECONDS.size
    folder = os.environ.get("TRUTH")
    if folder is None:
        return mmap.mmap(-1, size)
    with Path(folder, str(process)).open("w+b") as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)


def known(folder: Path) -> list[dict[str, float]]:
    """What each process measured."""
    return [
        {name: SECONDS.unpack_from(one.read_bytes(), place * SECONDS.size)[0] for place, name in enumerate(NAMES)}
        for one in folder.iterdir()
    ]


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
        place, seconds = NAMES.index(name) * SECONDS.size, _known(os.getpid())
        SECONDS.pack_into(seconds, place, SECONDS.unpack_from(seconds, place)[0] + time.perf_counter() - begun)


def computing(seconds: float) -> float:
    """Some work of Python, for so many seconds of the CPU."""
    end, total = time.thread_time() + seconds, 0.0
    while time.thread_time() < end:  # <- computing
        total += sum(number * 0.5 for number in range(200))  # <- computing
    return total
