"""Ranks that are slow as a whole: for everything, by one factor, as on a slow core or host, or in many places of which
none stands out; or for want of a core, which another program takes; perhaps from a step on.

What such a rank spends more lies in all places of the program, and often in none of them much. So its work is compared
as a whole: step by step, which shows since when it is slow, and place by place, which shows whether it is everything. A
rank with more work takes longer in some places and not in others. What is waited for a core is compared by itself: then
it is another program that keeps the rank waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import SlowRank
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.late_ranks.advice import TAKES_CORE
from scalana.detectors.late_ranks.late_ranks import finding_root
from scalana.detectors.rollup.candidates import Candidate, join_entries
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.paths import path_to
from scalana.detectors.thresholds.certainty import MORE_SAMPLES
from scalana.detectors.thresholds.counts import FEWEST_STEPS, SHOWS_THE_NOISE
from scalana.detectors.thresholds.differences import ONE_FACTOR, ORDINARY
from scalana.detectors.thresholds.shares import MAJORITY, NEARLY_ALL, SLIGHT, WORTH_A_FINDING
from scalana.detectors.whatif.replay import Change
from scalana.detectors.when.rank_work import RankWork, began_at, late_since
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.steps.window import periods_of_bursts
from scalana.graphs.structure.psg import PSG, VertexKind

KIND = "slow-rank"
LACKS_CORE = "waiting-for-core"
_PARTS_OF_IT = ("late-ranks", "serial", "unresolved")
"""Kinds of findings about what a slow rank does at one of its places."""


def name_slow_ranks(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings of late ranks, those that are parts of a slow rank's lateness replaced by one of the whole."""
    work = _Work.of(facts)
    if work is None:
        return findings
    slow = work.slow()
    of_causes = [finding for finding in findings if finding.kind not in _PARTS_OF_IT]  # that say why, as lengths do
    slow = [one for one in slow if not work.is_explained(one.rank, of_causes if one.everything else findings)]
    slow += [one for one in work.lacking({one.rank for one in slow}) if not work.is_explained(one.rank, findings)]
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
    kind: str = KIND
    """Whether it works longer, or waits for a core."""


def _alike(slow: Sequence[_Slow], facts: Facts) -> list[list[_Slow]]:
    """The slow ranks of one host that are slow since about the same step belong together."""
    hosts, groups = facts.run.host_of_rank, list[list[_Slow]]()

    def key(one: _Slow) -> tuple[str, str, bool, int]:
        return (hosts[one.rank] if one.rank < len(hosts) else "", one.kind, one.everything, one.since)

    for one in sorted(slow, key=key):
        last = groups[-1][-1] if groups else None
        if last is not None and key(last)[:3] == key(one)[:3] and one.since - last.since < SHOWS_THE_NOISE:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


