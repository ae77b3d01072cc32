"""Ranks that are slow as a whole: for everything, by one factor, as on a slow core or host, or in many places of which
none stands out; perhaps from a step on.

What such a rank spends more lies in all places of the program, and often in none of them much. So its work is compared
as a whole: step by step, which shows since when it is slow, and place by place, which shows whether it is everything. A
rank with more work takes longer in some places and not in others. What is waited for a core is left out: then it is
another program that keeps the rank waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import SlowRank
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks.late_ranks import finding_root
from scalana.detectors.rollup.candidates import Candidate, join_entries
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.paths import path_to
from scalana.detectors.thresholds.certainty import MORE_SAMPLES
from scalana.detectors.thresholds.counts import FEWEST_STEPS, SHOWS_THE_NOISE
from scalana.detectors.thresholds.differences import ONE_FACTOR, ORDINARY
from scalana.detectors.thresholds.shares import MAJORITY, NEARLY_ALL, SLIGHT, WORTH_A_FINDING
from scalana.detectors.whatif.replay import Change
from scalana.detectors.when.cost_trend import Shape, trend_of
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.window import gap_edges

KIND = "slow-rank"
_PARTS_OF_IT = ("late-ranks", "serial", "unresolved")
"""Kinds of findings about what a slow rank does at one of its places."""


def name_slow_ranks(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings of late ranks, those that are parts of a slow rank's lateness replaced by one of the whole."""
    work = _Work.of(facts)
    if work is None:
        return findings
    slow = [one for rank in work.suspects() if (one := work.slow(rank)) is not None]
    slow = [one for one in slow if one.everything or not work.is_explained(one.rank, findings)]
    found = [finding for group in _alike(slow, facts) if (finding := work.finding(group)) is not None]
    ranks = {rank for finding in found for rank in finding.ranks}
    rest = [one for one in findings if one.kind not in _PARTS_OF_IT or not set(one.ranks) <= ranks or not one.ranks]
    return sorted([*found, *rest], key=lambda one: -one.lost_s) if found else findings


@dataclass(frozen=True, slots=True)
class _Slow:
    """A rank that is slow."""

    rank: int
    times: float
    since: int
    """Row of the step from which on; 0: in all."""
    everything: bool
    """Whether it is so in nearly all places, by one factor."""
    places: int
    """In which it takes longer."""
    removed_s: FloatArray
    """What it takes longer for it ``[bursts]``."""


def _alike(slow: Sequence[_Slow], facts: Facts) -> list[list[_Slow]]:
    """The slow ranks of one host that are slow since about the same step belong together."""
    hosts, groups = facts.run.host_of_rank, list[list[_Slow]]()

    def key(one: _Slow) -> tuple[str, bool, int]:
        return (hosts[one.rank] if one.rank < len(hosts) else "", one.everything, one.since)

    for one in sorted(slow, key=key):
        last = groups[-1][-1] if groups else None
        if last is not None and key(last)[:2] == key(one)[:2] and one.since - last.since < SHOWS_THE_NOISE:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


