"""Waiting charged to what the process that came last had been doing.

As with delay costs (Böhme et al., ICPP 2010): since both last met, what the culprit did more of than the one that
waits. Second by second would be wrong: who comes late to the gradients may have lost its time in the rollout, and be
seen in the forward pass while the others wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import numpy as np

from scalana.detectors.delays.delay_costs import Shares, propagate
from scalana.detectors.delays.sync_intervals import SyncIntervals
from scalana.detectors.rl.loop import COLUMNS, DOINGS, IN_CALL, IN_WAIT, Loop
from scalana.detectors.rl.phases import Doing
from scalana.detectors.thresholds.shares import MINOR
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline

GENERATES, TRAINS = 1, 2
"""Bits of :func:`stages_of`."""


@dataclass(slots=True)
class Charges(ColumnTable):
    """Waiting, by who made it and in what; one row a wait and what of it was."""

    waiter: IntArray
    """Rank that waits ``[rows]``."""
    culprit: IntArray
    """Rank that is waited for, itself at work ``[rows]``."""
    step: IntArray
    """Of the loop ``[rows]``."""
    doing: IntArray
    """What the culprit did more of; ``DOINGS`` where nothing explains it ``[rows]``."""
    stages: IntArray
    """What those do whose waiting it is in the end, as waits are handed on, see :func:`stages_of` ``[rows]``."""
    seconds: FloatArray
    """Rank-seconds of waiting, those handed on by waits of others included ``[rows]``."""
    excess_s: FloatArray
    """By how much the culprit did more of it than this waiter ``[rows]``."""
    call: IntArray
    """Call in which is waited ``[rows]``."""
    begin_s: FloatArray
    """Since when the culprit is compared: when both last met ``[rows]``."""
    end_s: FloatArray
    """When the culprit came ``[rows]``."""
    met: IntArray
    """Code of the operation in which the culprit last met the one that waits, -1 for none ``[rows]``."""


def charge(timeline: Timeline, intervals: SyncIntervals, loop: Loop) -> Charges:
    """Charge the waiting in all steps of a loop. The charges add up to the waiting of the processes' main threads that
    begins in a step, to rounding."""
    calls, locations = timeline.calls, timeline.locations
    row, wait_s, begin, end = _intervals(timeline, intervals, loop.timed)
    who = locations.rank[calls.location[intervals.call[row]]].astype(np.int64)
    late = np.repeat(np.arange(len(intervals.culprit)), np.diff(intervals.first))[row]
    culprit = locations.rank[calls.location[intervals.culprit[late]]].astype(np.int64)
    excess = np.zeros((len(row), COLUMNS))
    for rank, process in enumerate(loop.processes):
        for side, ranks, sign in ((0, culprit, 1.0), (1, who, -1.0)):
            mine = np.flatnonzero(ranks == rank)
            excess[mine] += sign * process.spent_s(begin[side][mine], end[side][mine])
    excess = np.maximum(excess, 0.0)
    excess[:, IN_CALL] = 0.0
    total = excess.sum(axis=1)
    share = np.divide(excess, total[:, None], out=np.zeros_like(excess), where=total[:, None] > 0.0)
    # A wait of the culprit, since both last met, hands its share on to those that made it wait.
    shares = _handed(culprit, begin[0], end[0], who, end[1], wait_s, share[:, IN_WAIT])
    kept = share[:, : DOINGS + 1]
    kept[shares.handed_from, IN_WAIT] = 0.0
    handed = np.bincount(shares.handed_from, shares.handed_share, len(row))
    kept[:, DOINGS] += np.maximum(1.0 - kept.sum(axis=1) - handed, 0.0)
    inside_s = wait_s * _within(loop, who, end[1], wait_s)
    stages = stages_of(loop)
    # Where steps end with what one process does, it comes to others right behind that: what counts is what came before.
    came_s = end[0] if (stages == GENERATES | TRAINS).all() else end[0] - MINOR * (end[0] - begin[0])
    step = np.array([_step_of(loop, int(culprit[each]), float(came_s[each])) for each in range(len(row))], np.int64)
    none = np.zeros(0, np.int64)
    found = [(none, none, none, np.zeros(0))]
    for of in np.unique(stages[who]).tolist():
        flow, left = propagate(np.where(stages[who] == of, inside_s, 0.0), shares)
        seconds = flow[:, None] * kept
        seconds[:, DOINGS] += left
        where, doing = np.nonzero(seconds > 0.0)
        inside = np.flatnonzero(step[where] >= 0)
        found.append((where[inside], doing[inside], np.full(len(inside), of), seconds[where[inside], doing[inside]]))
    where, doing, stage, seconds = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Charges(
        waiter=who[where],
        culprit=culprit[where],
        step=step[where],
        doing=doing,
        stages=stage,
        seconds=seconds,
        excess_s=np.where(doing < DOINGS, excess[where, np.minimum(doing, DOINGS - 1)], 0.0),
        call=intervals.call[row][where].astype(np.int64),
        begin_s=begin[0][where],
        end_s=end[0][where],
        met=_met(timeline, intervals, late)[where],
    )


def stages_of(loop: Loop) -> IntArray:
    """What each process ever does, as bits: :data:`GENERATES` and :data:`TRAINS` ``[ranks]``."""
    stages = np.zeros(len(loop.processes), np.int64)
    for doing, bit in ((Doing.GENERATION, GENERATES), (Doing.TRAINING, TRAINS)):
        stages[loop.that_do(doing)] |= bit
    return stages


def _intervals(
    timeline: Timeline, intervals: SyncIntervals, any_thread: bool
) -> tuple[IntArray, FloatArray, tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Rows of intervals in which a main thread waits for another, or for ``any_thread`` of another process, their
    waits, and begin and end of what is compared, each of the culprit and of the one that waits."""
    calls, locations = timeline.calls, timeline.locations
    late = np.repeat(np.arange(len(intervals.culprit)), np.diff(intervals.first))
    main = locations.is_main[calls.location]
    row = np.flatnonzero((intervals.wait_s > 0.0) & main[intervals.call] & (any_thread | main[intervals.culprit[late]]))

    def begin(since: IntArray, call: IntArray) -> FloatArray:
        start = locations.start_s[calls.location[call]]
        # What one of them waited in the last common operation for others, when both were there, comes after it.
        return np.where(since >= 0, np.minimum(calls.exit_s[np.maximum(since, 0)], intervals.met_s[row]), start)

    culprit = intervals.culprit[late[row]]
    begins = begin(intervals.since_culprit[late[row]], culprit), begin(intervals.since_call[row], intervals.call[row])
    ends = calls.enter_s[culprit], calls.enter_s[intervals.call[row]]
    return row, intervals.wait_s[row], begins, ends


