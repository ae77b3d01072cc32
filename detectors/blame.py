"""The blame table: the seconds of every wait, split without remainder over those whose work made it.

A wait is split over what its culprit did more of than the waiter (and than is ordinary), and shares that fall on waits
of the culprit are handed on to whoever caused those. Compare delay costs in Böhme, Geimer, Wolf, Arnold (ICPP 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.grouping import Groups, Sums, group_waits, sum_stretches
from scalana.detectors.segments import sum_by_key, weighted_count
from scalana.detectors.splitting import split_comparisons
from scalana.detectors.stretches import Stretches, find_stretches
from scalana.detectors.targets import Numbering
from scalana.detectors.waits import WaitStates
from scalana.graphs.timeline import FloatArray, IntArray, Timeline

EXPLAINED = 0.8
"""Share of a wait that the excess must explain, before it is taken for the whole cause."""
LARGEST_FLOW_STEPS = 10_000
"""Hops after which what is still handed on (a circle of waits) is left unresolved."""


@dataclass(slots=True)
class Shares:
    """How each wait group is split. Per group the shares of both tables add up to 1."""

    group: IntArray
    target: IntArray
    """Where the culprit's work made the wait; see :class:`Numbering` ``[rows]``."""
    share: FloatArray
    handed_from: IntArray
    handed_to: IntArray
    """Wait groups of the culprit to which a share is handed on ``[hand-overs]``."""
    handed_share: FloatArray


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
    stretches: Stretches
    sums: Sums
    shares: Shares
    flow_s: FloatArray
    """Rank-seconds that passed through each wait group, its own and those handed on to it ``[wait groups]``."""


def blame(timeline: Timeline, waits: WaitStates) -> BlameTable:
    """Split all waiting of a run. The blame adds up to the waiting (to rounding)."""
    numbering = Numbering.of(timeline)
    stretches = find_stretches(timeline, waits)
    groups = group_waits(timeline, stretches)
    sums = sum_stretches(timeline, waits, stretches, groups, numbering)
    shares = split(groups, sums, numbering, timeline.period_s)
    flow, left = propagate(groups.group_wait_s, shares)
    culprit = groups.comparison_culprit[groups.group_comparison]
    late_vertex = groups.comparison_vertex[groups.group_comparison]
    location = np.concatenate([culprit[shares.group], culprit])
    target = np.concatenate([shares.target, numbering.unresolved + late_vertex])
    seconds = np.concatenate([flow[shares.group] * shares.share, left])
    width = numbering.wait + 1
    keys, summed = sum_by_key(location * width + target, seconds)
    order = np.argsort(-summed, kind="stable")
    order = order[summed[order] > 0.0]
    return BlameTable(
        numbering, keys[order] // width, keys[order] % width, summed[order], groups, stretches, sums, shares, flow
    )


def propagate(wait_s: FloatArray, shares: Shares) -> tuple[FloatArray, FloatArray]:
    """Hand the waits on until they rest.

    Returns the seconds that passed through each group, and those that were still under way when it was stopped.
    """
    count = len(wait_s)
    flow = wait_s.copy()
    moving = wait_s.copy()
    enough = 1e-12 * max(float(wait_s.sum()), 1e-300)
    for _ in range(LARGEST_FLOW_STEPS):
        moving = weighted_count(shares.handed_to, moving[shares.handed_from] * shares.handed_share, count)
        if moving.sum() <= enough:
            return flow, np.zeros(count)
        flow += moving
    flow -= moving
    return flow, moving


def split(groups: Groups, sums: Sums, numbering: Numbering, period_s: float) -> Shares:
    """Split each wait group by the excess of its culprit (BACKTRACKING, section 2).

    Cost: per comparison, members (sampled ones, of a pool) times activities of the culprit.
    """
    comparisons = len(groups.comparison_culprit)
    if not comparisons or not len(groups.group_wait_s):
        none, zero = np.zeros(0, dtype=np.int64), np.zeros(0)
        return Shares(none, none, zero, none, none, zero)
    edges = np.arange(comparisons + 1)
    group, target, share = split_comparisons(
        np.searchsorted(sums.comparison, edges),
        sums.location,
        sums.target,
        sums.seconds,
        groups.comparison_culprit,
        groups.comparison_vertex,
        groups.comparison_count,
        np.searchsorted(groups.group_comparison, edges),
        groups.group_waiter,
        groups.group_waiters,
        groups.group_wait_s,
        groups.present_first,
        groups.present_location,
        groups.present_waits,
        numbering.transfer,
        numbering.unresolved,
        numbering.wait,
        period_s,
        EXPLAINED,
    )
    handed = target >= numbering.wait
    return Shares(
        group[~handed],
        target[~handed],
        share[~handed],
        group[handed],
        target[handed] - numbering.wait,
        share[handed],
    )