@dataclass(frozen=True, slots=True)
class _Work:
    """What ranks work in the steps of the steady state, without waiting for a core."""

    facts: Facts
    number: IntArray
    """Of the steps ``[steps]``."""
    burst_step: IntArray
    """Row of the step in which the middle of each burst lies, -1 for none ``[bursts]``."""
    burst_rank: IntArray
    """``[bursts]``"""
    row_s: FloatArray
    """Seconds of the rows of own work ``[rows]``."""

    @classmethod
    def of(cls, facts: Facts) -> _Work | None:
        """That of a run; None where it has too few steps or ranks to tell."""
        steps, timeline = facts.steps, facts.timeline
        if steps is None or facts.is_part or timeline.ranks < 3 or len(steps) - steps.warm_up < FEWEST_STEPS:
            return None
        start_s, end_s = (times[steps.steady()] for times in steps.on_all_ranks())
        begin, end = gap_edges(timeline)
        middle, rank = (begin + end) / 2, timeline.locations.rank[burst_locations(timeline)].astype(np.int64)
        step = np.full(len(middle), -1)
        for one in range(timeline.ranks):
            mine = np.flatnonzero(rank == one)
            at = np.searchsorted(start_s[:, one], middle[mine], side="right") - 1
            inside = (at >= 0) & (middle[mine] < end_s[np.maximum(at, 0), one])
            step[mine[inside]] = at[inside]
        own = timeline.own
        return cls(facts, steps.number[steps.steady()], step, rank, np.maximum(own.seconds - own.core_wait_s, 0.0))

    def suspects(self) -> list[int]:
        """Ranks for whose work others wait long enough for it to be worth a finding: fewer than half of all."""
        timeline, table = self.facts.timeline, self.facts.blame
        own = self._own_entries()
        rank = timeline.locations.rank[table.location[own]]
        lost_s = weighted_count(rank, table.seconds[own], timeline.ranks)
        recorded_s = float((timeline.locations.end_s - timeline.locations.start_s).sum())
        found = np.flatnonzero(lost_s >= WORTH_A_FINDING * recorded_s)
        return found.tolist() if 2 * len(found) < timeline.ranks else []

    def _own_entries(self) -> IntArray:
        """Rows of the blame table that are about own work."""
        table = self.facts.blame
        kinds = [table.numbering.describe(target)[0] for target in table.target.tolist()]
        return np.flatnonzero([kind == TargetKind.OWN for kind in kinds])

    def slow(self, rank: int) -> _Slow | None:
        """A rank that takes longer for everything, in all steps or from one on; None for any other."""
        others = np.setdiff1d(np.arange(self.facts.timeline.ranks), self.suspects())
        in_step = self._by_step()
        usual_s = np.median(in_step[:, others], axis=1)
        if not (usual_s > 0.0).all():
            return None
        more = np.maximum(in_step[:, rank] / usual_s - 1.0, 0.0)
        trend = trend_of(more)
        jumps = trend is not None and trend.shape is Shape.JUMP and trend.before_s < ORDINARY <= trend.after_s
        since = trend.jump if jumps and trend is not None else 0
        late = more[since:]
        if len(late) < FEWEST_STEPS or float((late >= ORDINARY).mean()) < NEARLY_ALL:
            return None
        place_s, samples = self._by_place(since)
        usual_s = np.median(place_s[:, others], axis=1)
        times = float(place_s[:, rank].sum() / usual_s.sum())
        slower = place_s[:, rank] > (1.0 + ORDINARY) * usual_s
        near = _near(place_s[:, rank], usual_s, samples[:, rank], times)
        both = np.stack((place_s[:, rank], usual_s))  # what takes as long as ever may be little of what takes longer
        everything = (both[:, near].sum(axis=1) >= (1.0 - SLIGHT) * both.sum(axis=1)).all()
        if times < 1.0 + ORDINARY or np.count_nonzero(slower) < 2:
            return None  # a place alone says nothing of the rest
        inside = (self.burst_rank == rank) & (self.burst_step >= since)
        worked_s = weighted_count(self.facts.timeline.own.burst, self.row_s, len(inside))
        removed_s = np.where(inside, worked_s * (1.0 - 1.0 / times), 0.0)
        return _Slow(rank, times, since, bool(everything), int(np.count_nonzero(slower)), removed_s)

    def is_explained(self, rank: int, findings: Sequence[Finding]) -> bool:
        """Whether findings at places say where a rank is late, for most of what it costs."""
        timeline, table = self.facts.timeline, self.facts.blame
        own = self._own_entries()
        cost_s = float(table.seconds[own[timeline.locations.rank[table.location[own]] == rank]].sum())
        return sum(one.lost_s for one in findings if rank in one.ranks) >= MAJORITY * cost_s

    def _by_step(self) -> FloatArray:
        """``[steps, ranks]``"""
        own, ranks = self.facts.timeline.own, self.facts.timeline.ranks
        step, rank = self.burst_step[own.burst], self.burst_rank[own.burst]
        there = step >= 0
        key = step[there] * ranks + rank[there]
        return weighted_count(key, self.row_s[there], len(self.number) * ranks).reshape(-1, ranks)

    def _by_place(self, since: int) -> tuple[FloatArray, FloatArray]:
        """Seconds at each line of the source from a step on, and the samples that show them, each
        ``[places, ranks]``."""
        timeline = self.facts.timeline
        own, activities, ranks = timeline.own, timeline.activities, timeline.ranks
        _, place = np.unique(np.stack((activities.vertex, activities.line)), axis=1, return_inverse=True)
        place = place.reshape(-1)
        rows = np.flatnonzero(self.burst_step[own.burst] >= since)
        key = place[own.activity[rows]] * ranks + self.burst_rank[own.burst[rows]]
        places = int(place.max(initial=-1)) + 1
        columns = (self.row_s[rows], own.samples[rows].astype(np.float64))
        seconds, samples = (weighted_count(key, column, places * ranks).reshape(-1, ranks) for column in columns)
        return seconds, samples

    def finding(self, group: Sequence[_Slow]) -> Finding | None:
        """One finding of ranks that are slow alike; None where the run would be hardly shorter without."""
        facts, ranks = self.facts, sorted(one.rank for one in group)
        removed_s = np.sum([one.removed_s for one in group], axis=0)
        measured_s, (end_s,) = facts.replay.run_ends_s([Change.of(removed_s)])
        saving_s = max(0.0, measured_s - end_s)
        if saving_s < WORTH_A_FINDING * measured_s:
            return None
        table, own = facts.blame, self._own_entries()
        entries = own[np.isin(facts.timeline.locations.rank[table.location[own]], ranks)]
        at = max(
            (one for one in join_entries(facts.blamed) if set(one.entries.tolist()) & set(entries.tolist())),
            key=lambda one: float(table.seconds[np.intersect1d(one.entries, entries)].sum()),
        )
        lost_s = float(table.seconds[entries].sum())
        since = group[0].since
        evidence = SlowRank(
            slow_times=float(np.mean([one.times for one in group])),
            slow_since=int(self.number[since]) if since else None,
            slow_everywhere=group[0].everything,
            slow_places=min(one.places for one in group),
        )
        finding = finding_at(at.code_location, ranks, lost_s, facts.psg, KIND)
        finding = replace(
            finding,
            lost_share=lost_s / max(facts.wait_s, 1e-300),
            saving_s=saving_s,
            entries=entries,
            evidence=replace(finding.evidence, slow_rank=evidence),
        )
        candidate = Candidate(facts.blamed, at.code_location, entries, lost_s, ranks)
        return replace(finding, path=path_to(candidate, finding_root(finding)))


def _near(seconds: FloatArray, usual_s: FloatArray, samples: FloatArray, times: float) -> BoolArray:
    """Which places take ``times`` as long as usual, as well as samples can show that ``[places]``; all are that."""
    ratio = seconds / np.maximum(usual_s, 1e-300)
    error = MORE_SAMPLES * ratio / np.sqrt(np.maximum(samples, 1.0))
    return np.asarray((usual_s > 0.0) & (np.abs(ratio - times) <= np.maximum(ONE_FACTOR * (times - 1.0), error)))
