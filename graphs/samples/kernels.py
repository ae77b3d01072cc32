"""When ranks ran the kernels of compiled code, by the samples of their threads."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.columns import to_seconds, widened
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.folder.models import Kernel
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.samples.between import stretches_of


def _none() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class KernelTime:
    """Stretches of time in which threads ran kernels, or launched them on a device."""

    kernels: list[Kernel] = field(default_factory=list)
    kernel: IntArray = field(default_factory=_none)
    """Row in :attr:`kernels` ``[stretches]``."""
    vertex: IntArray = field(default_factory=_none)
    """Of the line that most of the kernel came from ``[stretches]``."""
    line: IntArray = field(default_factory=_none)
    """``[stretches]``"""
    rank: IntArray = field(default_factory=_none)
    """``[stretches]``"""
    start_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """``[stretches]``"""
    end_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """``[stretches]``"""

    def __len__(self) -> int:
        return len(self.kernel)


def kernel_time(
    kernels: list[Kernel], of_path: IntArray, samples: Samples, threads: Threads, places: Places, period_ns: int
) -> KernelTime:
    """The time of kernels: that of a sample is where own work has it, too (:func:`stretches_of`).

    Args:
        kernels: all that are known.
        of_path: row in them that each path lies in, -1 for none ``[paths]``.
    """
    if not (of_path >= 0).any():
        return KernelTime(kernels)
    kernel = of_path[samples.path.astype(np.int64)]
    rows = np.flatnonzero(kernel >= 0)
    samples = widened(samples)
    start, end = stretches_of(samples, places, period_ns).around(samples.time_ns, period_ns)
    rank = threads.rank[samples.thread[rows]].astype(np.int64)
    path = samples.path[rows]
    return KernelTime(
        kernels,
        kernel[rows],
        places.vertex[path].astype(np.int64),
        places.line[path].astype(np.int64),
        rank,
        to_seconds(start[rows]),
        to_seconds(end[rows]),
    )
