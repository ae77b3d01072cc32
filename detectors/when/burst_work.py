"""What is worked at the place of a finding between two calls, and whether it lies in some periods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.periods import Periods
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class BurstWork:
    """What is worked at the place of a finding between two calls."""

    rank: IntArray
    """``[bursts]``"""
    seconds: FloatArray
    """At the place ``[bursts]``."""
    since_s: FloatArray
    """When the burst begins ``[bursts]``."""
    until_s: FloatArray
    """When it ends ``[bursts]``."""

    @classmethod
    def of(
        cls, finding: Finding, table: BlameTable, timeline: Timeline, edges: tuple[FloatArray, FloatArray]
    ) -> BurstWork:
        """That of the ranks of a finding; ``edges`` are begin and end of all bursts."""
        own = timeline.own
        activities = [
            row
            for kind, row in map(table.numbering.describe, np.unique(table.target[finding.entries]).tolist())
            if kind == TargetKind.OWN
        ]
        rows = np.flatnonzero(np.isin(own.activity, activities))
        location = burst_locations(timeline)[own.burst[rows]]
        rank = timeline.locations.rank[location]
        kept = np.isin(rank, finding.ranks)
        rows, rank = rows[kept], rank[kept]
        burst, number = np.unique(own.burst[rows], return_inverse=True)
        of = np.zeros(len(burst), np.int64)
        of[number] = rank
        return cls(of, weighted_count(number, own.seconds[rows], len(burst)), edges[0][burst], edges[1][burst])

    def where_lost(self, finding: Finding, steady: Periods | None) -> BurstWork:
        """That of the steady state alone, where most of the finding is lost in it: what is compiled in start-up takes
        longer than all that is compiled there runs."""
        phases = finding.evidence.lost_by_phase
        if steady is None or phases is None or phases.steady_s < MAJORITY * finding.lost_s:
            return self
        kept = steady.row_at(self.rank, self.until_s) >= 0
        return BurstWork(self.rank[kept], self.seconds[kept], self.since_s[kept], self.until_s[kept])

    def lies_in(self, periods: Periods) -> bool:
        """Whether most of it must lie in some periods, however it is arranged between the calls."""
        free = (self.until_s - self.since_s) - periods.inside_s(self.rank, self.since_s, self.until_s)
        total_s = float(self.seconds.sum())
        return total_s > 0.0 and float(np.maximum(self.seconds - free, 0.0).sum()) >= MAJORITY * total_s
