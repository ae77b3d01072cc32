"""What a finding costs in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.choices import with_alternatives
from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.limits import RANKS_OF_A_FINDING
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CostByStep:
    """Gives what findings cost in each step of the steady state."""

    table: BlameTable
    timeline: Timeline
    number: IntArray
    """Of the steps ``[steps]``."""
    start_s: FloatArray
    """``[steps, ranks]``"""
    end_s: FloatArray
    """``[steps, ranks]``"""
    edges: tuple[FloatArray, FloatArray]
    """Begin and end of all bursts."""

    @classmethod
    def of(cls, table: BlameTable, steps: Steps, timeline: Timeline) -> CostByStep:
        """That of a run."""
        start_s, end_s = (times[steps.steady()] for times in steps.on_all_ranks())
        return cls(table, timeline, steps.number[steps.steady()], start_s, end_s, gap_edges(timeline))

    def longer_s(self, finding: Finding) -> tuple[FloatArray, FloatArray] | None:
        """What the ranks of a finding take longer at its place than others, on average over the former, the median of
        the latter: without what they wait for a core, and with it, each ``[steps]``. None where the finding is no work
        of their own, or where all ranks are named: these take turns.

        What all take longer from step to step costs nobody anything.
        """
        here = np.array(sorted(finding.ranks), np.int64)
        others = np.setdiff1d(self.timeline.locations.rank, here)
        rows = self._rows(finding)
        if not len(rows) or not len(here) or not len(others):
            return None
        location = burst_locations(self.timeline)[self.timeline.own.burst[rows]]
        here, others = _some(here), _some(others)
        kept = np.isin(self.timeline.locations.rank[location], np.union1d(here, others))
        rows, location = rows[kept], location[kept]
        mine = [self._of_rank(rank, rows, location, True) for rank in here.tolist()]
        theirs = [self._of_rank(rank, rows, location, False) for rank in others.tolist()]
        work_s, time_s = np.maximum(np.mean(mine, axis=0) - np.median(theirs, axis=0), 0.0)
        return work_s, time_s

    def seen_every_s(self, finding: Finding) -> float:
        """The time at a finding's place that its ranks spend from one sample to the next, on average: longer than the
        sampler's period, where that did not get a core in time. Infinite where nothing was seen."""
        rows, own = self._rows(finding), self.timeline.own
        rows = rows[own.samples[rows] > 0]
        rows = rows[
            np.isin(self.timeline.locations.rank[burst_locations(self.timeline)[own.burst[rows]]], finding.ranks)
        ]
        return float(own.seconds[rows].sum() / own.samples[rows].sum()) if len(rows) else np.inf

    def _rows(self, finding: Finding) -> IntArray:
        """Rows of own work at a finding's place, on all ranks; none where it is no work of its ranks."""
        targets = np.unique(self.table.target[finding.entries])
        activities = targets[targets < self.table.numbering.transfer]
        if not len(activities):
            return np.zeros(0, np.int64)
        activities = with_contexts_of_others(activities, finding.ranks, self.table.work, self.timeline)
        activities = with_alternatives(activities, finding.ranks, self.table.choice, self.timeline)
        return np.flatnonzero(np.isin(self.timeline.own.activity, activities))

    def _of_rank(self, rank: int, rows: IntArray, location: IntArray, named: bool) -> FloatArray:
        """What some rows of own work come to in every step, in the location of a rank that does most of it: without
        waiting for a core, and with it ``[2, steps]``.

        Of a rank that is not named, nothing where it was never seen there: that time is but inferred from the others'.
        A burst that reaches over the edge of a step is divided in proportion to time.
        """
        own, locations = self.timeline.own, self.timeline.locations
        mine = np.flatnonzero(locations.rank[location] == rank)
        if not len(mine) or not (named or own.samples[rows[mine]].any()):
            return np.zeros((2, len(self.number)))
        time_s = weighted_count(location[mine], own.seconds[rows[mine]], len(locations))
        at = rows[mine][location[mine] == int(time_s.argmax())]
        burst, number = np.unique(own.burst[at], return_inverse=True)  # in order of time
        edges = np.stack([edge[burst] for edge in self.edges], axis=1).ravel()
        spent = []
        for seconds in (np.maximum(own.seconds[at] - own.core_wait_s[at], 0.0), own.seconds[at]):
            of_burst = weighted_count(number, seconds, len(burst))
            done = np.cumsum(np.stack((np.zeros(len(burst)), of_burst), axis=1).ravel())
            start, end = (np.interp(times[:, rank], edges, done) for times in (self.start_s, self.end_s))
            spent.append(end - start)
        return np.stack(spent)


def _some(ranks: IntArray) -> IntArray:
    """Some of many ranks."""
    if len(ranks) <= RANKS_OF_A_FINDING:
        return ranks
    return np.asarray(ranks[np.linspace(0, len(ranks) - 1, RANKS_OF_A_FINDING).astype(np.int64)])
