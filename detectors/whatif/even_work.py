"""What a job would take if stages, workers or microbatches were alike, each by itself.

The seconds of an operation are taken apart as

    usual cost of its kind and stage x of its worker over that x length of its microbatch x rest

A worker holds a stage of a replica; its usual cost is the median of its own operations, that of the stage the lower
median of its workers: one that is slow alone has no say. The length is what all operations of a microbatch have in
common: the lower median of what they take, relative to what their workers usually take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.certainty import BY_CHANCE
from scalana.detectors.thresholds.factors import HELD_UP
from scalana.detectors.thresholds.seconds import SHORTEST_S
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.detectors.whatif.step_work import Durations, StepWork
from scalana.graphs.arrays.segments import quantiles
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Factors:
    """What the durations of operations are made of."""

    of_microbatch: BoolArray
    """Whether an operation is about a microbatch: of others nothing is changed ``[operations]``."""
    worker_s: FloatArray
    """Usual seconds of a microbatch, all kinds together ``[replicas, stages]``."""
    stage_s: FloatArray
    """The same of the workers of a stage, as they usually are ``[stages]``."""
    worker: FloatArray
    """Of every operation, what its worker usually takes over what the workers of its stage do ``[operations]``."""
    stage: FloatArray
    """What those of its stage usually take over the mean of all stages ``[operations]``."""
    length: FloatArray
    """Of its microbatch, 1 is usual ``[operations]``."""

    @property
    def slower(self) -> FloatArray:
        """How many times as long as those of its stage each worker takes ``[replicas, stages]``."""
        return np.asarray(self.worker_s / np.maximum(self.stage_s, SHORTEST_S))

    @property
    def slow_workers(self) -> BoolArray:
        """Workers that are clearly slower than others of their stage, and not much less so than the slowest one
        ``[replicas, stages]``."""
        most = max(float(self.slower.max(initial=1.0)), HELD_UP)
        return np.asarray(self.slower >= 1.0 + MAJORITY * (most - 1.0)) & (self.slower >= HELD_UP)


@dataclass(frozen=True, slots=True)
class EvenWork:
    """What changes bring, each alone; seconds of a step."""

    step_s: float
    """As it is, without time between operations."""
    workers_s: float
    """If slow workers took what others of their stage do."""
    stages_s: float
    """If all stages took their mean."""
    lengths_s: float
    """If all microbatches had the mean length."""
    stages_and_lengths_s: float
    """Both."""
    factors: Factors
    correlation: float
    """Of what forwards and backwards of the same microbatch take, relative to what their workers usually take; NaN
    where there are not both."""


def even_work(durations: Durations, forward: int, backward: int) -> EvenWork:
    """What even work would bring; ``forward`` and ``backward`` are kinds of operations."""
    work, own_s = durations.work, durations.own_s
    found = factors_of(work, own_s)
    about = found.of_microbatch
    slow = found.slow_workers[work.replica, work.stage] & about
    mean_length = float(own_s[about].sum() / (own_s[about] / found.length[about]).sum())
    equal_s = np.where(about, own_s / found.length * mean_length, own_s)
    evened = (
        own_s,
        np.where(slow, own_s / found.worker, own_s),
        own_s / found.stage,
        equal_s,
        equal_s / found.stage,
    )
    steps = len(np.unique(work.step))
    changes = [durations.change(each, durations.transfer_s) for each in evened]
    step_s, workers_s, stages_s, lengths_s, both_s = (length_s / steps for length_s in durations.lengths_s(changes))
    correlation = _correlation(work, own_s, forward, backward)
    return EvenWork(step_s, workers_s, stages_s, lengths_s, both_s, found, correlation)


def factors_of(work: StepWork, own_s: FloatArray) -> Factors:
    """Take the seconds of operations ``[operations]`` apart."""
    of_microbatch = work.microbatch >= 0
    rows = np.flatnonzero(of_microbatch)
    replicas, stages, kinds = (int(column.max(initial=0)) + 1 for column in (work.replica, work.stage, work.kind))
    place = (work.replica * stages + work.stage) * kinds + work.kind
    flat = np.zeros(replicas * stages * kinds)
    worker, median = _lower_medians(place[rows], own_s[rows])
    flat[worker] = np.maximum(median, SHORTEST_S)
    usual: FloatArray = flat.reshape(replicas, stages, kinds)
    length, by_worker, by_stage = (np.ones(len(work)) for _ in range(3))
    at = work.replica[rows], work.stage[rows], work.kind[rows]
    length[rows] = _common(work.take(rows), own_s[rows] / usual[at])
    longer = _longer_by_chance(usual, work.replica[rows], length[rows])
    usual, length[rows] = usual / longer[:, None, None], length[rows] * longer[at[0]]
    of_stage = np.maximum(_lower_median(usual), SHORTEST_S)
    mean = of_stage.mean(axis=0)
    by_worker[rows] = usual[at] / of_stage[at[1:]]
    by_stage[rows] = of_stage[at[1:]] / mean[at[2]]
    return Factors(of_microbatch, usual.sum(axis=2), of_stage.sum(axis=1), by_worker, by_stage, length)


def _lower_median(of_replica: FloatArray) -> FloatArray:
    """The lower median over replicas, which come first."""
    return np.asarray(np.sort(of_replica, axis=0)[(len(of_replica) - 1) // 2])


def _longer_by_chance(usual_s: FloatArray, replica: IntArray, length: FloatArray) -> FloatArray:
    """By which factor the microbatches of a replica are usually longer than those of others, where lengths vary so much
    that this is chance; 1 where it is not, and the replica is slow ``[replicas]``.

    Args:
        usual_s: of workers ``[replicas, stages, kinds]``.
        replica: of some operations ``[operations]``.
        length: of their microbatches, in their replica ``[operations]``.
    """
    of_worker = usual_s.sum(axis=2)
    slower = np.sort(of_worker / np.maximum(_lower_median(of_worker), SHORTEST_S), axis=1)
    slower = slower[:, (slower.shape[1] - 1) // 2]  # what its stages have in common
    count = np.maximum(np.bincount(replica, minlength=len(slower)), 1)
    mean, square = (np.bincount(replica, each, len(slower)) / count for each in (length, length**2))
    # Of a microbatch there are as many operations as stages and kinds.
    microbatches = np.maximum(count / max(int((usual_s[0] > 0).sum()), 1), 1)
    # The difference of two medians has the standard error sigma sqrt(pi / n).
    error = np.sqrt(np.maximum(square - mean**2, 0.0) * np.pi / microbatches)
    return np.where(np.abs(slower - 1.0) <= BY_CHANCE * error * slower, slower, 1.0)


def _common(work: StepWork, relative: FloatArray) -> FloatArray:
    """What the operations of a microbatch have in common ``[operations]``."""
    key = np.column_stack((work.step, work.replica, work.microbatch))
    _, number = np.unique(key, axis=0, return_inverse=True)
    _, median = _lower_medians(number.reshape(-1), relative)
    return np.maximum(median, SHORTEST_S)[number.reshape(-1)]


def _lower_medians(key: IntArray, value: FloatArray) -> tuple[IntArray, FloatArray]:
    """The distinct keys in order, and the lower median of the values of each."""
    keys, number = np.unique(key, return_inverse=True)
    (median,) = quantiles(number.reshape(-1), value, (0.5,), (False,))
    return keys, median


def _correlation(work: StepWork, own_s: FloatArray, forward: int, backward: int) -> float:
    """Pearson's correlation of forwards with the backwards of the same microbatch and worker, relative to the usual."""
    relative = []
    for kind in (forward, backward):
        rows = np.flatnonzero(work.kind == kind)
        order = rows[np.lexsort((work.microbatch[rows], work.stage[rows], work.replica[rows], work.step[rows]))]
        _, worker = np.unique(np.column_stack((work.replica[order], work.stage[order])), axis=0, return_inverse=True)
        worker = worker.reshape(-1)
        mean = np.bincount(worker, own_s[order]) / np.maximum(np.bincount(worker), 1)
        relative.append(own_s[order] / np.maximum(mean[worker], SHORTEST_S))
    if len(relative[0]) != len(relative[1]) or len(relative[0]) < 2 or min(np.std(one) for one in relative) <= 0.0:
        return float("nan")
    forwards, backwards = relative
    return float(np.corrcoef(forwards, backwards)[0, 1])
