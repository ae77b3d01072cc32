"""When the seconds of a finding are lost: in start-up or steps, in which of these, in which region, in waiting for
data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.evidence import InSteps, Loading, LostByPhase
from scalana.detectors.finding import Finding
from scalana.detectors.rollup.paths import reaching_entries
from scalana.detectors.thresholds.limits import NAMED
from scalana.detectors.thresholds.shares import NEARLY_ALL
from scalana.detectors.when.burst_work import BurstWork
from scalana.detectors.when.regions import RegionTime
from scalana.detectors.when.step_costs import CostByStep, with_trend
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline


def with_steps(
    findings: Sequence[Finding], table: BlameTable, waits: WaitStates, steps: Steps, timeline: Timeline
) -> list[Finding]:
    """Findings of waiting with how much of it is lost in start-up, steady state and end, in which steps, and how that
    changes over them (:func:`with_trend`).

    A wait is lost where it ends. Of waits of one kind (a group of the blame table) as large a part is a finding's in
    every step.
    """
    waiting = np.flatnonzero(waits.wait_s > 0.0)
    location = timeline.calls.location[waiting]
    rank = timeline.locations.rank[location]
    released = timeline.calls.enter_s[waiting] + waits.wait_s[waiting]
    periods = steps.periods()
    step = periods.row_at(rank, released)
    start, end = steps.on_all_ranks()
    steady = steps.steady()
    costs = CostByStep.of(table, steps, timeline)
    early = released <= start[steady][0][rank]
    late = released > end[-1][rank]
    group, wait_s = table.groups.group_of_call[waiting], waits.all_s(timeline)[waiting]
    inside = ~early & (step >= steps.warm_up)

    def with_them(finding: Finding, entries: IntArray) -> Finding:
        part = np.append(reaching_entries(entries, table)[1], 0.0)  # the last for no group
        lost_s = wait_s * part[group]
        total_s = max(float(lost_s.sum()), 1e-300)
        phases = (float(lost_s[rows].sum()) for rows in (early, ~early & ~late, late))
        phase = LostByPhase(*(finding.lost_s * seconds / total_s for seconds in phases))
        by_step = weighted_count(step[inside], lost_s[inside], len(steps))[steady]
        if float(by_step.sum()) <= 0.0:
            return replace(finding, evidence=replace(finding.evidence, lost_by_phase=phase))
        numbers = _in_steps(by_step, steps.number[steady])
        evidence = replace(finding.evidence, lost_by_phase=phase, in_steps=numbers)
        return with_trend(replace(finding, evidence=evidence), by_step, costs)

    return [with_them(finding, finding.entries) if finding.entries is not None else finding for finding in findings]


def _in_steps(lost_s: FloatArray, number: IntArray) -> InSteps:
    """In how many steps most is lost, of how many, and in which if these are few."""
    order = np.argsort(-lost_s, kind="stable")
    reached = np.cumsum(lost_s[order])
    needed = int(np.searchsorted(reached, NEARLY_ALL * reached[-1])) + 1
    few = needed <= NAMED and needed < NEARLY_ALL * len(lost_s)
    return InSteps(needed, len(lost_s), sorted(number[order[:needed]].tolist()) if few else None)


def with_regions(
    findings: Sequence[Finding], table: BlameTable, regions: list[RegionTime], timeline: Timeline, psg: PSG
) -> list[Finding]:
    """Findings with the region that their place lies in, its nested names joined by slashes.

    The structure says so where the region stands around the place in the source. Else time does: what is worked at the
    place between two calls must lie in the region for the most part, however the work is arranged between them.
    """
    edges: tuple[FloatArray, FloatArray] | None = None
    result = []
    for finding in findings:
        named = _region_around(finding.vertex, psg)
        inside = [region for region in regions if region.path[-1] == named]
        if not inside and finding.entries is not None:
            edges = edges or gap_edges(timeline)
            inside = _certain(finding, table, regions, timeline, edges)
        if inside:  # the innermost; of several such the one in which most time is spent
            best = max(inside, key=lambda region: (len(region.path), float(region.seconds.sum())))
            finding = replace(finding, evidence=replace(finding.evidence, region="/".join(best.path)))
        result.append(finding)
    return result


def with_loading(findings: Sequence[Finding], table: BlameTable, spans: Spans, timeline: Timeline) -> list[Finding]:
    """Findings whose work lies in waiting for data with the loader that this is, and what loaders offer."""
    rows = spans.rows("data")
    rank = spans.rank[rows]
    rows = rows[(rank >= 0) & (rank < timeline.ranks)]
    if not len(rows):
        return list(findings)
    loading = Periods.joined(spans.rank[rows], spans.start_s(rows), spans.end_s(rows), timeline.ranks)
    workers, data_set = spans.integers("workers")[rows], spans.texts("dataset")[rows]
    edges = gap_edges(timeline)

    def loads(finding: Finding) -> bool:
        return finding.entries is not None and BurstWork.of(finding, table, timeline, edges).lies_in(loading)

    def with_it(finding: Finding) -> Finding:
        here = np.isin(spans.rank[rows], finding.ranks)
        longest = int(np.where(here, spans.end_s(rows) - spans.start_s(rows), -1.0).argmax())
        found = Loading(
            workers=int(workers[longest]) if workers[longest] >= 0 else None,
            dataset=spans.names[int(data_set[longest])] if data_set[longest] >= 0 else None,
        )
        advice = finding.advice if found.workers is None else finding.advised(_LOADING[bool(found.workers)])
        return replace(finding, evidence=replace(finding.evidence, loading=found), advice=advice)

    return [with_it(finding) if loads(finding) else finding for finding in findings]


_LOADING = {
    False: "The rank loads its data itself: DataLoader workers (num_workers) would load ahead.",
    True: "More DataLoader workers, or more batches ahead (prefetch_factor), would hide delays that do not occur in "
    "every batch.",
}
"""What a loader offers, by whether it has workers."""


def _region_around(vertex: int, psg: PSG) -> str:
    """Name of the innermost region that stands around a vertex in the source; empty where there is none."""
    found = psg.enclosing(vertex, VertexKind.REGION) if vertex < len(psg) else -1
    return psg[found].place.name if found >= 0 else ""


def _certain(
    finding: Finding,
    table: BlameTable,
    regions: list[RegionTime],
    timeline: Timeline,
    edges: tuple[FloatArray, FloatArray],
) -> list[RegionTime]:
    """The regions in which most of a finding's work lies for certain."""
    work = BurstWork.of(finding, table, timeline, edges)
    return [region for region in regions if work.lies_in(region.periods)]
