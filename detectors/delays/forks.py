"""Threads that communicate, and that their rank starts in the middle of the run: a pool's manager, made by the program
when it has read its input. What such a thread is late with before its record begins is what the main thread did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.targets import Numbering
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.shards import rows_of_ranges
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline


@dataclass(slots=True)
class StartedThreads(ColumnTable):
    """One row for each location that starts after its rank's main one, by location."""

    location: IntArray
    """``[threads]``"""
    main: IntArray
    """Location that started it ``[threads]``."""
    burst: IntArray
    """Gap of the main location in which it did ``[threads]``."""
    into_s: FloatArray
    """How long after that burst began ``[threads]``."""

    @classmethod
    def of(cls, timeline: Timeline) -> StartedThreads:
        """Find them. O(locations log calls)."""
        locations, calls = timeline.locations, timeline.calls
        mains = np.flatnonzero(locations.is_main)
        found: list[tuple[int, int, int, float]] = []
        if len(mains) == len(locations):
            mains = mains[:0]  # as nearly always
        for main, next_main in zip(mains.tolist(), [*mains[1:].tolist(), len(locations)][: len(mains)], strict=True):
            for thread in range(main + 1, next_main):
                start_s = float(locations.start_s[thread])
                if locations.rank[thread] != locations.rank[main] or start_s <= locations.start_s[main]:
                    continue
                first, end = calls.first[main : main + 2].tolist()
                burst = first + int(np.searchsorted(calls.enter_s[first:end], start_s))
                begin_s = float(calls.exit_s[burst - 1] if burst > first else locations.start_s[main])
                found.append((thread, main, burst if burst < end else len(calls) + main, max(start_s - begin_s, 0.0)))
        if not found:
            none = np.zeros(0, np.int64)
            return cls(none, none, none, np.zeros(0))
        columns = [np.array(column) for column in zip(*found, strict=True)]
        return cls(*columns)

    def calls_before(self, row: int, timeline: Timeline) -> slice:
        """Calls of the main location before a thread is started."""
        first, end = timeline.calls.first[self.main[row] : self.main[row] + 2].tolist()
        burst = int(self.burst[row])
        return slice(first, min(burst, end) if burst < len(timeline.calls) else end)

    def head_start_s(self, removed_s: FloatArray, timeline: Timeline) -> FloatArray:
        """How much earlier each location starts if so much goes from bursts ``[locations]``."""
        earlier = np.zeros(len(timeline.locations))
        for row, thread in enumerate(self.location.tolist()):
            before = float(removed_s[self.calls_before(row, timeline)].sum())
            earlier[thread] = before + min(float(removed_s[self.burst[row]]), float(self.into_s[row]))
        return earlier


@dataclass(slots=True)
class CarriedIn:
    """What locations are late with when their record begins, by target."""

    first: IntArray
    """Start of each location's rows ``[locations + 1]``."""
    target: IntArray
    """``[rows]``"""
    seconds: FloatArray
    """``[rows]``"""


def carried_in(
    timeline: Timeline, wait_s: FloatArray, call_s: FloatArray, row_of_burst: IntArray, numbering: Numbering,
    group_of_call: IntArray,
) -> CarriedIn:  # fmt: skip
    """Tell what each location is late with: its start, and for threads what their main one did until it started them.

    The columns are those of :func:`~scalana.detectors.delays.summing.InCalls`.
    """
    locations, own, calls = timeline.locations, timeline.own, timeline.calls
    started = StartedThreads.of(timeline)
    start_s = locations.start_s - locations.start_s.min(initial=np.inf)
    start_s[started.location] = start_s[started.main]
    if not len(started):
        return CarriedIn(np.arange(len(start_s) + 1), np.full(len(start_s), numbering.carried_in), start_s)
    targets = [np.full(1, numbering.carried_in) for _ in start_s]
    seconds = [np.full(1, begin_s) for begin_s in start_s.tolist()]
    for row, thread in enumerate(started.location.tolist()):
        before = started.calls_before(row, timeline)
        whole = rows_of_ranges(
            row_of_burst[before], row_of_burst[before.start + 1 : before.stop + 1] - row_of_burst[before]
        )
        burst = int(started.burst[row])
        part = np.arange(row_of_burst[burst], row_of_burst[burst + 1])
        # It ran when it started the thread: what it then rested for came later.
        busy_s = own.cpu_s[part] + own.core_wait_s[part]
        part = part[np.argsort(-busy_s / np.maximum(own.seconds[part], 1e-300), kind="stable")]
        until = np.minimum(np.cumsum(own.seconds[part]), started.into_s[row])
        waits = np.flatnonzero(wait_s[before] > 0.0) + before.start
        targets[thread] = np.concatenate(
            (targets[thread], own.activity[whole], own.activity[part], numbering.transfer + calls.vertex[before],
             numbering.wait + group_of_call[waits])
        )  # fmt: skip
        seconds[thread] = np.concatenate(
            (seconds[thread], own.seconds[whole], np.diff(until, prepend=0.0), (call_s - wait_s)[before], wait_s[waits])
        )
    for thread in started.location.tolist():
        what, number = np.unique(targets[thread], return_inverse=True)
        targets[thread], seconds[thread] = what, weighted_count(number, seconds[thread], len(what))
    first = np.concatenate(([0], np.cumsum([len(target) for target in targets]))).astype(np.int64)
    none = np.zeros(0)
    return CarriedIn(first, np.concatenate((none, *targets)).astype(np.int64), np.concatenate((none, *seconds)))
