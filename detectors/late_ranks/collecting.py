"""Findings that lie in collections of Python's garbage collector: how often, how long, and what a schedule saves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import Collecting
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.run_info import RunInfo
from scalana.graphs.samples.collected import OLDEST, collector_vertex
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.window import gap_edges

KIND = "garbage-collection"


def name_collections(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings at the collector's place as what they are, with what it does, and what other schedules save."""
    vertex = collector_vertex(facts.psg)
    if vertex < 0 or all(finding.vertex != vertex for finding in findings):
        return findings
    rows = _collections(facts)
    time = _CollectionTime.of(vertex, rows, facts)
    frozen_s, aligned_s = time.savings_s(facts)
    return [
        _named(one, rows, facts.ppg.spans, frozen_s, aligned_s) if one.vertex == vertex else one for one in findings
    ]


def _named(finding: Finding, rows: IntArray, spans: Spans, frozen_s: float, aligned_s: float) -> Finding:
    own = rows[np.isin(spans.rank[rows], finding.ranks)]
    lasted_s = spans.end_s(own) - spans.start_s(own)
    several = len(finding.ranks) > 1
    found = Collecting(
        collections=len(own) / len(finding.ranks),
        collection_s=float(lasted_s.sum()) / len(finding.ranks),
        longest_collection_s=float(lasted_s.max(initial=0.0)),
        aligned_saving_s=aligned_s,
        frozen_saving_s=frozen_s,
    )
    # One rank that collects more than the others does so in whatever steps.
    saving_s = aligned_s if several and aligned_s > 0.0 else finding.saving_s
    evidence = replace(finding.evidence, collecting=found)
    return replace(finding, kind=KIND, saving_s=saving_s, evidence=evidence, advice=kind_of(KIND).advice)


@dataclass(frozen=True, slots=True)
class _CollectionTime:
    """Collections after start-up."""

    removed_s: FloatArray
    """Own work of every burst that they are ``[bursts]``."""
    removed_old_s: FloatArray
    """The same of the old generation alone ``[bursts]``."""
    busy_s: FloatArray
    """Of each rank, without waiting for a core ``[ranks]``."""
    cpu_s: FloatArray
    """``[ranks]``"""

    @classmethod
    def of(cls, vertex: int, rows: IntArray, facts: Facts) -> _CollectionTime:
        """``rows`` are the spans of collections."""
        timeline, own = facts.timeline, facts.timeline.own
        start_s, _ = gap_edges(timeline)
        location = burst_locations(timeline)
        there = np.flatnonzero(timeline.activities.vertex[own.activity] == vertex)
        rank = timeline.locations.rank[location[own.burst[there]]].astype(np.int64)
        begins_s = _after_start_up(facts)
        kept = start_s[own.burst[there]] >= begins_s[rank]
        there, rank = there[kept], rank[kept]
        part = _old_part(rows, facts.ppg.spans, timeline.ranks)[rank]
        seconds = own.seconds[there]

        def summed(of: IntArray, values: FloatArray, count: int) -> FloatArray:
            return np.asarray(np.bincount(of, values, count), np.float64)

        return cls(
            summed(own.burst[there], seconds, len(location)),
            summed(own.burst[there], seconds * part, len(location)),
            summed(rank, seconds - own.core_wait_s[there], timeline.ranks),
            summed(rank, own.cpu_s[there], timeline.ranks),
        )

    def savings_s(self, facts: Facts) -> tuple[float, float]:
        """Seconds by which the run is shorter without those of the old generation; and with as many as there are, but
        in the same steps on all ranks."""
        changes = [Change.of(self.removed_old_s), Change.of(self.removed_s)]
        measured_s, (frozen_end_s, end_s) = facts.replay.run_ends_s(changes)
        aligned_s = measured_s - end_s - self._together_s(facts.run)
        return max(0.0, measured_s - frozen_end_s), max(0.0, aligned_s)

    def _together_s(self, run: RunInfo) -> float:
        """How long ranks collect if they all do at once: as long as the slowest; on shared cores, longer."""
        return float(max(self.busy_s.max(initial=0.0), run.cores.least_s(self.cpu_s).max(initial=0.0)))


def _after_start_up(facts: Facts) -> FloatArray:
    """When the steady state of every rank begins ``[ranks]``; where none is known, its record."""
    steps = facts.steps
    if steps is None or steps.warm_up >= len(steps):
        return np.full(facts.timeline.ranks, -np.inf)
    start_s, _ = steps.on_all_ranks()
    return np.asarray(start_s[steps.steady()][0])


def _collections(facts: Facts) -> IntArray:
    """The spans that are collections of ranks after start-up."""
    spans, begins_s = facts.ppg.spans, _after_start_up(facts)
    rows = spans.rows("collection")
    rank = spans.rank[rows]
    rows = rows[(rank >= 0) & (rank < len(begins_s))]
    return np.asarray(rows[spans.start_s(rows) >= begins_s[spans.rank[rows]]])


def _old_part(rows: IntArray, spans: Spans, ranks: int) -> FloatArray:
    """Part of some collections of each rank that are of the old generation ``[ranks]``."""
    rank, lasted_s = spans.rank[rows], spans.end_s(rows) - spans.start_s(rows)
    old = spans.integers("generation")[rows] >= OLDEST
    every = np.bincount(rank, lasted_s, ranks)
    return np.bincount(rank[old], lasted_s[old], ranks) / np.maximum(every, 1e-300)
