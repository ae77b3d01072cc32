"""What another order of the tasks of a pool would bring, where the ranks of a finding are late with some of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.detectors.evidence import PoolOrder
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.thresholds.factors import DOUBLED
from scalana.detectors.thresholds.shares import MAJORITY, SUBSTANTIAL, WORTH_A_FINDING
from scalana.detectors.whatif.call_pools import CallPool
from scalana.graphs.metrics import burst_locations


def describe_pool(candidate: Candidate, saving_s: float, pools: Sequence[CallPool]) -> PoolOrder | None:
    """Evidence of a candidate whose ranks are late with tasks of a pool; None for any other, and where no order of
    these pays: the pool's ``workers``, ``tasks``, the ``error`` of its replay, and what is saved by the longest first
    (``longest_first_s``) and by pieces of half the length (``halves_s``), 0 where that is not worth it."""
    timeline = candidate.blamed.timeline
    for pool in pools:
        if not _within(candidate, pool):
            continue
        run_s = float(timeline.locations.end_s.max() - timeline.locations.start_s.min())
        least_s = max(WORTH_A_FINDING * run_s, SUBSTANTIAL * saving_s)
        first_s = pool.saved_s(timeline, lambda tasks: tasks.task_s, longest_first=True)
        halves_s = pool.saved_s(timeline, lambda tasks: np.repeat(tasks.task_s / DOUBLED, DOUBLED))
        if max(first_s, halves_s) < least_s:
            return None
        return PoolOrder(
            workers=len(pool.workers),
            tasks=pool.tasks,
            error=pool.error,
            longest_first_s=first_s if first_s >= least_s else 0.0,
            halves_s=halves_s if halves_s >= least_s else 0.0,
        )
    return None


def _within(candidate: Candidate, pool: CallPool) -> bool:
    """Whether most of what a candidate's ranks do at its place is done in tasks of a pool."""
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    own, locations = timeline.own, timeline.locations
    wanted = table.numbering.activity_mask(table.target[candidate.entries])
    location = burst_locations(timeline)[own.burst]
    rows = np.flatnonzero(wanted[own.activity] & np.isin(locations.rank[location], candidate.ranks))
    inside = np.zeros(len(timeline.calls) + len(locations) + 1)
    for each in pool.rounds:
        np.add.at(inside, each.tasks.take + 1, 1)
        np.add.at(inside, each.tasks.reply + 1, -1)
    seconds = own.seconds[rows]
    return float(seconds[np.cumsum(inside)[own.burst[rows]] > 0].sum()) > MAJORITY * float(seconds.sum())
