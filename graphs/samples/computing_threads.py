"""What computes next to the locations of a run: threads of libraries and of Python, and processes that ranks start."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.readers.columns.gather import Gathered


def _none() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class ComputingThreads:
    """Threads of ranks and of their children that are no location of the timeline."""

    rank: IntArray = field(default_factory=_none)
    """``[threads]``"""
    process: IntArray = field(default_factory=_none)
    """``[threads]``"""
    is_own: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Whether the process is the rank itself ``[threads]``."""
    has_python: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Whether it ran Python code: else a library made it ``[threads]``."""
    cpu_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """On a CPU ``[threads]``."""
    core_wait_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Ready to run without one ``[threads]``."""


def computing_threads(data: Gathered) -> ComputingThreads:
    """Those that were seen to run."""
    threads, samples = data.threads, data.samples
    first = np.concatenate(([0], np.cumsum(data.rows["threads"])))
    has_python = np.zeros(len(threads), np.bool_)
    for process, record in enumerate(data.records):
        for index, thread in record.threads.items():
            has_python[first[process] + index] = thread.has_python
    cpu_s, core_wait_s = (
        to_seconds(np.bincount(samples.thread, amount, len(threads)))
        for amount in (samples.cpu_ns, samples.core_wait_ns)
    )
    seen = np.flatnonzero((threads.location < 0) & (cpu_s > 0.0))
    return ComputingThreads(
        threads.rank[seen].astype(np.int64),
        threads.process[seen].astype(np.int64),
        threads.is_own[seen],
        has_python[seen],
        cpu_s[seen],
        core_wait_s[seen],
    )
