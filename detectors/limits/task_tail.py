"""Pools of threads that wait for their last, long calls: which these are, and what another order brings.

Pools of processes are not looked at here: their workers make others wait, and are named as late.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, TaskTail
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import advise_tail
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.detectors.whatif.call_pools import CallPool
from scalana.detectors.whatif.task_tails import idle_s, tail_of, thread_pools
from scalana.graphs.metrics import burst_locations
from scalana.graphs.spans.tasks import NamedTasks

KIND = "task-tail"


def task_tail(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """A cause for each pool of threads that would be done earlier with its calls in another order, while its process
    waits for it."""
    named = NamedTasks.of(facts.ppg.spans).of_ranks()
    found = []
    for pool in thread_pools(named) if len(named) else ():
        rank = int(named.rank[pool.rounds[0].tasks.take[0]])
        tail = tail_of(pool, named, None, facts.run.cores.count((rank,)))
        saving_s = min(max(tail.longest_first_s, tail.halves_s), _waits_s(rank, facts))
        if saving_s >= WORTH_IF_ONCE * profile.step_s * profile.steps:
            found.append(_cause(pool, tail, (rank, saving_s), profile, facts))
    return found


def _cause(
    pool: CallPool, tail: TaskTail, saved: tuple[int, float], profile: CausalProfile, facts: Facts
) -> SharedCause:
    """The cause of a process, with its saving."""
    rank, saving_s = saved
    finding = replace(
        finding_at(_place(tail, profile, facts), [rank], idle_s(pool), facts.psg, KIND),
        saving_s=saving_s,
        evidence=Evidence(tail=tail),
        advice=advise_tail(tail),
    )
    none = np.zeros(0, np.int64)
    return SharedCause(finding, Extent((rank,), none, none), True, is_apart=True)


def _waits_s(rank: int, facts: Facts) -> float:
    """Seconds that the main thread of a rank waits for threads of its own."""
    timeline = facts.timeline
    own, rank_of = timeline.own, timeline.locations.rank
    helped = timeline.activities.helper[own.activity]
    mine = rank_of[burst_locations(timeline)[own.burst]] == rank
    return float(own.seconds[helped & mine].sum())


def _place(tail: TaskTail, profile: CausalProfile, facts: Facts) -> CodeLocation:
    """The place at which most is spent of those in the function that the last call is of; of all, where none is."""
    function = tail.tail_last.partition("(")[0]
    inside = [one for one in profile.places if facts.psg.function_of(one.location.vertex) == function]
    most = max(inside or profile.places, key=lambda one: one.mean_s, default=None)
    return most.location if most is not None else CodeLocation(TargetKind.OWN, -1, 0)
