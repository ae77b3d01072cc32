"""A line that all ranks go through one after the other: each takes as long, and waits while the others do it.

In total no rank does more than another one, so that the comparison of totals names arbitrary ranks, and mending these
alone saves nothing. What costs is the order. It is known when each rank is at the line: ranks whose times overlap are
one round, and all rounds but the longest are saved if the ranks do it at the same time, as far as they have cores for
it, or one does it for all. Where each is there again and again, at other times than the others, it is said what doing
it at the same time saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.evidence import Turn
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.rollup.paths import reaching_entries
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.factors import AS_LONG, FAR_MORE
from scalana.detectors.thresholds.shares import MAJORITY, MINOR, NEXT_TO_NOTHING, SLIGHT
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import MESSAGES, OPERATIONS, Waits

KIND = "in-rounds"
_MEETING = [row.code for row in OPERATIONS if row.waits == Waits.ALL]
_OF_WORK = ("late-ranks", "serial", "waiting-for-core")


def name_rounds(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings of work that ranks do one after the other, as what they are, with what doing it together saves."""
    return [_named(finding, facts) if finding.kind in _OF_WORK else finding for finding in findings]


def without_shared(findings: Sequence[Finding], timeline: Timeline) -> list[Finding]:
    """Without work of workers that others of their role do for as long, so that these alone save nothing with it: what
    all take is told by what limits the run. Ranks without roles may do it in turns."""
    return [finding for finding in findings if not (timeline.has_roles and _is_shared(finding))]


def _is_shared(finding: Finding) -> bool:
    place = finding.evidence.place
    if finding.kind not in _OF_WORK or place is None or place.seconds_others is None:
        return False
    if finding.evidence.together_saving_s is not None or place.seconds_others < AS_LONG * place.seconds_here:
        return False
    return finding.saving_s < NEXT_TO_NOTHING * finding.lost_s


def _named(finding: Finding, facts: Facts) -> Finding:
    if finding.entries is None or _hands_on(finding.entries, facts):
        return finding
    presence = _Presence.of(finding, facts)
    rounds = presence.rounds()
    if len(rounds) < 2:
        if not presence.alternate() or not _waits_for_all(finding.entries, facts):
            return finding
        together_s = _saving_s(presence, [int(presence.seconds.argmax())], facts)
        return replace(finding, evidence=replace(finding.evidence, together_saving_s=together_s))
    longest = max(rounds, key=presence.round_s)
    begin_s = float(facts.timeline.locations.start_s.min())
    turns = [presence.turn(ranks, begin_s) for ranks in rounds]
    return replace(
        finding,
        kind=KIND,
        ranks=sorted(rank for ranks in rounds for rank in ranks),
        saving_s=_saving_s(presence, longest, facts),
        evidence=replace(finding.evidence, turns=turns, behind=None),
        advice=kind_of(KIND).advice,
    )


def _saving_s(presence: _Presence, longest: list[int], facts: Facts) -> float:
    """Seconds by which the run is shorter if all ranks are there while some are, as far as there are cores for it."""
    measured_s, (end_s,) = facts.replay.run_ends_s([Change.of(presence.without_all_but(longest))])
    lack_s = float(facts.run.cores.least_s(presence.cpu_s).max(initial=0.0)) - presence.round_s(longest)
    return max(0.0, measured_s - end_s - max(0.0, lack_s))


def _waits_for_all(entries: IntArray, facts: Facts) -> bool:
    """Whether ranks wait where all wait for each other: what one computes for others by itself is no round."""
    groups = facts.blame.groups
    waited_s = groups.group_wait_s * reaching_entries(entries, facts.blame)[1]
    met = np.isin(groups.group_operation, _MEETING)
    return float(waited_s[met].sum()) >= (1.0 - MINOR) * float(waited_s.sum())


def _hands_on(entries: IntArray, facts: Facts) -> bool:
    """Whether ranks wait in messages for what causes a finding: what one computes is then what the next one needs."""
    groups = facts.blame.groups
    waited_s = groups.group_wait_s * reaching_entries(entries, facts.blame)[1]
    handed = np.isin(groups.group_operation, MESSAGES)
    return float(waited_s[handed].sum()) > MINOR * float(waited_s.sum())


