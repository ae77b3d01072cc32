"""Ranks that wait because it is their part in the program: a manager for its workers, a server for its clients, a rank
for the one before it in a pipeline, or for its turn at a lock.

In a collective it shows what is ordinary there, since all take part. In a message it does not: beside a rank that only
hands out work, or waits to begin with it, any other does more. It is not late, though, if most ranks do as much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.detectors.delays.delay_costs import propagate
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.noise.task_farms import COUNTER, TaskFarm
from scalana.detectors.rollup.candidates import Candidate, shares_of
from scalana.detectors.rollup.place_time import place_time, runs_of_ranks
from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.factors import FAR_MORE
from scalana.detectors.thresholds.shares import CLEAR_MAJORITY, LARGELY, MAJORITY, MINOR, PREDOMINANT
from scalana.detectors.whatif.changes import IntervalExcess, comparisons_blamed
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.runtime.operations import BY_NAME, MESSAGES

LOCKS = tuple(BY_NAME[f"win_{name}"].code for name in ("unlock", "flush"))
"""Operations with which one is let into an epoch of a window."""
AMONG, AMONG_UNEVEN = 0.6, 0.45
"""Part of the waiting for a pool's ranks that may be of others of the pool; where some pieces are far larger than most.
"""


def is_ordinary(candidate: Candidate, excess: IntervalExcess) -> bool:
    """Whether ranks wait for messages of a candidate's, or for locks, which compute as much as most: ranks that have no
    work of their own, or that wait for work which those that do it at all do every time. Sleep is ordinary only
    where all ranks do it: workers that sleep may wait for something that is worth to be told."""
    timeline = candidate.blamed.timeline
    shares = excess.shares()
    if shares is None or (sum(shares) < LARGELY and not excess.asleep):
        return False
    if not _most_work_alike(candidate, excess):
        return False
    if not excess.asleep and _stretches_alike(excess, timeline.period_s) and _waiters_idle(candidate):
        return True
    return _done_every_time(candidate, excess) and _handed_on(candidate)


def takes_its_share(candidate: Candidate, excess: IntervalExcess | None, farms: Sequence[TaskFarm]) -> bool:
    """Whether a candidate's ranks are those of a pool that are waited for when they hand in what they have computed,
    but take no longer than others for a task, nor hand in the last one long after them. Who takes longer, and
    does fewer for that, is told as such (see :mod:`scalana.detectors.slow_workers.detector`).

    It is who hands out that may wait for them: if most is waiting of the pool's ranks for each other, or nearly
    half where some pieces are far larger than most, they do not all have work at the same time.
    """
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    if excess is not None:
        shares, work_s = excess.shares(), _work_s(candidate, excess)
        if shares is None or sum(shares) < LARGELY:
            return False
    hit = np.flatnonzero(shares_of(candidate))
    group = table.shares.group[hit]
    seconds = table.flow_s[group] * table.shares.share[hit]
    vertex = table.groups.comparison_vertex[table.groups.group_comparison[group]]
    for farm in farms:
        if float(seconds[np.isin(vertex, list(farm.handing))].sum()) < PREDOMINANT * float(seconds.sum()):
            continue
        ranks = candidate.ranks
        if not set(ranks) <= set(farm.ranks) or not _within(candidate, farm):
            continue
        if not farm.alike(ranks) or not farm.end_together(ranks):
            return False
        if excess is not None and np.delete(work_s, farm.ranks).max(initial=0.0) > MINOR * work_s.max():
            return False
        even = farm.even(ranks)
        if farm.giver == COUNTER:
            return even
        waiter = timeline.locations.rank[table.groups.group_waiter]
        among = np.where(np.isin(waiter, farm.ranks), table.groups.group_wait_s, 0.0)
        flow_s, _ = propagate(among, table.shares)
        part = AMONG if even else AMONG_UNEVEN
        return float((flow_s[group] * table.shares.share[hit]).sum()) <= part * float(seconds.sum())
    return False


def _within(candidate: Candidate, farm: TaskFarm) -> bool:
    """Whether what a candidate's ranks do at its place are tasks of a pool; what is not resolved is."""
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    if candidate.code_location.kind != TargetKind.OWN:
        return candidate.code_location.kind == TargetKind.UNRESOLVED
    own = timeline.own
    wanted = table.numbering.activity_mask(table.target[candidate.entries])
    rows = np.flatnonzero(wanted[own.activity])
    rows = rows[np.isin(timeline.locations.rank[burst_locations(timeline)[own.burst[rows]]], candidate.ranks)]
    inside = float(own.seconds[rows[np.isin(own.burst[rows], farm.burst)]].sum())
    return inside >= PREDOMINANT * float(own.seconds[rows].sum())


def _work_s(candidate: Candidate, excess: IntervalExcess) -> FloatArray:
    """What every rank computes at a candidate's place, or all that it spends there if that is sleep ``[ranks]``."""
    time = place_time(candidate)
    return time.wall_s if excess.asleep else time.cpu_s


