"""A run in portions: all rows of some ranks at a time.

Much of what is made of a run concerns one rank alone. Done portion by portion, what is between fits into a cache, and
several portions are worked on at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.types import IntArray

ROWS = 1 << 18
"""Samples and events that a portion holds at least, but for the last one."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(slots=True)
class Shard:
    """Some ranks that follow each other, with their children."""

    processes: slice
    threads: slice
    samples: slice
    events: slice
    """Without those at the end of the table, which were under way when a record stopped."""
    open_events: IntArray
    """Rows of these ``[open events]``."""

    @property
    def event_rows(self) -> IntArray:
        """Rows of all events ``[events]``."""
        return np.concatenate((np.arange(self.events.start, self.events.stop), self.open_events))


def shards(is_own: npt.NDArray[np.bool_], rows: dict[str, IntArray], open_process: IntArray) -> list[Shard]:
    """Divide the tables of a run.

    Args:
        is_own: Whether a process is the rank itself rather than a child, which follows its rank ``[processes]``.
        rows: How many threads, samples and events every process has, each ``[processes]``.
        open_process: The process of each of the events at the end of the table ``[open events]``.
    """
    count = len(is_own)
    if not count:
        return []
    first = {name: np.concatenate(([0], np.cumsum(rows[name]))).tolist() for name in ("threads", "samples", "events")}
    # A portion ends before the first rank that begins in the next stretch of rows.
    begins = np.flatnonzero(is_own)
    weight = np.array(first["samples"])[begins] + np.array(first["events"])[begins]
    _, edges = np.unique(weight // ROWS, return_index=True)
    edges = np.concatenate(([0], begins[edges[1:]], [count]))
    opens = np.searchsorted(open_process, edges)
    at_end = first["events"][-1] + np.arange(len(open_process))
    return [
        Shard(
            slice(low, high),
            threads=slice(first["threads"][low], first["threads"][high]),
            samples=slice(first["samples"][low], first["samples"][high]),
            events=slice(first["events"][low], first["events"][high]),
            open_events=at_end[opens[number] : opens[number + 1]],
        )
        for number, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    ]


def chunks(length: int, size: int = ROWS) -> list[slice]:
    """All rows of a table, some at a time."""
    return [slice(at, min(at + size, length)) for at in range(0, length, size)]


def portions_of(first: IntArray, size: int = ROWS) -> list[slice]:
    """Segments that follow each other, in portions of about ``size`` rows. ``first`` is ``[segments + 1]``."""
    if len(first) < 2:
        return []
    edges = np.unique(np.append(np.searchsorted(first, np.arange(0, int(first[-1]), size)), [0, len(first) - 1]))
    return [slice(low, high) for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]


def rows_of_ranges(first: IntArray, size: IntArray) -> IntArray:
    """Rows of ranges that begin at ``first`` and have ``size`` rows, one after the other."""
    return np.repeat(first - np.cumsum(size) + size, size) + np.arange(int(size.sum()))


def each(work: Callable[[_In], _Out], parts: Iterable[_In]) -> list[_Out]:
    """What ``work`` makes of every part, in order; done at once on all cores, as far as it runs outside of Python."""
    parts = list(parts)
    if len(parts) < 2:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(work, parts))
