"""Which part of a run a cause is measured by: the steps where it lasts all through them, else the whole run.

A rank that is late in each step costs the same part of the steps however long the start-up took before them. What comes
once, or by turns, is measured by all of the run: its noise is that of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.served import all_recorded_s, recorded_s
from scalana.detectors.rollup.candidates import shares_of_entries
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Lasting:
    """What of a run, and of its waiting, lies in the steady state."""

    table: BlameTable
    part: float
    """Of all recorded time."""
    group_part: FloatArray
    """Of what is waited ``[wait groups]``."""

    @classmethod
    def of(cls, timeline: Timeline, table: BlameTable, begin_s: float, end_s: float) -> Lasting:
        """That of a steady state from ``begin_s`` to ``end_s``, on the timeline's axis."""
        intervals, groups = table.intervals, table.groups
        row = np.flatnonzero(intervals.wait_s > 0.0)
        group, wait_s, call = groups.wait_group[row], intervals.wait_s[row], intervals.call[row]
        came_s = timeline.calls.enter_s[call]
        inside_s = np.where((came_s >= begin_s) & (came_s <= end_s), wait_s, 0.0)
        count = len(groups.group_wait_s)
        whole = np.maximum(weighted_count(group, wait_s, count), 1e-300)
        part = recorded_s(timeline, begin_s, end_s) / max(all_recorded_s(timeline), 1e-300)
        return cls(table, part, weighted_count(group, inside_s, count) / whole)

    def measured_by(self, entries: IntArray | None, steady: float | None) -> float:
        """Part of the run that some entries of the blame are compared with; 1 for what is not late on average, or costs
        less of the steady state than of the run. Of the steady state it is more by what they cost outside.

        Args:
            entries: rows of the blame table; None where it is not known.
            steady: part of their waiting for ranks that are late on average; None where it is not known.
        """
        if entries is None or steady is None or steady < MAJORITY:
            return 1.0
        shares = self.table.shares
        hit = shares_of_entries(entries, self.table)
        group = shares.group[hit]
        seconds = self.table.flow_s[group] * shares.share[hit]
        inside_s, all_s = float((seconds * self.group_part[group]).sum()), float(seconds.sum())
        return min(self.part * all_s / inside_s, 1.0) if inside_s > 0.0 else 1.0
