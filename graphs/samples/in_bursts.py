"""Samples that lie in the bursts between communication calls, each with the part of its burst that it stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.samples.between import Rates, Stretches

_NS = 1e-9


@dataclass(slots=True)
class InGaps:
    """Samples that lie in bursts, sorted by (thread, time). Those of a burst share all of its time."""

    rows: IntArray
    """``[samples in bursts]``"""
    burst: IntArray
    """``[samples in bursts]``"""
    left_ns: IntArray
    """From when on a sample stands for what its thread did ``[samples in bursts]``."""
    right_ns: IntArray
    """Until when ``[samples in bursts]``."""
    cpu_s: FloatArray
    """CPU time in between ``[samples in bursts]``."""
    core_wait_s: FloatArray
    """Time without a core in between ``[samples in bursts]``."""

    @classmethod
    def of(
        cls,
        bursts: Bursts,
        samples: Samples,
        threads: Threads,
        stretches: Stretches,
        nothing_told: BoolArray | None = None,
    ) -> InGaps:
        """Find them.

        Args:
            bursts: of all locations.
            samples: sorted by (thread, time).
            threads: says which of them are locations.
            stretches: between the samples.
            nothing_told: paths whose samples tell nothing of a burst that holds unwritten calls ``[paths]``.
        """
        burst = _gap_of_samples(bursts, samples, threads)
        if bursts.unwritten_ns is not None and nothing_told is not None:
            burst[nothing_told[samples.path] & (bursts.unwritten_ns > 0)[burst]] = -1
        rows = np.flatnonzero(burst >= 0)
        burst, time = burst[rows], samples.time_ns[rows]
        left, right = _owned(rows, burst, bursts, stretches)
        cpu = _integral(rows, time, left, right, stretches, stretches.cpu, samples.cpu_ns[rows])
        wait = _integral(rows, time, left, right, stretches, stretches.core_wait, samples.core_wait_ns[rows])
        return cls(rows, burst, left, right, cpu, wait)


def _owned(rows: IntArray, burst: IntArray, bursts: Bursts, stretches: Stretches) -> tuple[IntArray, IntArray]:
    """From when to when each of the samples that lie in bursts stands for what its thread did (ns)."""
    # A sample shares its burst with its neighbours only if they lie in the same one; else it owns up to the edge.
    joins_next = np.zeros(len(rows), np.bool_)
    joins_next[:-1] = burst[1:] == burst[:-1]
    joins_last = np.zeros(len(rows), np.bool_)
    joins_last[1:] = joins_next[:-1]
    right = np.where(joins_next, stretches.border_ns[rows], bursts.end_ns[burst])
    before = np.concatenate((rows[:1], rows[:-1]))  # of samples between two of a burst, the earlier one has the time
    left = np.where(joins_last, stretches.border_ns[before], bursts.start_ns[burst])
    return left, right


def _integral(
    rows: IntArray,
    time: IntArray,
    left: IntArray,
    right: IntArray,
    stretches: Stretches,
    rates: Rates,
    counted_ns: IntArray,
) -> FloatArray:
    """Seconds of CPU or core wait between ``left`` and ``right`` of each sample, at the rates of its stretches.

    ``counted_ns`` is what the clock counted since the thread's sample before it ``[samples in bursts]``.
    """
    previous = rows - 1
    has_previous = (rows > 0) & stretches.follows[previous]
    # The first sample of a thread has no stretch before it: its clock tells of the time since the last tick.
    first_rate = np.minimum(counted_ns / np.maximum(time - left, 1), 1.0)
    border = np.clip(stretches.border_ns[previous], left, time)
    early = np.where(
        has_previous,
        (border - left) * rates.before[previous]
        + (np.clip(stretches.over_ns[previous], border, time) - border) * rates.after[previous],
        (time - left) * first_rate,
    )
    follows = stretches.follows[rows]
    border = np.clip(stretches.border_ns[rows], time, right)
    last_rate = np.where(has_previous, rates.after[previous], first_rate)
    late = np.where(
        follows,
        (border - time) * rates.before[rows]
        + (np.clip(stretches.over_ns[rows], border, right) - border) * rates.after[rows],
        (right - time) * last_rate,
    )
    return np.asarray((early + late) * _NS)


def _gap_of_samples(bursts: Bursts, samples: Samples, threads: Threads) -> IntArray:
    """The burst that each sample of a location lies in, -1 for samples in calls and of other threads."""
    result = np.full(len(samples), -1, np.int64)
    location = threads.location[samples.thread]
    rows = np.flatnonzero(location >= 0)
    if len(rows) == 0 or len(bursts.location) == 0:
        return result
    time, location = samples.time_ns[rows], location[rows]
    origin = min(int(time.min()), int(bursts.start_ns.min()))
    span = max(int(time.max()), int(bursts.end_ns.max())) - origin + 1
    starts = bursts.location * span + (bursts.start_ns - origin)
    burst = np.searchsorted(starts, location * span + (time - origin), side="right") - 1
    inside = (burst >= 0) & (bursts.location[burst] == location) & (time <= bursts.end_ns[burst])
    result[rows[inside]] = burst[inside]
    return result
