"""Ranks that wait because it is their part in the program: a manager for its workers, a server for its clients.

In a collective it shows what is ordinary there, since all take part. In a message it does not: beside a rank that only
hands out work, any worker does more than "the others". It is no late worker, though, if most ranks do as much.
"""

from __future__ import annotations

import numpy as np

from scalana.detectors.blame import BlameTable
from scalana.detectors.candidates import Candidate
from scalana.detectors.evidence import place_time
from scalana.detectors.savings import StretchExcess, comparisons_blamed
from scalana.detectors.segments import weighted_count
from scalana.detectors.stretches import MESSAGES
from scalana.graphs.psg import PSG
from scalana.graphs.timeline import FloatArray, IntArray, Timeline

COMPUTING = 0.7
"""Part of an excess on a CPU, or waiting for one, from which ranks can be compared by what they compute."""
IDLE = 0.1
"""Part of the CPU seconds of those that are waited for, below which those that wait have no work of their own."""
SAME_WORK = 0.5
"""Part of what a candidate's ranks compute at its place, from which another rank has the same work."""
ALIKE = 0.2
"""Part by which one rank may compute more than is ordinary among those that have the same work."""
LARGER = 2.0
"""So many times what is ordinary a stretch computes that is not like the others."""
RARE = 0.1
"""Part of a candidate's excess, or waiting, that may be of another kind."""


def is_ordinary(candidate: Candidate, excess: StretchExcess, table: BlameTable, timeline: Timeline, psg: PSG) -> bool:
    """Whether ranks without work of their own wait for messages of a candidate's, which compute as much as most."""
    shares = excess.shares()
    return (
        shares is not None
        and sum(shares) >= COMPUTING
        and _most_compute_alike(candidate, excess, table, timeline, psg)
        and _stretches_alike(excess, timeline.period_s)
        and _waiters_idle(candidate, table, timeline)
    )


def _waiters_idle(candidate: Candidate, table: BlameTable, timeline: Timeline) -> bool:
    """Whether those that wait do so for messages, and do next to nothing else in the stretches that are compared."""
    calls, stretches = timeline.calls, table.stretches
    targets = np.unique(table.target[candidate.entries])
    blamed = np.flatnonzero(comparisons_blamed(targets, table)[table.groups.comparison])
    rows = stretches.rows_of(blamed)
    number = np.repeat(np.arange(len(blamed)), stretches.first[blamed + 1] - stretches.first[blamed])
    cpu_s = np.concatenate([[0.0], np.cumsum(timeline.own.cpu_s)])[table.row_of_gap]

    def computed_s(call: IntArray, since: IntArray) -> FloatArray:
        begin = np.where(since >= 0, since + 1, calls.first[calls.location[call]])
        return np.asarray(cpu_s[call + 1] - cpu_s[begin])

    waited_for_s = computed_s(stretches.culprit[blamed], stretches.since_culprit[blamed])[number]
    idle = computed_s(stretches.call[rows], stretches.since_call[rows]) < IDLE * waited_for_s
    idle &= np.isin(timeline.instances.operation[stretches.instance[blamed]], MESSAGES)[number]
    wait_s = stretches.wait_s[rows]
    return float(wait_s[~idle].sum()) <= RARE * float(wait_s.sum())


def _most_compute_alike(
    candidate: Candidate, excess: StretchExcess, table: BlameTable, timeline: Timeline, psg: PSG
) -> bool:
    """Whether most ranks have the same work, of which none of the candidate's does more: over the run, or, where
    whoever is free takes the next piece, by piece."""
    ranks = np.asarray(candidate.ranks)
    cpu_s = place_time(candidate, table, timeline, psg).cpu_s
    largest = float(cpu_s[ranks].max())
    same = cpu_s >= SAME_WORK * largest
    if largest <= 0.0 or 2 * np.count_nonzero(same) <= timeline.ranks:
        return False
    if largest <= (1.0 + ALIKE) * float(np.median(cpu_s[same])):
        return True
    if 2 * len(ranks) <= timeline.ranks:
        return False
    late = excess.over_cpu_s > 0.0
    rank = timeline.locations.rank[excess.location[late]]
    pieces = np.bincount(rank, minlength=timeline.ranks)[ranks]
    piece_s = weighted_count(rank, excess.over_cpu_s[late], timeline.ranks)[ranks] / np.maximum(pieces, 1)
    return bool(piece_s.max() <= (1.0 + ALIKE) * np.median(piece_s))


def _stretches_alike(excess: StretchExcess, period_s: float) -> bool:
    """Whether an excess does not come from stretches that compute far more than is ordinary."""
    cpu_s = excess.over_cpu_s[excess.over_cpu_s > 0.0]
    if not len(cpu_s):
        return False
    usual_s = float(np.median(cpu_s))
    larger = cpu_s > LARGER * usual_s + 2.0 * period_s
    return float((cpu_s[larger] - usual_s).sum()) <= RARE * float(cpu_s.sum())
