"""Slow workers of a task farm, as a detector.

Ranks of a pool that take longer for a task than the others.

Where whoever is free takes the next piece, nobody waits for a slow rank in particular: it does fewer pieces, and the
others do the rest. What that costs is what it takes longer for its pieces, of which each rank of the pool gets a part.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.detector import Outcome
from scalana.detectors.evidence import Evidence, Leaf, TaskTimes
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding, Hop
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.noise.contention import without_turns
from scalana.detectors.noise.task_farms import TaskFarm
from scalana.detectors.reconcile import Verdict, extent_of
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.leaf import place_of_excess
from scalana.detectors.thresholds.shares import WORTH_A_FINDING
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.timeline import Timeline

KIND = "slow-worker"


def detect(farms: list[TaskFarm], blamed: BlamedRun) -> list[Finding]:
    """Return one finding for each pool in which some ranks are slow."""
    timeline = blamed.timeline
    locations = timeline.locations
    job_s = float(locations.end_s.max(initial=0.0) - locations.start_s.min(initial=0.0))
    found = []
    for farm in farms:
        usual_s, slow = farm.usual_s, farm.slow()
        if not slow.any():
            continue
        weight = np.ones(len(farm.burst)) if timeline.unwritten is None else timeline.unwritten.stands_for[farm.burst]
        tasks = weighted_count(farm.rank, weight, timeline.ranks)[farm.ranks]
        lost_s = float(((farm.mean_s - usual_s) * tasks)[slow].sum())
        place = _place(farm, slow, blamed)
        saving_s = _saving_s(farm, slow, lost_s, timeline)
        if saving_s >= WORTH_A_FINDING * job_s and place is not None:
            candidate, leaf = place
            finding = _finding(farm, slow, tasks, lost_s, candidate)
            found.append(replace(finding, saving_s=saving_s, evidence=replace(finding.evidence, leaf=leaf)))
    return found


def _saving_s(farm: TaskFarm, slow: np.ndarray, lost_s: float, timeline: Timeline) -> float:
    """What comes back where slow ranks take no longer: each rank of the pool gets a part of it; in calls the pool is
    played again."""
    if farm.pool is None:
        return lost_s / len(farm.ranks)
    factor = np.ones(timeline.ranks)
    factor[np.asarray(farm.ranks)[slow]] = farm.usual_s / farm.mean_s[slow]
    rank = timeline.locations.rank
    return farm.pool.saved_s(timeline, lambda tasks: tasks.task_s * factor[rank[tasks.worker]])


def _place(farm: TaskFarm, slow: np.ndarray, blamed: BlamedRun) -> tuple[Candidate, Leaf | None] | None:
    """Where slow ranks do more for a piece than is usual there, and the leaf below; None if nowhere."""
    timeline = blamed.timeline
    own, activities = timeline.own, len(timeline.activities)
    member = np.full(len(timeline.calls) + len(timeline.locations), -1)
    member[farm.burst] = np.searchsorted(farm.ranks, farm.rank)
    rows = np.flatnonzero(member[own.burst] >= 0)
    count = np.bincount(member[farm.burst])
    cell = member[own.burst[rows]] * activities + own.activity[rows]
    did_s = weighted_count(cell, own.seconds[rows] - own.core_wait_s[rows], len(count) * activities)
    per_piece: FloatArray = did_s.reshape(len(count), activities) / count[:, None]
    more: FloatArray = np.where(slow[:, None], per_piece - np.median(per_piece, axis=0), 0.0) * count[:, None]
    who, target = np.nonzero(more > 0.0)
    # The first location of a rank is its main thread.
    location = np.searchsorted(timeline.locations.rank, np.asarray(farm.ranks))[who]
    return place_of_excess(location, target, more[who, target], blamed)


def _finding(farm: TaskFarm, slow: np.ndarray, tasks: FloatArray, lost_s: float, candidate: Candidate) -> Finding:
    psg = candidate.blamed.psg
    ranks = np.asarray(farm.ranks)[slow].tolist()
    finding = finding_at(candidate.code_location, ranks, lost_s, psg, KIND)
    times = TaskTimes(
        task_s_here=float(farm.mean_s[slow].mean()),
        task_s_others=float(farm.mean_s[~slow].mean()),
        tasks_here=float(tasks[slow].mean()),
        tasks_others=float(tasks[~slow].mean()),
    )
    return replace(
        finding,
        path=[Hop(ranks[0], finding.file, finding.line, finding.function, finding.vertex_kind, "", 0.0)],
        evidence=replace(Evidence(tasks=times), callers=callers(candidate.code_location.vertex, psg)),
        advice=BY_NAME[KIND].advice,
    )


class SlowWorkers:
    """See :mod:`scalana.detectors.slow_workers.detector`."""

    kinds = (BY_NAME[KIND],)

    def detect(self, facts: Facts) -> Outcome:
        """One finding for each task farm in which some ranks are slow."""
        timeline, psg = facts.timeline, facts.psg
        findings = detect(facts.task_farms, facts.blamed) if facts.task_farms else []
        findings = without_turns(findings, timeline, facts.run)
        return Outcome([Verdict(finding, extent_of(finding, timeline, psg)) for finding in findings])
