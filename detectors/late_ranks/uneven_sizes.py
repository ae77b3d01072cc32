"""Ranks that are late because they have larger parts of the data: a part of a graph with more edges, for example.

What ranks take at the places of findings is fitted by how large an argument is with which they call their model. Sizes
are the cause where they explain the lateness there, and nothing would take less than no time for an argument of size 0:
a rank that takes twice as long is not late for an argument that is a little larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import UnevenSizes
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks.advice import advise_cut
from scalana.detectors.late_ranks.work_of_finding import work_of
from scalana.detectors.lengths.length_costs import LengthCost, fitted
from scalana.detectors.thresholds.factors import LARGER_INPUT
from scalana.detectors.thresholds.shares import EXPLAINED
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.spans.argument_sizes import ArgumentSize, argument_sizes
from scalana.graphs.structure.psg import PSG, VertexKind

KIND = "uneven-sizes"
_OF_WORK = ("late-ranks", "serial")
_PAIRS = "edge"
"""What names of arguments begin with that have two elements for each edge of a graph."""


def name_sizes(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings of work whose cost is that of the size of an argument, as one of these, with what equal parts save."""
    if facts.is_part or not any(finding.kind in _OF_WORK for finding in findings):
        return findings
    sizes = [one for one in argument_sizes(facts.ppg.spans, facts.timeline.ranks) if float(np.ptp(one.elements)) > 0.0]
    best: tuple[list[Finding], ArgumentSize] | None = None
    for size in sizes:
        ours = [finding for finding in findings if _is_cause(finding, size, facts)]
        if ours and (best is None or _lost_s(ours) > _lost_s(best[0])):
            best = ours, size
    if best is None:
        return findings
    ours, size = best
    first = ours[0]
    whole = replace(
        first, lost_s=_lost_s(ours), lost_share=sum(one.lost_share for one in ours), ranks=_larger(first, size)
    )
    return [_named(whole, ours, size, facts), *(finding for finding in findings if finding not in ours)]


def _lost_s(findings: Sequence[Finding]) -> float:
    return sum(finding.lost_s for finding in findings)


def _larger(finding: Finding, size: ArgumentSize) -> list[int]:
    """Those of a finding's ranks whose argument is larger than that of the median rank."""
    usual = float(np.median(size.elements))
    return [rank for rank in finding.ranks if size.elements[rank] >= LARGER_INPUT * usual]


def _is_cause(finding: Finding, size: ArgumentSize, facts: Facts) -> bool:
    """Whether it is for the size of an argument that the ranks of a finding are late at its place."""
    here = _larger(finding, size)
    if finding.kind not in _OF_WORK or not here or len(finding.ranks) == facts.timeline.ranks:
        return False
    between = np.unique(size.elements)[1:-1]  # a line through two sizes explains any seconds
    if not len(between) or not belong(finding.vertex, size.vertex, facts.psg):
        return False
    fit = _SizeFit.of(work_of(finding, facts), size, facts)
    if fit is None:
        return False
    excess_s, expected_s = (_excess(values, finding.ranks) for values in (fit.seconds, fit.expected_s()))
    return excess_s > 0.0 and EXPLAINED <= expected_s / excess_s <= 1.0 / EXPLAINED


def belong(vertex: int, call: int, psg: PSG) -> bool:
    """Whether work is done where a model is called with an argument: in the loop around the call, else in its
    function."""
    around = [one.index for one in psg.ancestors(call) if one.kind in (VertexKind.LOOP, VertexKind.FUNCTION)]
    return not around or around[0] in (vertex, *(one.index for one in psg.ancestors(vertex)))


def _excess(values: FloatArray, ranks: list[int]) -> float:
    """By how much some ranks exceed the median rank, on average."""
    return float(values[ranks].mean() - np.median(values))


@dataclass(frozen=True, slots=True)
class _SizeFit:
    """What ranks take for an argument."""

    rows: BoolArray
    """Of own work, those that it is about ``[rows]``."""
    seconds: FloatArray
    """``[ranks]``"""
    elements: FloatArray
    """``[ranks]``"""
    cost: LengthCost

    @classmethod
    def of(cls, rows: BoolArray, size: ArgumentSize, facts: Facts) -> _SizeFit | None:
        """That of some own work; None where larger arguments do not take longer, or explain too little."""
        timeline = facts.timeline
        own, rank = timeline.own, timeline.locations.rank
        mine = np.flatnonzero(rows)
        of_rank = rank[burst_locations(timeline)[own.burst[mine]]]
        seconds = weighted_count(of_rank, (own.seconds - own.core_wait_s)[mine], timeline.ranks)
        cost = fitted(seconds, size.elements, np.zeros(timeline.ranks))
        return cls(rows, seconds, size.elements, cost) if cost is not None and cost.explained >= EXPLAINED else None

    def expected_s(self) -> FloatArray:
        """What each rank takes for its argument ``[ranks]``."""
        return self.cost.seconds(self.elements, np.zeros(len(self.elements)))

    def with_equal_parts(self, facts: Facts) -> Change:
        """The run if the arguments of all ranks were equally large."""
        timeline = facts.timeline
        own, expected_s = timeline.own, self.expected_s()
        more = np.divide(expected_s.mean() - expected_s, self.seconds, where=self.seconds > 0.0, out=self.seconds * 0.0)
        mine = np.flatnonzero(self.rows)
        of_rank = timeline.locations.rank[burst_locations(timeline)[own.burst[mine]]]
        work_s = (own.seconds - own.core_wait_s)[mine]
        bursts = len(timeline.calls) + len(timeline.locations)
        return Change.of(weighted_count(own.burst[mine], -work_s * np.maximum(more[of_rank], -1.0), bursts))


def _named(finding: Finding, ours: Sequence[Finding], size: ArgumentSize, facts: Facts) -> Finding:
    """A finding of late ranks, and of others of one cause, as one of sizes."""
    rows = np.logical_or.reduce([work_of(one, facts) for one in ours])
    fit = _SizeFit.of(rows, size, facts)
    if fit is None:
        return finding
    measured_s, (end_s,) = facts.replay.run_ends_s([fit.with_equal_parts(facts)])
    per = 2.0 if size.name.startswith(_PAIRS) else 1.0
    place = facts.psg[max(size.vertex, 0)].place
    here, usual = float(size.elements[finding.ranks].mean()), float(np.median(size.elements))
    found = UnevenSizes(
        size_times=here / usual,
        size_of="edges" if per > 1.0 else f"elements in `{size.name}`",
        size_argument=size.name,
        size_here=here / per,
        size_median=usual / per,
        sizes=[float(one) / per for one in size.elements],
        size_file=place.file if size.vertex >= 0 else "",
        size_line=size.line or place.line,
        size_share=fit.cost.explained,
    )
    evidence = replace(finding.evidence, sizes=found, balanced_saving_s=None, behind=None)
    return replace(
        finding, kind=KIND, saving_s=max(measured_s - end_s, 0.0), evidence=evidence, advice=advise_cut(found)
    )