def _handed_on(candidate: Candidate) -> bool:
    """Whether those that wait do so for messages or for locks."""
    table = candidate.blamed.table
    hit = np.flatnonzero(shares_of(candidate))
    group = table.shares.group[hit]
    seconds = table.flow_s[group] * table.shares.share[hit]
    handed = np.isin(table.groups.group_operation[group], (*MESSAGES, *LOCKS))
    return float(seconds[handed].sum()) >= PREDOMINANT * float(seconds.sum())


def _done_every_time(candidate: Candidate, excess: IntervalExcess) -> bool:
    """Whether every rank does as much at a candidate's place as any other, or nothing, and most of the candidate's do
    so in every round of the loop around it."""
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    work_s = _work_s(candidate, excess)
    if ((work_s > MINOR * work_s.max()) & (work_s < (1.0 - ORDINARY) * work_s.max())).any():
        return False
    own, calls = timeline.own, timeline.calls
    wanted = table.numbering.activity_mask(table.target[candidate.entries])
    rows = np.flatnonzero(wanted[own.activity] & (own.burst < len(calls)))
    spent_s = weighted_count(own.burst[rows], (own.seconds if excess.asleep else own.cpu_s)[rows], len(calls))
    rank = timeline.locations.rank[calls.location]
    whole_s, squares = (weighted_count(rank, seconds, timeline.ranks) for seconds in (spent_s, spent_s * spent_s))
    runs = runs_of_ranks(candidate.code_location.vertex, timeline, psg)
    if np.count_nonzero(runs) < 2:
        return False
    every = (runs * squares > 0.0) & (whole_s**2 >= CLEAR_MAJORITY * runs * squares)
    return bool(2 * np.count_nonzero(every[candidate.ranks]) > len(candidate.ranks))


def _waiters_idle(candidate: Candidate) -> bool:
    """Whether those that wait do so for messages, and do next to nothing else in the stretches that are compared."""
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    calls, intervals = timeline.calls, table.intervals
    targets = np.unique(table.target[candidate.entries])
    blamed = np.flatnonzero(comparisons_blamed(targets, table)[table.groups.comparison])
    rows = intervals.rows_of(blamed)
    number = np.repeat(np.arange(len(blamed)), intervals.first[blamed + 1] - intervals.first[blamed])
    cpu_s = np.concatenate([[0.0], np.cumsum(timeline.own.cpu_s)])[table.row_of_burst]

    def computed_s(call: IntArray, since: IntArray) -> FloatArray:
        begin = np.where(since >= 0, since + 1, calls.first[calls.location[call]])
        return np.asarray(cpu_s[call + 1] - cpu_s[begin])

    waited_for_s = computed_s(intervals.culprit[blamed], intervals.since_culprit[blamed])[number]
    idle = computed_s(intervals.call[rows], intervals.since_call[rows]) < MINOR * waited_for_s
    idle &= np.isin(timeline.instances.operation[intervals.instance[blamed]], MESSAGES)[number]
    wait_s = intervals.wait_s[rows]
    return float(wait_s[~idle].sum()) <= MINOR * float(wait_s.sum())


def _most_work_alike(candidate: Candidate, excess: IntervalExcess) -> bool:
    """Whether most ranks have the same work, of which none of the candidate's does more: over the run, or, where
    whoever is free takes the next piece, by piece."""
    timeline = candidate.blamed.timeline
    ranks = np.asarray(candidate.ranks)
    work_s = _work_s(candidate, excess)
    largest = float(work_s[ranks].max())
    same = work_s >= MAJORITY * largest
    if largest <= 0.0 or 2 * np.count_nonzero(same) <= timeline.ranks or (excess.asleep and not same.all()):
        return False
    if largest <= (1.0 + ORDINARY) * float(np.median(work_s[same])):
        return True
    if 2 * len(ranks) <= timeline.ranks:
        return False
    over_s = excess.over_s if excess.asleep else excess.over_cpu_s
    late = over_s > 0.0
    rank = timeline.locations.rank[excess.location[late]]
    tasks = np.bincount(rank, minlength=timeline.ranks)[ranks]
    piece_s = weighted_count(rank, over_s[late], timeline.ranks)[ranks] / np.maximum(tasks, 1)
    return bool(piece_s.max() <= (1.0 + ORDINARY) * np.median(piece_s))


def _stretches_alike(excess: IntervalExcess, period_s: float) -> bool:
    """Whether an excess does not come from stretches that compute far more than is ordinary."""
    cpu_s = excess.over_cpu_s[excess.over_cpu_s > 0.0]
    if not len(cpu_s):
        return False
    usual_s = float(np.median(cpu_s))
    larger = cpu_s > FAR_MORE * usual_s + 2.0 * period_s
    return float((cpu_s[larger] - usual_s).sum()) <= MINOR * float(cpu_s.sum())
