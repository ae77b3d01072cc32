"""Calls that a process makes one at a time, each when it has the result of the one before, although several processes
could work on them: ``ray.get(task.remote(...))`` or ``pool.apply(...)`` in a loop.

Whoever takes most of these calls is no slower than the others, and more processes would change nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, OneAtATime
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import CALL_AHEAD
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.shares import MAJORITY, NEARLY_ALL, WORTH_IF_ONCE
from scalana.detectors.whatif.call_pools import find_tasks
from scalana.detectors.whatif.replay import Change
from scalana.detectors.whatif.worker_groups import WorkerGroup, worker_groups
from scalana.graphs.arrays.segments import weighted_count

KIND = "one-at-a-time"


def one_at_a_time(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """A cause for each line at which a process does so, if the run would be shorter with its calls at the same time."""
    found = []
    for group in worker_groups(facts.timeline, facts.run.names, facts.call_pools):
        could_take = _could_take(group, facts)
        calls = sum(len(one.tasks) for one in group.rounds)
        alone = sum(len(one.tasks) == 1 for one in group.rounds)
        if (
            could_take < SEVERAL
            or calls <= could_take
            or alone < NEARLY_ALL * calls
            or not _does_only_this(group, facts)
        ):
            continue
        saving_s = _saving_s(group, could_take, facts)
        if saving_s >= WORTH_IF_ONCE * profile.step_s * profile.steps:
            found.append(_cause(group, OneAtATime(calls, could_take), saving_s, facts))
    return found


def _could_take(group: WorkerGroup, facts: Facts) -> int:
    """How many processes there are like those that took the calls."""
    names = facts.run.names
    roles = {names.role_of(rank) for rank in group.ranks}
    return sum(names.role_of(rank) in roles for rank in range(facts.run.ranks))


def _does_only_this(group: WorkerGroup, facts: Facts) -> bool:
    """Whether who makes the calls makes no others meanwhile, and waits for most of the time: a step of a loop has to be
    done before the next one."""
    begin_s, end_s = group.rounds[0].begin_s, group.rounds[-1].end_s
    tasks, site = find_tasks(facts.timeline), int(group.rounds[0].tasks.site[0])
    others = (facts.timeline.locations.rank[tasks.giver] == group.giver) & (tasks.site != site)
    others &= (tasks.given_s > begin_s) & (tasks.given_s < end_s)
    return not others.any() and group.waited_s(facts.timeline) >= MAJORITY * (end_s - begin_s)


def _saving_s(group: WorkerGroup, could_take: int, facts: Facts) -> float:
    """By how much the run would be shorter if so many calls were done at the same time, as far as cores are there."""
    timeline, bursts, cores = facts.timeline, group.bursts(), facts.run.cores.count(group.ranks)
    count = len(timeline.calls) + len(timeline.locations)
    own = timeline.own
    own_s, cpu_s = (weighted_count(own.burst, column, count) for column in (own.seconds, own.cpu_s))
    computes = float(cpu_s[bursts].sum()) / max(float(own_s[bursts].sum()), 1e-300)
    removed_s = np.zeros(count)
    removed_s[bursts] = own_s[bursts] * (1.0 - max(1.0 / could_take, computes / cores if cores else 0.0))
    measured_s, (end_s,) = facts.replay.run_ends_s([Change.of(removed_s)])
    return max(measured_s - end_s, 0.0)


def _cause(group: WorkerGroup, calls: OneAtATime, saving_s: float, facts: Facts) -> SharedCause:
    timeline, psg, site = facts.timeline, facts.psg, int(group.rounds[0].tasks.site[0])
    place = CodeLocation(TargetKind.OWN, site, psg[site].place.line)
    finding = replace(
        finding_at(place, [group.giver], group.waited_s(timeline), psg, KIND),
        saving_s=saving_s,
        evidence=Evidence(one_at_a_time=calls, callers=callers(site, psg)),
        advice=CALL_AHEAD,
    )
    done = np.unique(timeline.own.activity[np.isin(timeline.own.burst, group.bursts())])
    return SharedCause(finding, Extent(group.ranks, done, np.zeros(0, np.int64)), True)
