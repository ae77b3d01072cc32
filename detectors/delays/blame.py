"""The blame table: the seconds of every wait, split without remainder over those whose work made it.

A wait is split over what its culprit did more of than the waiter (and than is ordinary), and shares that fall on waits
of the culprit are handed on to whoever caused those. Compare delay costs in Böhme, Geimer, Wolf, Arnold (ICPP 2010).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scalana.detectors.delays.classes import Compared, Groups, group_waits
from scalana.detectors.delays.contexts import ALONE
from scalana.detectors.delays.delay_costs import Shares, propagate
from scalana.detectors.delays.forks import carried_in
from scalana.detectors.delays.join_waits import work_by_target
from scalana.detectors.delays.splitting import GroupColumns, Rules, RunColumns, SameWork, SumColumns, split_comparisons
from scalana.detectors.delays.summing import InCalls, sum_intervals
from scalana.detectors.delays.sync_intervals import SyncIntervals, find_sync_intervals
from scalana.detectors.delays.targets import Numbering
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.thresholds.shares import EXPLAINED
from scalana.graphs.arrays.columns import concatenate
from scalana.graphs.arrays.hashing import distinct
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.shards import each, portions_of
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import own_first
from scalana.graphs.timeline import Timeline


@dataclass(slots=True)
class BlameTable:
    """Seconds of waiting by (location, target), largest first, with what it was computed from."""

    numbering: Numbering
    location: IntArray
    """``[entries]``"""
    target: IntArray
    """``[entries]``"""
    seconds: FloatArray
    """Rank-seconds of waiting caused ``[entries]``."""
    groups: Groups
    intervals: SyncIntervals
    shares: Shares
    share_entry: IntArray
    """Entry of this table to which each of the shares that come to rest belongs, -1 for none ``[rows of Shares]``."""
    flow_s: FloatArray
    """Rank-seconds that passed through each wait group, its own and those handed on to it ``[wait groups]``."""
    row_of_burst: IntArray
    """Start of the rows of own work of every burst ``[bursts + 1]``."""
    work: IntArray
    """Which activities are the same work in several contexts (see :mod:`~scalana.detectors.delays.contexts`)
    ``[activities]``."""
    choice: IntArray
    """Which of them ranks run instead of each other (see :mod:`~scalana.detectors.delays.choices`)
    ``[activities]``."""
    reaching: dict[bytes, tuple[FloatArray, FloatArray]] = field(default_factory=dict, init=False, repr=False)
    """What :func:`~scalana.detectors.rollup.paths.reaching_entries` gave for entries, which several ask for."""

    def of_excess(self, location: IntArray, activity: IntArray, seconds: FloatArray) -> BlameTable:
        """The same waits, with own work in place of what caused them: activities of locations, and how much more than
        usual they took, each ``[entries]``. What it makes of :attr:`share_entry` has no meaning."""
        order = np.argsort(-seconds, kind="stable")
        return replace(self, location=location[order], target=activity[order], seconds=seconds[order])


def blame(
    timeline: Timeline, waits: WaitStates, work: IntArray | None = None, choice: IntArray | None = None
) -> BlameTable:
    """Split all waiting of a run. The blame adds up to the waiting (to rounding).

    ``work`` is what :func:`~scalana.detectors.delays.contexts.same_work` gives, ``choice`` what
    :func:`~scalana.detectors.delays.choices.find_choices` does; without them, every activity stands alone.
    """
    alone = np.full(len(timeline.activities), ALONE, dtype=np.int64)
    work = alone if work is None else work
    choice = alone if choice is None else choice
    numbering = Numbering.of(timeline)
    row_of_burst = own_first(timeline)
    intervals = find_sync_intervals(timeline, waits)
    groups, runs = group_waits(timeline, intervals)
    shares = split(timeline, waits, row_of_burst, Compared(intervals, groups, runs), numbering, (work, choice))
    flow, left = propagate(groups.group_wait_s, shares)
    culprit = groups.comparison_culprit[groups.group_comparison]
    late_vertex = groups.comparison_vertex[groups.group_comparison]
    location = np.concatenate([culprit[shares.group], culprit])
    target = np.concatenate([shares.target, numbering.unresolved + late_vertex])
    seconds = np.concatenate([flow[shares.group] * shares.share, left])
    width = numbering.wait + 1
    keys, _, number = distinct(location * width + target)
    summed = weighted_count(number, seconds, len(keys))
    order = np.argsort(-summed, kind="stable")
    order = order[summed[order] > 0.0]
    entry = np.full(len(keys), -1, dtype=intervals.call.dtype)
    entry[order] = np.arange(len(order))
    return BlameTable(
        numbering,
        location=keys[order] // width,
        target=keys[order] % width,
        seconds=summed[order],
        groups=groups,
        intervals=intervals,
        shares=shares,
        share_entry=entry[number[: len(shares.group)]],
        flow_s=flow,
        row_of_burst=row_of_burst,
        work=work,
        choice=choice,
    )


def split(
    timeline: Timeline,
    waits: WaitStates,
    row_of_burst: IntArray,
    compared: Compared,
    numbering: Numbering,
    same: tuple[IntArray, IntArray],
) -> Shares:
    """Split each wait group by the excess of its culprit (BACKTRACKING, section 2). ``same`` are which activities are
    one work in several contexts, and which of them ranks run instead of each other.

    Cost: that of summing the stretches; and per comparison, members (sampled ones, of a pool) times activities of the
    culprit.
    """
    groups, runs = compared.groups, compared.runs
    group_first = np.searchsorted(groups.group_comparison, np.arange(len(groups.comparison_culprit) + 1))

    wait_s, call_s = waits.all_s(timeline), timeline.call_s()
    inside = InCalls(wait_s, call_s, waits.instance)
    one_work = _one_work(*same)
    carried = carried_in(timeline, wait_s, call_s, row_of_burst, numbering, groups.group_of_call)

    work = work_by_target(
        timeline, row_of_burst, wait_s, call_s, groups.group_of_call, numbering.transfer, numbering.wait
    )

    of_runs = RunColumns(runs.first, runs.location, runs.waits)
    of_groups = GroupColumns(
        groups.comparison_vertex, groups.comparison_count, group_first, groups.group_waiter, groups.group_waiters,
        groups.group_seen_s,
    )  # fmt: skip
    rules = Rules(numbering.transfer, numbering.unresolved, numbering.wait, timeline.period_s, EXPLAINED)

    def part(at: slice) -> Shares:
        sums = sum_intervals(timeline, inside, work, compared, numbering, carried, at)
        group, target, share = split_comparisons(
            at.start, at.stop, of_runs, SumColumns(sums.first, sums.target, sums.seconds), of_groups, one_work, rules
        )
        handed = target >= numbering.wait
        kept = ~handed
        return Shares(
            group[kept], target[kept], share[kept], group[handed], target[handed] - numbering.wait, share[handed]
        )

    return concatenate(each(part, portions_of(runs.begins[runs.first])), Shares)


def _one_work(context: IntArray, choice: IntArray) -> SameWork:
    """Numbers of works: those of choices follow those of contexts."""
    contexts = int(context.max(initial=ALONE)) + 1
    number = np.stack([context, np.where(choice != ALONE, choice + contexts, ALONE)])
    return SameWork(np.ascontiguousarray(number, np.int64), int(number.max(initial=ALONE)) + 1)