def _within(loop: Loop, who: IntArray, since_s: FloatArray, wait_s: FloatArray) -> FloatArray:
    """Which part of each wait lies in the steps of a process whose time counts ``[waits]``."""
    counted = np.array([process.counted for process in loop.processes])
    bounds = np.array([(process.bounds_s[0], process.bounds_s[-1]) for process in loop.processes])[who]
    inside = np.minimum(since_s + wait_s, bounds[:, 1]) - np.maximum(since_s, bounds[:, 0])
    part = np.where(counted[who], np.clip(inside / np.maximum(wait_s, 1e-300), 0.0, 1.0), 0.0)
    for rank, process in enumerate(loop.processes):
        if process.aside and len(mine := np.flatnonzero((who == rank) & (part > 0.0))):
            # Another thread of it works meanwhile.
            begin_s = np.clip(since_s[mine], *process.bounds_s[[0, -1]])
            end_s = np.clip(since_s[mine] + wait_s[mine], *process.bounds_s[[0, -1]])
            idle_s = process.spent_s(begin_s, end_s)[:, IN_WAIT]
            part[mine] = np.minimum(part[mine], idle_s / np.maximum(wait_s[mine], 1e-300))
    return part


def _met(timeline: Timeline, intervals: SyncIntervals, late: IntArray) -> IntArray:
    """Operation of the call that some intervals of culprits begin with, -1 for none ``[late]``."""
    since = intervals.since_culprit[late]
    operation = timeline.calls.operation[np.maximum(since, 0)].astype(np.int64)
    return np.where(since >= 0, operation, -1)


def _handed(
    culprit: IntArray,
    begin_s: FloatArray,
    end_s: FloatArray,
    who: IntArray,
    enter_s: FloatArray,
    wait_s: FloatArray,
    share: FloatArray,
) -> Shares:
    """Which waits hand a share on to which: those of their culprit between its last meeting and its coming."""
    handed: list[tuple[int, int, float]] = []
    order = np.lexsort((enter_s, who))
    first = np.searchsorted(who[order], np.arange(int(max(who.max(initial=-1), culprit.max(initial=-1))) + 2))
    for row in np.flatnonzero(share > 1e-9).tolist():
        mine = order[first[culprit[row]] : first[culprit[row] + 1]]
        first_in, end = np.searchsorted(enter_s[mine], [begin_s[row], end_s[row]])
        inside = mine[max(int(first_in) - 1, 0) : end]  # one may have begun before
        inside = inside[inside != row]
        part = np.minimum(enter_s[inside] + wait_s[inside], end_s[row]) - np.maximum(enter_s[inside], begin_s[row])
        inside, part = inside[part > 0.0], part[part > 0.0]
        total = part.sum()
        if total > 0.0:
            handed += zip(repeat(row), inside.tolist(), (share[row] * part / total).tolist())
    return Shares.of((), handed)


def _step_of(loop: Loop, rank: int, time_s: float) -> int:
    """The step of a process at a time, -1 outside of all."""
    bounds = loop.processes[rank].bounds_s
    step = int(np.searchsorted(bounds, time_s, side="right")) - 1
    return step if step < loop.steps else -1
