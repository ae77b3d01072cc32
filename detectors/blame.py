"""The blame table: the seconds of every wait, split without remainder over those whose work made it.

A wait is split over what its culprit did more of than the waiter (and than is ordinary), and shares that fall on waits
of the culprit are handed on to whoever caused those. Compare delay costs in Böhme, Geimer, Wolf, Arnold (ICPP 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.grouping import Groups, Sums, group_waits, sum_stretches
from scalana.detectors.segments import sum_by_key, weighted_count
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

    Cost: per comparison, members times activities of the culprit.
    """
    pieces: list[tuple[IntArray, IntArray, FloatArray]] = []
    bounds = np.searchsorted(sums.comparison, np.arange(len(groups.comparison_culprit) + 1))
    group_order = np.argsort(groups.group_comparison, kind="stable")
    group_bounds = np.searchsorted(groups.group_comparison[group_order], np.arange(len(groups.comparison_culprit) + 1))
    for comparison in range(len(groups.comparison_culprit)):
        members = group_order[group_bounds[comparison] : group_bounds[comparison + 1]]
        if not len(members):
            continue
        rows = slice(bounds[comparison], bounds[comparison + 1])
        pieces += _split_comparison(
            groups,
            comparison,
            members,
            groups.present_location[slice(*groups.present_first[comparison : comparison + 2])],
            sums.location[rows],
            sums.target[rows],
            sums.seconds[rows],
            numbering,
            period_s,
        )
    if not pieces:
        none, zero = np.zeros(0, dtype=np.int64), np.zeros(0)
        return Shares(none, none, zero, none, none, zero)
    group = np.concatenate([piece[0] for piece in pieces])
    target = np.concatenate([piece[1] for piece in pieces])
    share = np.concatenate([piece[2] for piece in pieces])
    handed = target >= numbering.wait
    return Shares(
        group[~handed],
        target[~handed],
        share[~handed],
        group[handed],
        target[handed] - numbering.wait,
        share[handed],
    )


def _split_comparison(
    groups: Groups,
    comparison: int,
    members: IntArray,
    others: IntArray,
    location: IntArray,
    target: IntArray,
    seconds: FloatArray,
    numbering: Numbering,
    period_s: float,
) -> list[tuple[IntArray, IntArray, FloatArray]]:
    """Split the wait groups ``members`` of one comparison; returns (group, target, share) columns."""
    culprit = groups.comparison_culprit[comparison]
    count = int(groups.comparison_count[comparison])
    late = location == culprit
    late_target, late_s = target[late], seconds[late]
    is_wait = late_target >= numbering.wait
    columns = late_target[~is_wait]
    did = np.append(late_s[~is_wait], late_s[is_wait].sum())  # all waits are compared as one total, the last column
    usual = np.zeros((len(others), len(columns) + 1))
    row = np.searchsorted(others, location[~late])
    other_target = target[~late]
    column = np.searchsorted(columns, other_target)
    known = column < len(columns)
    known[known] = columns[column[known]] == other_target[known]
    np.add.at(usual, (row[known], column[known]), seconds[~late][known])
    waited = other_target >= numbering.wait
    np.add.at(usual, (row[waited], np.full(int(waited.sum()), len(columns))), seconds[~late][waited])

    median = np.median(usual, axis=0) if len(others) >= 2 else np.zeros(len(columns) + 1)
    noise = _sampling_noise(did, count, period_s)
    noise[-1] = 0.0
    noise[:-1][columns >= numbering.transfer] = 0.0  # calls are timed, not sampled
    result: list[tuple[IntArray, IntArray, FloatArray]] = []
    for group in members:
        wait_s = groups.group_wait_s[group]
        mine = usual[np.searchsorted(others, groups.group_waiter[group])]
        excess = _excess(did, mine, median, noise, wait_s)
        total = float(excess.sum())
        share = excess / (total if total >= EXPLAINED * wait_s else max(wait_s, total))
        rest = max(0.0, 1.0 - float(share.sum())) if total < EXPLAINED * wait_s else 0.0
        own = np.nonzero(share[:-1] > 0.0)[0]
        result.append((np.full(len(own), group), columns[own], share[own]))
        if share[-1] > 0.0:
            to = late_target[is_wait]
            result.append((np.full(len(to), group), to, share[-1] * late_s[is_wait] / did[-1]))
        if rest > 0.0:
            unresolved = numbering.unresolved + groups.comparison_vertex[comparison]
            result.append((np.array([group]), np.array([unresolved]), np.array([rest])))
    return result


def _excess(did: FloatArray, mine: FloatArray, median: FloatArray, noise: FloatArray, wait_s: float) -> FloatArray:
    """What the culprit did more of than the waiter and than is ordinary; where that explains too little of the wait,
    than the waiter alone; then without regard to sampling noise. The last that is tried stands."""
    excess = np.zeros_like(did)
    for reference, floor in (
        (np.maximum(mine, median), noise),
        (mine, noise),
        (np.maximum(mine, median), np.zeros_like(noise)),
        (mine, np.zeros_like(noise)),
    ):
        excess = np.maximum(0.0, did - reference)
        excess[excess <= floor] = 0.0
        if excess.sum() >= EXPLAINED * wait_s:
            return excess
    return excess


def _sampling_noise(seconds: FloatArray, count: int, period_s: float) -> FloatArray:
    """Two standard deviations of the difference of two sampled sums of ``count`` stretches.

    A visit of any length is measured to within one period at random, so its variance is period^2 / 6, and less for
    visits much shorter than a period.
    """
    variance = np.minimum(count * period_s**2 / 6.0, seconds * period_s)
    return np.asarray(2.0 * np.sqrt(2.0 * variance))
