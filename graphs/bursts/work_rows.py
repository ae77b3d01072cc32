"""Rows of own work on their way from samples to the timeline: burst, activity, seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(slots=True)
class Rows(ColumnTable):
    """Rows of own work before they are numbered; ``burst`` is a row in :class:`Bursts`."""

    burst: IntArray
    activity: IntArray
    seconds: FloatArray
    cpu_s: FloatArray
    core_wait_s: FloatArray
    samples: FloatArray


def grouped(rows: Rows) -> Rows:
    """One row per (burst, activity), sorted by these."""
    if len(rows) == 0:
        return rows
    width = int(rows.activity.max()) + 1
    key = rows.burst * width + rows.activity
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    return Rows(
        key[first] // width,
        key[first] % width,
        np.add.reduceat(rows.seconds[order], first),
        np.add.reduceat(rows.cpu_s[order], first),
        np.add.reduceat(rows.core_wait_s[order], first),
        np.add.reduceat(rows.samples[order], first),
    )


def exact_cpu(rows: Rows, cpu_ns: IntArray, mended: BoolArray | None = None) -> None:
    """Scale the CPU seconds of every burst to what its clocks say; no row gets more CPU than seconds.

    What a row was off the CPU remains divided into waits for a core and rests as its samples have it. In bursts in
    which short rests or runs were put where others were found, which is right for many of them and for none alone, what
    is off the CPU is scaled likewise, and the seconds of a row are the sum.

    Args:
        rows: sorted by burst; changed.
        cpu_ns: CPU time of each burst, -1 where no clock was read ``[bursts]``.
        mended: which bursts these are; None for none ``[bursts]``.
    """
    mended = np.zeros(len(cpu_ns), np.bool_) if mended is None else mended
    _exact_cpu(rows.burst, rows.seconds, rows.cpu_s, rows.core_wait_s, cpu_ns, mended)


@compiled
def _exact_cpu(burst, seconds, cpu_s, core_wait_s, cpu_ns, mended):  # type: ignore[no-untyped-def]  # pragma: no cover
    first = 0
    while first < len(burst):
        end, length, told = first, 0.0, 0.0
        while end < len(burst) and burst[end] == burst[first]:
            length += seconds[end]
            told += min(cpu_s[end], seconds[end])
            end += 1
        exact_ns = cpu_ns[burst[first]]
        total = min(exact_ns * 1e-9, length) if exact_ns >= 0 else told
        scale = total / told if told > 0.0 else 0.0
        if mended[burst[first]] and 0.0 < told < length:
            off_scale = (length - total) / (length - told)
            for row in range(first, end):
                sampled = min(cpu_s[row], seconds[row])
                core_wait_s[row] = min(core_wait_s[row], seconds[row] - sampled) * off_scale
                seconds[row] = sampled * scale + (seconds[row] - sampled) * off_scale
                cpu_s[row] = sampled * scale
            first = end
            continue
        rest, room = total, 0.0
        for row in range(first, end):
            cpu = min(min(cpu_s[row], seconds[row]) * scale, seconds[row])
            rest -= cpu
            room += seconds[row] - cpu
        # What the samples' CPU cannot hold spreads over the seconds that are left.
        fill = min(max(rest / room, 0.0), 1.0) if room > 1e-12 else 0.0
        for row in range(first, end):
            sampled = min(cpu_s[row], seconds[row])
            cpu = min(sampled * scale, seconds[row])
            cpu_s[row] = min(cpu + (seconds[row] - cpu) * fill, seconds[row])
            off = seconds[row] - sampled
            waiting = min(core_wait_s[row], off) / off if off > 1e-12 else 0.0
            core_wait_s[row] = waiting * (seconds[row] - cpu_s[row])
        first = end


def concatenated(parts: Sequence[Rows]) -> Rows:
    """Rows of several tables after each other."""
    return Rows(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(Rows)))


def sorted_by_burst(rows: Rows) -> Rows:
    """The same rows in order of their bursts."""
    order = np.argsort(rows.burst, kind="stable")
    return Rows(*(getattr(rows, column.name)[order] for column in fields(Rows)))