@dataclass(frozen=True, slots=True)
class _Presence:
    """When ranks are at a place, and for how long."""

    timeline: Timeline
    rows: IntArray
    """Their own work there ``[rows]``."""
    rank: IntArray
    """``[rows]``"""
    stay_s: FloatArray
    """When it begins and ends ``[rows, 2]``."""
    seconds: FloatArray
    """``[ranks]``"""
    cpu_s: FloatArray
    """``[ranks]``"""
    since_s: FloatArray
    """Without end for a rank that is there in many short stretches ``[ranks]``."""
    until_s: FloatArray
    """The same ``[ranks]``."""

    @classmethod
    def of(cls, finding: Finding, facts: Facts) -> _Presence:
        """At the place of a finding. What takes a slight part of a rank's time there is not looked at."""
        timeline, table = facts.timeline, facts.blame
        own = timeline.own
        targets = np.unique(table.target[finding.entries])
        targets = targets[targets < table.numbering.transfer]
        activities = with_contexts_of_others(targets, finding.ranks, table.work, timeline)
        rows = np.flatnonzero(np.isin(own.activity, activities) & (own.samples > 0))
        location = burst_locations(timeline)[own.burst[rows]]
        main = timeline.locations.is_main[location]
        rows, rank = rows[main], timeline.locations.rank[location[main]]
        seconds, cpu_s = (weighted_count(rank, each[rows], timeline.ranks) for each in (own.seconds, own.cpu_s))
        since_s, until_s = (edge[own.burst] for edge in gap_edges(timeline))
        since_s[own.seen_row], until_s[own.seen_row] = own.seen_s.T
        begin_s, end_s = np.full(timeline.ranks, np.inf), np.full(timeline.ranks, -np.inf)
        large = own.seconds[rows] > SLIGHT * seconds[rank]
        np.minimum.at(begin_s, rank[large], since_s[rows[large]])
        np.maximum.at(end_s, rank[large], until_s[rows[large]])
        few = weighted_count(rank[large], own.seconds[rows[large]], timeline.ranks) < (1.0 - MINOR) * seconds
        begin_s[few], end_s[few] = -np.inf, np.inf  # in many short stretches
        stay_s = np.stack((since_s[rows], until_s[rows]), axis=1)
        return cls(timeline, rows, rank, stay_s, seconds, cpu_s, begin_s, end_s)

    def rounds(self) -> list[list[int]]:
        """Ranks that are there at the same time, in the order of time; none where not most ranks are there, each as
        long as the others and once, without doing much else meanwhile."""
        ranks = np.flatnonzero(self.seconds > MAJORITY * self.seconds.max(initial=0.0))
        stay_s = self.until_s[ranks] - self.since_s[ranks]
        if 2 * len(ranks) <= self.timeline.ranks or (stay_s > FAR_MORE * self.seconds[ranks]).any():
            return []
        found: list[list[int]] = []
        until_s = -np.inf
        for rank in ranks[np.argsort(self.since_s[ranks], kind="stable")].tolist():
            overlap_s = until_s - self.since_s[rank]
            if found and overlap_s > MINOR * self.seconds[rank]:
                found[-1].append(rank)
            else:
                found.append([rank])
            until_s = max(until_s, float(self.until_s[rank]))
        return found

    def alternate(self) -> bool:
        """Whether most ranks are there, each as long as the others, again and again, and hardly ever two at once."""
        ranks = np.flatnonzero(self.seconds > MAJORITY * self.seconds.max(initial=0.0))
        rows = np.flatnonzero(np.isin(self.rank, ranks))
        stay, first = number_columns(self.timeline.own.burst[self.rows[rows]].astype(np.int64))
        since_s, until_s = np.full(len(first), np.inf), np.full(len(first), -np.inf)
        np.minimum.at(since_s, stay, self.stay_s[rows, 0])
        np.maximum.at(until_s, stay, self.stay_s[rows, 1])
        often = np.bincount(self.rank[rows[first]], minlength=self.timeline.ranks)[ranks]
        if 2 * len(ranks) <= self.timeline.ranks or len(ranks) < SEVERAL or (often < SEVERAL).any():
            return False
        order = np.argsort(since_s, kind="stable")
        since_s, until_s = since_s[order], until_s[order]
        before_s = np.append(-np.inf, np.maximum.accumulate(until_s)[:-1])
        shared_s = np.clip(np.minimum(before_s, until_s) - since_s, 0.0, None)
        return float(shared_s.sum()) <= MINOR * float((until_s - since_s).sum())

    def round_s(self, ranks: list[int]) -> float:
        """How long the longest of some ranks is there."""
        return float(self.seconds[ranks].max())

    def turn(self, ranks: list[int], begin_s: float) -> Turn:
        """What some ranks do together, in seconds of the run, which begins at ``begin_s``."""
        return Turn(sorted(ranks), float(self.since_s[ranks].min()) - begin_s, float(self.seconds[ranks].mean()))

    def without_all_but(self, ranks: list[int]) -> FloatArray:
        """Own work that goes from each burst if only some ranks are there ``[bursts]``."""
        timeline, gone = self.timeline, self.rows[~np.isin(self.rank, ranks)]
        bursts = len(timeline.calls) + len(timeline.locations)
        return weighted_count(timeline.own.burst[gone], timeline.own.seconds[gone], bursts)
