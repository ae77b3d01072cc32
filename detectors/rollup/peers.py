"""Processes whose work a finding's is compared with: those of the same role, that do this at all.

A main process that starts workers and waits for them, an idle manager or a driver are no measure for workers: beside
these, any worker does more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate, shares_of
from scalana.detectors.rollup.place_time import place_time
from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.shares import MAJORITY, NEXT_TO_NOTHING
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import Timeline


def peers_of(here: BoolArray, spent_s: FloatArray, timeline: Timeline) -> BoolArray:
    """The other processes that some (``here``) are compared with at a place ``[ranks]``.

    They have the same role, if these have one role, and any others have it. Of those, they are the ones that spend time
    there, if more than half do: the rest has other work. ``spent_s`` is the time there ``[ranks]``.
    """
    others = ~here
    if timeline.has_roles and len(np.unique(timeline.role[here])) == 1:
        same = others & of_same_role(np.flatnonzero(here), timeline)
        others = same if same.any() else others
    doing = others & (spent_s > NEXT_TO_NOTHING * float(spent_s[here].mean()))
    return doing if 2 * np.count_nonzero(doing) > np.count_nonzero(others) else others


def of_same_role(ranks: IntArray, timeline: Timeline) -> BoolArray:
    """Which processes have a role that some processes have, too ``[ranks]``."""
    if not timeline.has_roles:
        return np.ones(timeline.ranks, np.bool_)
    return np.isin(timeline.role, timeline.role[ranks])


def have_own_role(ranks: IntArray, timeline: Timeline) -> bool:
    """Whether some processes have a role that others do not have."""
    return not bool(of_same_role(ranks, timeline).all())


def are_alike(here: BoolArray, spent_s: FloatArray, timeline: Timeline) -> bool:
    """Whether some processes (``here``) are all of a role that spend time at a place, several, and each spends as long.
    ``spent_s`` is the time there ``[ranks]``."""
    if np.count_nonzero(here) < 2 or not have_own_role(np.flatnonzero(here), timeline):
        return False
    same = of_same_role(np.flatnonzero(here), timeline)
    longest_s = float(spent_s[here].max())
    rest_s = float(spent_s[same & ~here].max(initial=0.0))
    return bool(rest_s <= NEXT_TO_NOTHING * longest_s and spent_s[here].min() * (1.0 + ORDINARY) >= longest_s)


def among_peers(candidates: list[Candidate], pools: Sequence[Sequence[int]], blamed: BlamedRun) -> list[Candidate]:
    """Candidates that processes of another role wait for, on those of their ranks that take longer than others of their
    own role, largest first. Where all of the role take as long, it is all of them.

    Ranks of ``pools`` always take as long over the run: whoever is slow does fewer tasks.
    """
    timeline = blamed.timeline
    if not timeline.has_roles:
        return candidates
    compared = [
        candidate if any(set(candidate.ranks) <= set(pool) for pool in pools) else _among_peers(candidate)
        for candidate in candidates
    ]
    return sorted(compared, key=lambda candidate: -candidate.lost_s)


def _among_peers(candidate: Candidate) -> Candidate:
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    role = of_same_role(np.flatnonzero(here), timeline)
    if candidate.code_location.kind != TargetKind.OWN or role.all() or len(np.unique(timeline.role[here])) > 1:
        return candidate
    spent_s = place_time(candidate).wall_s
    doing = role & (spent_s > NEXT_TO_NOTHING * float(spent_s[role].max()))
    if np.count_nonzero(doing) < 2 or not _waited_for_by_others(candidate, role):
        return candidate
    longer = here & (spent_s > (1.0 + ORDINARY) * float(np.median(spent_s[doing])))
    if not longer.any():
        return replace(candidate, ranks=np.flatnonzero(doing).tolist())
    entries = candidate.entries[longer[timeline.locations.rank[table.location[candidate.entries]]]]
    lost_s = float(table.seconds[entries].sum())
    return replace(candidate, entries=entries, lost_s=lost_s, ranks=np.flatnonzero(longer).tolist())


def _waited_for_by_others(candidate: Candidate, role: BoolArray) -> bool:
    """Whether most of what a candidate costs is waiting of processes that have no such ``role`` ``[ranks]``."""
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    groups, hit = table.groups, np.flatnonzero(shares_of(candidate))
    group = table.shares.group[hit]
    seconds = table.flow_s[group] * table.shares.share[hit]
    of_others = ~role[timeline.locations.rank[groups.group_waiter[group]]]
    return float(seconds[of_others].sum()) > MAJORITY * float(seconds.sum())
