"""Where two detectors speak of the same seconds, the one that knows more about them has the word."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.finding import Finding
from scalana.detectors.rollup.paths import reaching_entries
from scalana.detectors.thresholds.shares import MAJORITY, SLIGHT
from scalana.graphs.arrays.intervals import common_share, hold, joined
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a run: what some ranks did, as a product of conditions."""

    ranks: tuple[int, ...]
    activities: IntArray | None = None
    """Rows of the timeline's activities; None for all own work."""
    vertices: IntArray | None = None
    """Vertices of communication calls; None for all calls."""
    windows_s: FloatArray | None = None
    """Begin and end of stretches of aligned time, in order, without overlap ``[windows, 2]``; None for all the time."""
    on_device: bool = False
    """Whether it is what their devices did in these windows, rather than what they did themselves."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finding, and what of the run it speaks of."""

    finding: Finding
    extent: Extent


def extent_of(finding: Finding, timeline: Timeline, psg: PSG, table: BlameTable | None = None) -> Extent:
    """What a finding at a place speaks of: the own work that it blames, in the stretches for which it does, if
    ``table`` tells of any; or else what its ranks did at that vertex and below it, or the call there."""
    vertex, none = finding.vertex, np.zeros(0, np.int64)
    ranks = tuple(finding.ranks)
    if table is not None and finding.entries is not None:
        blamed = np.unique(table.target[finding.entries])
        blamed = blamed[blamed < table.numbering.transfer]
        if len(blamed):
            return Extent(ranks, blamed, none, _intervals_s(finding.entries, timeline, table))
    if vertex < 0:
        return Extent(ranks, none, none)
    if psg[vertex].kind is VertexKind.COMM:
        return Extent(ranks, none, np.array([vertex]))
    below = np.array([v.index for v in psg.walk(vertex)])
    there = np.isin(timeline.activities.vertex, below)
    if finding.line == finding.end_line and psg[vertex].kind is VertexKind.COMP:
        there &= timeline.activities.line == finding.line
    return Extent(ranks, np.flatnonzero(there), none)


def _intervals_s(entries: IntArray, timeline: Timeline, table: BlameTable) -> FloatArray:
    """For what of a run some entries of the blame are told: since who was late last met the others ``[windows, 2]``."""
    calls, intervals = timeline.calls, table.intervals
    direct = np.append(reaching_entries(entries, table)[0], 0.0)  # the last for no group
    row = np.flatnonzero((intervals.wait_s > 0.0) & (direct[table.groups.group_of_call[intervals.call]] > SLIGHT))
    row = row[weighty(intervals.wait_s[row])]
    late = np.unique(np.searchsorted(intervals.first, row, side="right") - 1)
    culprit, since = intervals.culprit[late], intervals.since_culprit[late]
    start_s = timeline.locations.start_s[calls.location[culprit]]
    begin_s = np.where(since >= 0, calls.exit_s[np.maximum(since, 0)], start_s)
    return joined(np.stack((begin_s, calls.enter_s[culprit]), axis=1))


def weighty(wait_s: FloatArray) -> IntArray:
    """The longest of some waits, without those that come to a slight part of all ``[waits]``."""
    order = np.argsort(-wait_s, kind="stable")
    before_s = np.cumsum(wait_s[order]) - wait_s[order]
    return np.sort(order[before_s < (1.0 - SLIGHT) * wait_s.sum()])


def reconciled(outcomes: list[tuple[list[Verdict], list[Extent]]], timeline: Timeline) -> list[Finding]:
    """The findings of detectors, those that know more first, without what one of these has explained before.

    Args:
        outcomes: the verdicts of each detector, and what it explains besides.
        timeline: of the run.
    """
    findings: list[Finding] = []
    explained: list[Extent] = []
    for verdicts, besides in outcomes:
        for each in verdicts:
            part = covered(each.extent, explained, timeline)
            if part >= MAJORITY:
                continue
            findings.append(_without_part(each.finding, part) if part > 0.0 else each.finding)
        explained += [each.extent for each in verdicts] + besides
    return findings


def _without_part(finding: Finding, part: float) -> Finding:
    """A finding without a part of what it costs."""
    left = 1.0 - part
    return replace(
        finding,
        lost_s=finding.lost_s * left,
        lost_share=finding.lost_share * left,
        saving_s=finding.saving_s * left,
    )


def covered(extent: Extent, explained: list[Extent], timeline: Timeline) -> float:
    """Which part of the seconds of ``extent`` lies in others, or of its calls where these take no time; 0 where it has
    none."""
    around = [other for other in explained if set(other.ranks) & set(extent.ranks)]
    around = [other for other in around if other.on_device == extent.on_device]
    if not around:
        return 0.0
    if extent.on_device:
        return _covered_on_devices(extent, around)
    work, calls = _rows(extent, timeline)
    own_s, call_s = timeline.own.seconds, timeline.calls.exit_s - timeline.calls.enter_s
    total_s = float(own_s[work].sum() + call_s[calls].sum())
    work_in, calls_in = np.zeros(len(work), np.bool_), np.zeros(len(calls), np.bool_)
    for other in around:
        other_work, other_calls = _rows(other, timeline)
        work_in |= other_work
        calls_in |= other_calls
    if total_s <= 0.0:
        return float((calls & calls_in).sum() / max(calls.sum(), 1))
    return float(own_s[work & work_in].sum() + call_s[calls & calls_in].sum()) / total_s


def _covered_on_devices(extent: Extent, others: list[Extent]) -> float:
    """Which part of what devices did lies in what others speak of, the mean of the ranks."""
    if extent.windows_s is None:
        return 0.0
    parts, mine_s = [], extent.windows_s
    for rank in extent.ranks:
        windows = [other.windows_s for other in others if rank in other.ranks and other.windows_s is not None]
        parts.append(common_share(mine_s, joined(np.concatenate(windows))) if windows else 0.0)
    return float(np.mean(parts))


def _rows(extent: Extent, timeline: Timeline) -> tuple[BoolArray, BoolArray]:
    """Which rows of own work, and which calls, lie in an extent ``[rows], [calls]``."""
    own, calls, locations = timeline.own, timeline.calls, timeline.locations
    of_rank = np.zeros(timeline.ranks + 1, np.bool_)
    of_rank[[rank for rank in extent.ranks if 0 <= rank < timeline.ranks]] = True
    here = of_rank[locations.rank]
    work = here[burst_locations(timeline)[own.burst]]
    if extent.activities is not None:
        work &= np.isin(own.activity, extent.activities)
    inside = here[calls.location]
    if extent.vertices is not None:
        inside &= np.isin(calls.vertex, extent.vertices)
    if extent.windows_s is not None:
        work &= hold(extent.windows_s, _middles_s(timeline)[own.burst])
        inside &= hold(extent.windows_s, (calls.enter_s + calls.exit_s) / 2)
    return np.asarray(work), np.asarray(inside)


def _middles_s(timeline: Timeline) -> FloatArray:
    """The middle of every burst between calls ``[bursts]``."""
    calls, locations = timeline.calls, timeline.locations
    end_s = np.concatenate((calls.enter_s, locations.end_s))
    begin_s = np.concatenate((np.zeros(len(calls)), locations.start_s))
    begin_s[1 : len(calls)] = calls.exit_s[:-1] if len(calls) else 0.0
    first = calls.first[:-1]
    filled = first < calls.first[1:]
    begin_s[first[filled]] = locations.start_s[filled]
    begin_s[len(calls) :][filled] = calls.exit_s[calls.first[1:][filled] - 1]
    return (begin_s + end_s) / 2
