"""Steps of a table: which operations belong to each, and the time between steps that the table does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.importers.errors import TraceError
from scalana.importers.tables.operation_kinds import Kind, Role
from scalana.importers.tables.operations import UNKNOWN, Operations


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in order, on the axis of the operations, ns."""

    number: IntArray
    """As the table has it ``[steps]``."""
    begin_ns: IntArray
    """When the first rank begins ``[steps]``."""
    end_ns: IntArray
    """When the last rank ends ``[steps]``."""
    notes: tuple[str, ...] = ()
    """What to say of them."""


def steps_of(operations: Operations) -> tuple[Operations, Steps]:
    """The steps; and the operations sorted by rank and begin, on one axis, without the time of steps that the table
    lacks: of a table with every tenth step nothing is known of the nine others.

    Where steps overlap, as those that each count from 0 do, they are put one behind the other. What is in no step stays
    where it is among them.
    """
    numbers = np.unique(operations.step[operations.step != UNKNOWN])
    if not len(numbers):
        return _sorted(operations), Steps(numbers, numbers, numbers)
    at = np.searchsorted(numbers, operations.step)
    begin, end = np.full(len(numbers), np.iinfo(np.int64).max), np.full(len(numbers), np.iinfo(np.int64).min)
    known = operations.step != UNKNOWN
    np.minimum.at(begin, at[known], operations.begin_ns[known])
    np.maximum.at(end, at[known], operations.end_ns[known])
    gap, apart = begin[1:] - end[:-1], np.diff(numbers) != 1
    restarts = bool((begin[1:] <= begin[:-1]).any())
    if restarts:
        cut = gap
    else:
        usual = max(int(np.median(gap[~apart])), 0) if (~apart).any() else 0
        cut = np.where(apart, np.maximum(gap - usual, 0), 0)
    shift = np.concatenate(([0], np.cumsum(cut))).astype(np.int64)
    around = np.maximum(np.searchsorted(begin, operations.begin_ns, side="right") - 1, 0)
    by = shift[np.where(known, at, 0 if restarts else around)]
    moved = replace(operations, begin_ns=operations.begin_ns - by, end_ns=operations.end_ns - by)
    notes = []
    if restarts:
        notes.append("times start again in every step: steps are put one behind the other, and nothing is known of the "
                     "time between them")  # fmt: skip
    if apart.any():
        missing = f"{len(numbers)} of the steps {numbers[0]} to {numbers[-1]}"
        notes.append(f"the table has {missing}; the time of the others is left out")
    return _sorted(moved), Steps(numbers, begin - shift, end - shift, tuple(notes))


def _sorted(operations: Operations) -> Operations:
    return operations.take(np.lexsort((operations.end_ns, operations.begin_ns, operations.rank)))


def numbered(operations: Operations, kinds: Sequence[Kind], file: str) -> Operations:
    """Operations whose stages, replicas and microbatches are all known: by what the table says, or else by order.

    Microbatches are numbered from 0 in every step of a replica, whatever numbers the table has for them.

    Raises:
        TraceError: what the table says of them makes no pipeline.
    """
    action = np.array([kind.action if kind.role is Role.ACTION else "" for kind in kinds])[operations.kind]
    rows = np.flatnonzero(action != "")
    if not len(rows):
        return operations
    stage = operations.stage.copy()
    stage[rows] = _stages(stage[rows], file)
    replica = _replicas(operations, rows, stage, file)
    microbatch = operations.microbatch.copy()
    microbatch[rows] = _microbatches(operations.take(rows), stage[rows], replica[rows], action[rows])
    return replace(operations, stage=stage, replica=replica, microbatch=microbatch)


def _stages(stage: IntArray, file: str) -> IntArray:
    """Stages from 0 on; one for all where none is known."""
    if (stage == UNKNOWN).all():
        return np.zeros_like(stage)
    known = np.unique(stage)
    if known[0] == UNKNOWN:
        raise TraceError(f"{file}: some forwards or backwards have a stage and others none")
    return np.searchsorted(known, stage)


def _replicas(operations: Operations, rows: IntArray, stage: IntArray, file: str) -> IntArray:
    """The replica of every operation, that of its rank: as told, or the n-th rank of each stage is of the n-th."""
    told = operations.replica
    held = np.unique(np.column_stack((stage[rows], operations.rank[rows])), axis=0)
    of_rank = np.full(int(operations.rank.max()) + 1, UNKNOWN, np.int64)
    if (told[rows] != UNKNOWN).all():
        values = np.unique(told[rows])
        of_rank[operations.rank[rows]] = np.searchsorted(values, told[rows])
    else:
        for number in np.unique(held[:, 0]).tolist():
            ranks = held[held[:, 0] == number, 1]
            of_rank[ranks] = np.arange(len(ranks))
    pairs = np.column_stack((held[:, 0], of_rank[held[:, 1]]))
    twice = np.flatnonzero(np.unique(pairs, axis=0, return_counts=True)[1] > 1)
    if len(twice):
        number, replica = np.unique(pairs, axis=0)[twice[0]].tolist()
        ranks = held[(pairs == (number, replica)).all(axis=1), 1].tolist()
        raise TraceError(
            f"{file}: ranks {ranks} hold stage {number} of one replica: the column replica tells them apart"
        )
    return of_rank[operations.rank]


def _microbatches(actions: Operations, stage: IntArray, replica: IntArray, kind: np.ndarray) -> IntArray:
    """Microbatches, numbered from 0 in every step of a replica."""
    number = actions.microbatch.copy()
    if (number == UNKNOWN).any():  # by their order on a rank
        key = np.column_stack((actions.rank, actions.step, stage, np.unique(kind, return_inverse=True)[1].reshape(-1)))
        _, group = np.unique(key, axis=0, return_inverse=True)
        order = np.lexsort((actions.begin_ns, group.reshape(-1)))
        ordered = group.reshape(-1)[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        size = np.diff(np.append(starts, len(ordered)))
        number[order] = np.arange(len(ordered)) - np.repeat(starts, size)
        return number
    every = np.column_stack((actions.step, replica, number))
    several, row = np.unique(every, axis=0, return_inverse=True)
    # The first of its step and replica is number 0.
    starts = np.flatnonzero(np.append(True, (several[1:, :2] != several[:-1, :2]).any(axis=1)))
    place = np.arange(len(several)) - np.repeat(starts, np.diff(np.append(starts, len(several))))
    return np.asarray(place[row.reshape(-1)])
