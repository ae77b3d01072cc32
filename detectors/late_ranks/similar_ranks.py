"""Ranks that take as long at a place as those that are waited for there, and hide behind these: whoever waits for one
rank after the other waits for the first alone. They are mended together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.peers import are_alike, of_same_role
from scalana.detectors.rollup.place_time import place_time
from scalana.detectors.thresholds.factors import AS_LONG
from scalana.detectors.whatif.replay import Change
from scalana.graphs.metrics import burst_locations


def with_alike(candidate: Candidate, change: Change) -> tuple[Candidate, Change] | None:
    """A candidate with the ranks that take as long at its place, and what goes from the run when all are mended; None
    where there are none, or where these make it more than half of all: then it is the others that do little, unless
    they are all workers of one kind, for which others wait."""
    table, timeline = candidate.blamed.table, candidate.blamed.timeline
    if candidate.code_location.kind != TargetKind.OWN:
        return None
    wall_s = place_time(candidate).wall_s
    blamed = np.intersect1d(candidate.ranks, timeline.locations.rank[table.location[candidate.entries]])
    here_s = float(wall_s[candidate.ranks].mean())
    peers = of_same_role(np.array(candidate.ranks), timeline)
    ranks = np.union1d(candidate.ranks, np.flatnonzero(peers & (wall_s >= AS_LONG * here_s)))
    is_most = 2 * len(ranks) > timeline.ranks and len(ranks) > len(candidate.ranks)
    is_most = is_most and not are_alike(np.isin(np.arange(timeline.ranks), ranks), wall_s, timeline)
    if here_s <= 0.0 or len(ranks) == len(blamed) or is_most:
        return None
    joined = replace(candidate, ranks=ranks.tolist())
    others = np.setdiff1d(np.flatnonzero(peers), ranks)
    usual_s = float(np.median(wall_s[others])) if len(others) else 0.0
    own = timeline.own
    targets = np.unique(table.target[candidate.entries])
    wanted = table.numbering.activity_mask(with_contexts_of_others(targets, joined.ranks, table.work, timeline))
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst]]
    rows = np.flatnonzero(wanted[own.activity] & np.isin(rank, np.setdiff1d(ranks, blamed)))
    part = np.clip(1.0 - usual_s / np.maximum(wall_s, 1e-300), 0.0, 1.0)
    removed, shorter = np.zeros(len(timeline.calls) + len(timeline.locations)), np.zeros(len(timeline.calls))
    np.add.at(removed, own.burst[rows], own.seconds[rows] * part[rank[rows]])
    removed[change.burst] = np.maximum(removed[change.burst], change.removed_s)
    shorter[change.call] = change.shorter_s
    return joined, Change.of(removed, change.earlier_s, shorter)
