"""Calls in which ranks of a pipeline reduce gradients with the same stage of its replicas."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.measured.replayable import ActionRows
from scalana.detectors.pipeline.model.actions import Kind
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.intervals import length_between
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import OPERATIONS

REDUCES = np.array([row.code for row in OPERATIONS if row.name in ("allreduce", "reduce_scatter", "reduce")])


@dataclass(frozen=True)
class Reductions(ColumnTable):
    """Waiting calls, sorted by rank and time, ``[calls]`` all."""

    rank: IntArray
    """Place in the pipeline."""
    communicator: IntArray
    begin_s: FloatArray
    end_s: FloatArray
    call: IntArray
    """Row in the timeline's calls."""

    def since(self, begin_s: float) -> IntArray:
        """The calls that begin from a time on: rows of the timeline's calls."""
        return self.call[self.begin_s >= begin_s]

    def within_s(self, rank: int, since_s: FloatArray, until_s: FloatArray) -> FloatArray:
        """Seconds of those of a rank that lie in windows ``[windows]``."""
        mine = self.rank == rank
        return length_between(self.begin_s[mine], self.end_s[mine], since_s, until_s)


def find_reductions(timeline: Timeline, ranks: tuple[int, ...]) -> Reductions:
    """Reductions in which one rank of a pipeline meets ranks of none of its stages."""
    calls, instances = timeline.calls, timeline.instances
    place = np.full(max(timeline.ranks, *(rank + 1 for rank in ranks)), -1, np.int64)
    place[list(ranks)] = np.arange(len(ranks))
    of_call = timeline.locations.rank[calls.location].astype(np.int64)
    size = np.diff(instances.first)
    member = np.repeat(np.arange(len(instances)), size)
    ours = np.bincount(member, place[of_call[instances.members]] >= 0, minlength=len(instances))
    chosen = np.isin(instances.operation, REDUCES) & (ours == 1) & (size > 1)
    if not chosen.any():
        nothing = np.zeros(0, np.int64)
        return Reductions(nothing, nothing, np.zeros(0), np.zeros(0), nothing)
    call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    found = chosen[calls.waits] & (place[of_call[call]] >= 0)
    call, at = np.unique(call[found], return_index=True)
    communicator = instances.communicator[calls.waits[found][at]].astype(np.int64)
    rank = place[of_call[call]]
    order = np.lexsort((calls.enter_s[call], rank))
    call = call[order]
    return Reductions(rank[order], communicator[order], calls.enter_s[call], calls.exit_s[call], call)


def after_backward(rows: ActionRows, found: Reductions) -> tuple[ActionRows, Reductions]:
    """Actions without the reductions at the end of backwards, which are told by themselves; and the reductions.

    What is called in forwards as well is no reduction of gradients, but a part of a model that ranks share.
    """
    if not len(found.call):
        return rows, found
    inside = np.zeros(len(found.call), bool)
    forward = rows.kind == Kind.F
    for rank in np.unique(found.rank).tolist():
        mine = np.flatnonzero(forward & (rows.rank == rank))
        mine = mine[np.argsort(rows.begin_s[mine])]
        here = found.rank == rank
        last = np.searchsorted(rows.begin_s[mine], found.begin_s[here], side="right") - 1
        inside[here] = (last >= 0) & (found.begin_s[here] < rows.end_s[mine][np.maximum(last, 0)])
    found = found.take(~np.isin(found.communicator, np.unique(found.communicator[inside])))
    seconds = rows.gradients_s.copy()
    for rank in np.unique(found.rank).tolist():
        mine = np.flatnonzero(~forward & (rows.rank == rank))
        seconds[mine] += found.within_s(rank, rows.begin_s[mine], rows.end_s[mine])
    return replace(rows, end_s=rows.end_s - (seconds - rows.gradients_s), gradients_s=seconds), found


def after_steps_s(rows: ActionRows, found: Reductions, numbers: IntArray, ranks: int) -> FloatArray:
    """Seconds of reductions between the last action of a step and the first of the next ``[steps, ranks]``."""
    seconds = np.zeros((len(numbers), ranks))
    if not len(found.call):
        return seconds
    row = np.searchsorted(numbers, rows.step)
    begin, end = np.full(seconds.shape, np.nan), np.full(seconds.shape, np.nan)
    np.fmin.at(begin, (row, rows.rank), np.fmin(rows.begin_s, rows.wait_begin_s))
    np.fmax.at(end, (row, rows.rank), rows.end_s + rows.gradients_s)
    for rank in range(ranks):
        following = np.append(begin[1:, rank], np.inf)
        known = ~np.isnan(end[:, rank]) & ~np.isnan(following)
        seconds[known, rank] = found.within_s(rank, end[known, rank], following[known])
    return seconds
