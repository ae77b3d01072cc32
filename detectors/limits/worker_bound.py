"""Waiting for processes that together are too slow for the one that hands them work, with what more of them would save.

A pool of two workers that plays eight episodes for each update, or one that verifies answers: no worker is late, and a
second pool of the same size would halve the wait.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, WorkerBound
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import advise_workers
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.differences import DEAD_BAND, ORDINARY
from scalana.detectors.thresholds.factors import COMPARABLE, DOUBLED
from scalana.detectors.thresholds.shares import MINOR, WORTH_A_FINDING, WORTH_IF_ONCE
from scalana.detectors.whatif.worker_groups import WorkerGroup, worker_groups
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import IntArray

KIND = "worker-bound"
TIMES = (DOUBLED, DOUBLED**2)
"""As many workers are predicted for, times those that there are."""


def worker_bound(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """A cause for each group of workers that are busy alike while the process that hands them work waits, again and
    again, and does something of its own in between: where it only hands out work, that is what all of the run is."""
    found = []
    for group in worker_groups(facts.timeline, facts.run.names, facts.call_pools):
        steps, step_s, has_steps = _steps(group, profile)
        waited_s = group.waited_s(facts.timeline) / steps
        is_in_turn = has_steps and waited_s >= MINOR * step_s and step_s - waited_s >= WORTH_IF_ONCE * step_s
        busy_s = group.busy_s()
        if is_in_turn and float(busy_s.mean()) >= (1.0 - ORDINARY) * float(busy_s.max()):
            found += _cause(group, _Steps(steps, step_s, waited_s), facts)
    return [cause for cause in found if cause.finding.saving_s >= WORTH_A_FINDING * profile.step_s * profile.steps]


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps in which a process waits for its workers."""

    count: int
    step_s: float
    waited_s: float
    """Of a step."""


def _cause(group: WorkerGroup, steps: _Steps, facts: Facts) -> list[SharedCause]:
    """The cause, if more workers would make a step shorter."""
    timeline = facts.timeline
    cores = facts.run.cores.count(group.ranks)
    measured_s, ends_s = facts.replay.run_ends_s([group.with_more(times, timeline, cores) for times in TIMES])
    saved_s = [max(measured_s - end_s, 0.0) for end_s in ends_s]
    if max(saved_s) < WORTH_IF_ONCE * steps.step_s * steps.count:
        return []
    count = 1 + next(number for number, one_s in enumerate(saved_s) if one_s >= (1.0 - DEAD_BAND) * max(saved_s))
    workers = len(group.ranks)
    bound = WorkerBound(
        worker_wait_s=steps.waited_s,
        step_s=steps.step_s,
        workers=workers,
        worker_names=facts.run.names.many(group.ranks, facts.run.ranks),
        predicted_workers=[times * workers for times in TIMES[:count]],
        predicted_step_s=[steps.step_s - one_s / steps.count for one_s in saved_s[:count]],
    )
    place, activities = _place(group, facts)
    finding = replace(
        finding_at(place, [group.giver], steps.waited_s * steps.count, facts.psg, KIND),
        saving_s=saved_s[count - 1],
        evidence=Evidence(worker_bound=bound, callers=callers(place.vertex, facts.psg)),
        advice=advise_workers(bound),
    )
    return [SharedCause(finding, Extent(group.ranks, activities, np.zeros(0, np.int64)), True, is_apart=True)]


def _steps(group: WorkerGroup, profile: CausalProfile) -> tuple[int, float, bool]:
    """How many steps the run has, what one takes, and whether it has any: from one round of the group's calls to the
    next, where there are no fewer steps."""
    begins_s = [one.begin_s for one in group.rounds]
    rounds = len(begins_s)
    if rounds >= SEVERAL and (not profile.has_steps or rounds <= COMPARABLE * profile.steps):
        return rounds, (begins_s[-1] - begins_s[0]) / (rounds - 1), True
    return profile.steps, profile.step_s, profile.has_steps


def _place(group: WorkerGroup, facts: Facts) -> tuple[CodeLocation, IntArray]:
    """The place that holds most of what workers do in calls, and all activities that they do in these."""
    timeline = facts.timeline
    own, table = timeline.own, timeline.activities
    inside = np.zeros(len(timeline.calls) + len(timeline.locations), np.bool_)
    inside[group.bursts()] = True
    seconds = weighted_count(own.activity, np.where(inside[own.burst], own.seconds, 0.0), len(table))
    activities = np.flatnonzero(seconds > 0.0)
    held: dict[tuple[int, int], float] = defaultdict(float)
    for number in activities.tolist():
        held[int(table.vertex[number]), int(table.line[number])] += float(seconds[number])
    if not held:
        return CodeLocation(TargetKind.OWN, int(timeline.calls.vertex[group.rounds[0].tasks.take[0]]), 0), activities
    vertex, line = max(held, key=lambda place: held[place])
    return CodeLocation(TargetKind.OWN, vertex, line), activities
