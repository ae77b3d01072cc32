"""The same work, whatever call leads to it: ranks of other roles call a function at other lines.

A manager that computes its own share calls the kernel in its branch of the program, the workers call it in theirs.
Neither does it more than the other for that.
"""

from __future__ import annotations

import numpy as np

from scalana.detectors.thresholds.shares import NEXT_TO_NOTHING
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline

ALONE = -1
"""What is done in one context only."""


def same_work(timeline: Timeline, psg: PSG) -> IntArray:
    """A number for all activities at one place of the source that stand in several contexts, :data:`ALONE` for any
    other ``[activities]``."""
    activities = timeline.activities
    numbers: dict[object, int] = {}
    place = np.full(len(activities), ALONE, dtype=np.int64)
    for row, (vertex, line) in enumerate(zip(activities.vertex.tolist(), activities.line.tolist(), strict=True)):
        if not 0 <= vertex < len(psg):
            continue
        at = psg[vertex].place
        site = psg[vertex].site if psg[vertex].kind is VertexKind.CALL else None
        if line <= 0 and at.line <= 0:
            continue  # without a line there is but a name, which others may have, too
        key = at.file, line if line > 0 else at.line, at.name, site
        place[row] = numbers.setdefault(key, len(numbers))
    known = np.flatnonzero(place != ALONE)
    number, first = number_columns(place[known], activities.helper[known].astype(np.int64))
    several = np.bincount(number, minlength=len(first)) > 1
    result = np.full(len(activities), ALONE, dtype=np.int64)
    result[known] = np.where(several, np.cumsum(several) - 1, ALONE)[number]
    return result


def with_contexts_of_others(activities: IntArray, ranks: list[int], work: IntArray, timeline: Timeline) -> IntArray:
    """Activities of a cause on some ranks, and the contexts in which only others do the same work: what these do there
    is what one compares with. Where the ranks themselves do it elsewhere, too, that is another matter.

    ``work`` is what :func:`same_work` gives."""
    several = activities[work[activities] != ALONE]
    if not len(several):
        return activities
    own = timeline.own
    candidates = np.isin(work, work[several])
    rows = np.flatnonzero(candidates[own.activity])
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst[rows]]]
    rows = rows[np.isin(rank, ranks)]
    done_s = weighted_count(own.activity[rows], own.seconds[rows], len(work))
    here_s = weighted_count(work[several], done_s[several], int(work.max()) + 1)
    elsewhere = np.setdiff1d(np.flatnonzero(candidates), activities)
    of_others = elsewhere[done_s[elsewhere] <= NEXT_TO_NOTHING * here_s[work[elsewhere]]]
    return np.union1d(activities, of_others)