@dataclass(frozen=True, slots=True)
class _Work:
    """What ranks work in the steps of the steady state."""

    facts: Facts
    entries: IntArray
    """Rows of the blame table that are about own work."""
    cost_s: FloatArray
    """What others wait for that work of each rank ``[ranks]``."""
    suspects: IntArray
    """Ranks for whose work others wait as long as is worth a finding."""
    by_step: RankWork
    """Earlier steps of the run among it, where this is its last part."""
    fewest: int
    """Steps in which a rank must be slow."""
    burst_step: IntArray
    """Row of the step in which the middle of each burst lies, -1 for none ``[bursts]``."""
    burst_rank: IntArray
    """``[bursts]``"""
    row_s: FloatArray
    """Seconds of the rows of own work, without waiting for a core ``[rows]``."""

    @classmethod
    def of(cls, facts: Facts) -> _Work | None:
        """That of a run; None where no rank can be slow, or too few steps or ranks tell."""
        steps, timeline, table = facts.steps, facts.timeline, facts.blame
        if steps is None or facts.is_part:
            return None
        by_step = RankWork.of(timeline, steps).after(facts.earlier_work)
        fewest = FEWEST_STEPS // 2 if facts.causes_only else FEWEST_STEPS
        if len(by_step) < fewest:
            return None
        entries = np.flatnonzero(table.target < table.numbering.transfer)
        rank = timeline.locations.rank[table.location[entries]]
        cost_s = weighted_count(rank, table.seconds[entries], timeline.ranks)
        recorded_s = float((timeline.locations.end_s - timeline.locations.start_s).sum())
        suspects = np.flatnonzero(cost_s >= WORTH_A_FINDING * recorded_s)
        if not len(suspects):
            return None
        step, burst_rank = periods_of_bursts(timeline, steps.periods())
        before = len(by_step) - (len(steps) - steps.warm_up)
        burst_step = np.where(step >= steps.warm_up, step - steps.warm_up + before, -1)
        row_s = np.maximum(timeline.own.seconds - timeline.own.core_wait_s, 0.0)
        return cls(facts, entries, cost_s, suspects, by_step, fewest, burst_step, burst_rank, row_s)

    def slow(self) -> list[_Slow]:
        """Those that take longer for everything, or in many places, in all steps or from one on."""
        others, since = self._late(self.by_step.longer)
        found = [self._slow(rank, at, others) for rank, at in since.items()]
        return [one for one in found if one is not None]

    def lacking(self, slow: Collection[int]) -> list[_Slow]:
        """Those that wait for a core longer than others, but for those that are ``slow``: in all steps, or from one on.
        Ranks that share too few cores do so from the start."""
        others, since = self._late(self.by_step.lacking)
        sharing = set(self.facts.run.cores.sharing())
        rest = {rank: at for rank, at in since.items() if rank not in slow and (at or rank not in sharing)}
        return [self._lacking(rank, at, others) for rank, at in rest.items()]

    def _late(self, more: Callable[[int, IntArray], FloatArray]) -> tuple[IntArray, dict[int, int]]:
        """The other ranks, and the late ones with the row of the step from which on they are, by how much ``more`` a
        rank takes than some others: none where these are half of all or more."""
        ranks = np.arange(self.facts.timeline.ranks)
        few = 2 * len(self.suspects) < len(ranks)
        others = np.setdiff1d(ranks, self.suspects) if few else ranks
        if not (np.median(self.by_step.work_s[:, others], axis=1) > 0.0).all():
            return others, {}
        rows = {rank: late_since(more(rank, others), self.fewest) for rank in self.suspects.tolist()}
        since = {rank: row for rank, row in rows.items() if row is not None}
        if 2 * len(since) >= len(ranks):
            return others, {}
        return others if few else np.setdiff1d(ranks, list(since)), since

    def _slow(self, rank: int, since: int, others: IntArray) -> _Slow | None:
        """A rank that works longer from a step on, if it is in more than one place."""
        vertex, place_s, samples = self._by_place(since)
        usual_s = np.median(place_s[:, others], axis=1)
        times = float(place_s[:, rank].sum() / usual_s.sum())
        more_s, slower = place_s[:, rank] - usual_s, place_s[:, rank] > (1.0 + ORDINARY) * usual_s
        near = _near(place_s[:, rank], usual_s, samples[:, rank], times)
        both = np.stack((place_s[:, rank], usual_s))  # what takes as long as ever may be little of what takes longer
        everything = (both[:, near].sum(axis=1) >= (1.0 - SLIGHT) * both.sum(axis=1)).all()
        if times < 1.0 + ORDINARY or _is_one_part(vertex[slower], more_s[slower], self.facts.psg):
            return None  # which may have more to do: it says nothing of the rest
        removed_s = self._removed_s(rank, since, self.row_s, 1.0 - 1.0 / times)
        return _Slow(rank, times, since, bool(everything), int(np.count_nonzero(slower)), removed_s)

    def _lacking(self, rank: int, since: int, others: IntArray) -> _Slow:
        """A rank that waits for a core beyond its share from a step on."""
        of = self.by_step
        both_s = of.work_s[since:] + of.core_wait_s[since:]
        times = float(both_s[:, rank].sum() / np.median(both_s[:, others], axis=1).sum())
        beyond_s, waited_s = of.lacking_s(rank, others)[since:].sum(), of.core_wait_s[since:, rank].sum()
        removed_s = self._removed_s(rank, since, self.facts.timeline.own.core_wait_s, float(beyond_s / waited_s))
        return _Slow(rank, times, since, False, 0, removed_s, LACKS_CORE)

    def _removed_s(self, rank: int, since: int, row_s: FloatArray, part: float) -> FloatArray:
        """A part of what a rank does from a step on ``[bursts]``."""
        inside = (self.burst_rank == rank) & (self.burst_step >= since)
        seconds = weighted_count(self.facts.timeline.own.burst, row_s, len(inside))
        return np.where(inside, part * seconds, 0.0)

    def is_explained(self, rank: int, findings: Sequence[Finding]) -> bool:
        """Whether findings at places say where a rank is late, for most of what it costs."""
        return sum(one.lost_s for one in findings if rank in one.ranks) >= MAJORITY * float(self.cost_s[rank])

    def _by_place(self, since: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """The vertex of each line of the source ``[places]``, seconds there from a step on, and the samples that show
        them, each ``[places, ranks]``."""
        timeline = self.facts.timeline
        own, activities, ranks = timeline.own, timeline.activities, timeline.ranks
        known, place = np.unique(np.stack((activities.vertex, activities.line)), axis=1, return_inverse=True)
        place = place.reshape(-1)
        rows = np.flatnonzero(self.burst_step[own.burst] >= since)
        key = place[own.activity[rows]] * ranks + self.burst_rank[own.burst[rows]]
        places = int(place.max(initial=-1)) + 1
        columns = (self.row_s[rows], own.samples[rows].astype(np.float64))
        seconds, samples = (weighted_count(key, column, places * ranks).reshape(-1, ranks) for column in columns)
        return known[0, :places], seconds, samples

    def finding(self, group: Sequence[_Slow]) -> Finding | None:
        """One finding of ranks that are slow alike; None where the run would be hardly shorter without."""
        facts, ranks = self.facts, sorted(one.rank for one in group)
        removed_s = np.sum([one.removed_s for one in group], axis=0)
        measured_s, (end_s,) = facts.replay.run_ends_s([Change.of(removed_s)])
        saving_s = max(0.0, measured_s - end_s)
        if saving_s < WORTH_A_FINDING * measured_s:
            return None
        table = facts.blame
        entries = self.entries[np.isin(facts.timeline.locations.rank[table.location[self.entries]], ranks)]
        seconds = np.zeros(len(table.target))
        seconds[entries] = table.seconds[entries]
        at = max(join_entries(facts.blamed), key=lambda one: float(seconds[one.entries].sum()))
        lost_s = float(table.seconds[entries].sum())
        since = group[0].since
        evidence = SlowRank(
            slow_times=float(np.mean([one.times for one in group])),
            slow_since=began_at(self.by_step.number, since, self.fewest),
            slow_everywhere=group[0].everything,
            slow_places=min(one.places for one in group),
        )
        finding = finding_at(at.code_location, ranks, lost_s, facts.psg, group[0].kind)
        finding = replace(
            finding,
            lost_share=lost_s / max(facts.wait_s, 1e-300),
            saving_s=saving_s,
            entries=entries,
            evidence=replace(finding.evidence, slow_rank=evidence),
            advice=TAKES_CORE if group[0].kind == LACKS_CORE else kind_of(KIND).advice,
        )
        candidate = Candidate(facts.blamed, at.code_location, entries, lost_s, ranks)
        return replace(finding, path=path_to(candidate, finding_root(finding)))


def _is_one_part(vertices: IntArray, more_s: FloatArray, psg: PSG) -> bool:
    """Whether what takes longer is in one part of the program, a place or a loop within a step, which may have more to
    do.

    Args:
        vertices: the places that take longer ``[places]``.
        more_s: by how much ``[places]``.
        psg: what they are vertices of.
    """
    of_part: dict[int, float] = {}
    for vertex, seconds in zip(vertices.tolist(), more_s.tolist(), strict=True):
        around = [psg[vertex], *psg.ancestors(vertex)]
        loops = [one.index for one in around if one.kind is VertexKind.LOOP and not psg.makes_steps(one.index)]
        part = loops[-1] if loops else vertex
        of_part[part] = of_part.get(part, 0.0) + seconds
    return max(of_part.values(), default=0.0) >= NEARLY_ALL * sum(of_part.values())


def _near(seconds: FloatArray, usual_s: FloatArray, samples: FloatArray, times: float) -> BoolArray:
    """Which places take ``times`` as long as usual, as well as samples can show that ``[places]``; all are that.

    A place that may as well take as long as usual, for all that its samples show, is none of them."""
    ratio = seconds / np.maximum(usual_s, 1e-300)
    error = MORE_SAMPLES * ratio / np.sqrt(np.maximum(samples, 1.0))
    is_near = np.abs(ratio - times) <= np.maximum(ONE_FACTOR * (times - 1.0), error)
    return np.asarray((usual_s > 0.0) & is_near & (error < times - 1.0))
