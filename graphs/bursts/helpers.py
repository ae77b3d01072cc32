"""Who of its own rank was active while a location waited."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.samples.between import Stretches, active
from scalana.graphs.samples.in_bursts import InGaps
from scalana.runtime.record.format import STATE_RUNNING


@dataclass(frozen=True, slots=True)
class Sampled:
    """The samples of some threads, and what there is to read them by."""

    samples: Samples
    """Sorted by (thread, time), on the aligned axis."""
    threads: Threads
    """Which rank, process and location each thread is of."""
    places: Places
    """Where call paths lead."""
    period_ns: int
    """Of sampling."""


@dataclass(slots=True)
class Helpers:
    """Who was active while locations waited. One row per (moment that was looked at, helper)."""

    row: IntArray
    """Row in :class:`InGaps` of who waited ``[rows]``."""
    path: IntArray
    """The helper's call path ``[rows]``."""
    share: FloatArray
    """Part of the time that the sample of who waited stands for ``[rows]``."""
    helped: IntArray
    """At how many moments somebody was active ``[samples in bursts]``."""
    is_thread: BoolArray
    """Whether the helper is a thread of the same process, and runs ``[rows]``."""


def helpers_of(
    asked: IntArray,
    starved: BoolArray,
    ticks: IntArray,
    there: InGaps,
    sampled: Sampled,
    stretches: Stretches,
) -> Helpers:
    """Find them.

    Args:
        asked: rows of ``there`` in which a location waited ``[asked]``.
        starved: whether it only lacked a core, or the interpreter lock ``[samples in bursts]``.
        ticks: at how many moments each is looked at ``[samples in bursts]``.
        there: samples in bursts.
        sampled: all samples.
        stretches: between the samples.
    """
    samples, threads, places, period_ns = sampled.samples, sampled.threads, sampled.places, sampled.period_ns
    rows, left, right = there.rows, there.left_ns, there.right_ns
    acts = active(samples, places, stretches) & (places.line[samples.path] > 0)
    in_call = threads.location[samples.thread] >= 0
    in_call[rows] = False
    acts &= ~in_call  # another location inside a call is communicating, not working
    first = np.searchsorted(samples.thread, np.arange(len(threads) + 1))
    useful = np.flatnonzero(np.bincount(samples.thread[acts], minlength=len(threads)) > 0)
    if len(asked) == 0 or len(useful) == 0:
        nobody = np.zeros(0, np.int64)
        return Helpers(nobody, nobody, np.zeros(0), np.zeros(len(rows), np.int64), np.zeros(0, np.bool_))
    useful = useful[np.argsort(threads.rank[useful], kind="stable")]
    by_rank = threads.rank[useful]

    tick_row = np.repeat(asked, ticks[asked])
    count = ticks[tick_row]
    ordinal = np.arange(len(tick_row)) - np.repeat(np.cumsum(ticks[asked]) - ticks[asked], ticks[asked])
    tick_time = left[tick_row] + ((right - left)[tick_row] * (2 * ordinal + 1)) // (2 * count)

    # Every tick against every useful thread of its rank.
    rank = threads.rank[samples.thread[rows[tick_row]]]
    low, high = np.searchsorted(by_rank, rank, "left"), np.searchsorted(by_rank, rank, "right")
    fan = high - low
    tick = np.repeat(np.arange(len(tick_row)), fan)
    helper = useful[np.repeat(low - (np.cumsum(fan) - fan), fan) + np.arange(len(tick))]
    row = tick_row[tick]
    other = helper != samples.thread[rows[row]]
    tick, helper, row = tick[other], helper[other], row[other]

    # The sample of the helper that owns the tick.
    time = tick_time[tick]
    origin = min(int(samples.time_ns.min()), int(tick_time.min()))
    span = max(int(samples.time_ns.max()), int(tick_time.max())) - origin + 1
    keys = samples.thread * span + (samples.time_ns - origin)
    at = np.searchsorted(keys, helper * span + (time - origin), side="right") - 1
    at = np.maximum(at, first[helper])  # shortly before the first sample
    handed = stretches.follows[at] & (time >= stretches.border_ns[at])
    at = np.where(handed, at + 1, at)
    ran_ns = np.maximum(samples.cpu_ns[at] + samples.core_wait_ns[at], period_ns)  # a thread may be found late
    near = handed | (time >= samples.time_ns[at] - ran_ns)
    near &= stretches.follows[at] | (time <= samples.time_ns[at] + period_ns)
    helps = near & acts[at]
    # Who merely lacks the interpreter lock waits for a thread of its own process that runs.
    same = threads.process[helper] == threads.process[samples.thread[rows[row]]]
    is_thread = same & (samples.state[at] == STATE_RUNNING)
    helps &= ~starved[row] | is_thread
    tick, row, at, is_thread = tick[helps], row[helps], at[helps], is_thread[helps]

    several = np.bincount(tick, minlength=len(tick_row))
    helped = np.bincount(tick_row[several > 0], minlength=len(rows))
    return Helpers(row, samples.path[at], 1.0 / (several[tick] * ticks[row]), helped, is_thread)
