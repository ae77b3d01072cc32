"""How much slower a job is than if its operations were all alike, and which of them make it so.

The definitions are those of Lin et al., *Understanding Stragglers in Large Model Training Using What-if Analysis* (OSDI
2025). With T(.) the mean length of a step in a replay without time between operations:

* the **ideal** step: every computing operation takes the mean of its kind, over all ranks, steps and microbatches, and
  every transfer the median of its kind;
* **S** = T(as measured) / T(ideal), the slow-down of the job;
* **S_t**, **S_r**, **S_p** = T(ideal, but the kind t, the replica r, the stage p as measured) / T(ideal);
* **S_w** = min(S_r, S_p), of the worker that holds stage p of replica r;
* **M_W** = (T(measured) - T(measured, but the 3 % of workers with the largest S_w ideal)) / (T(measured) - T(ideal)):
  the share of the loss that single workers explain;
* **M_S**: the same with all operations of the last stage ideal.

Where stages, workers and microbatches differ at once, the ideal of a stage is also that of its slow worker and of its
long microbatches. What a change brings that is really possible is told by :mod:`.even_work`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.whatif.step_work import Durations
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class SlowDown:
    """The slow-down of a job; seconds are those of a step."""

    step_s: float
    """T as measured, without time between operations."""
    ideal_s: float
    by_kind: FloatArray
    """S_t ``[kinds]``."""
    by_replica: FloatArray
    """S_r ``[replicas]``."""
    by_stage: FloatArray
    """S_p ``[stages]``."""
    workers: float
    """M_W; NaN where nothing is lost."""
    last_stage: float
    """M_S; likewise."""

    @property
    def slow_down(self) -> float:
        """S"""
        return self.step_s / self.ideal_s

    @property
    def by_worker(self) -> FloatArray:
        """S_w ``[replicas, stages]``."""
        return np.minimum(self.by_replica[:, None], self.by_stage[None, :])


def slow_down(durations: Durations, slowest: float = 0.03) -> SlowDown:
    """The slow-down of a job, and what of it is which kind's, replica's and stage's; ``slowest`` is the part of the
    workers that M_W is about."""
    job = _Job(durations)
    work = durations.work
    kinds, replicas, stages = (range(int(column.max()) + 1) for column in (work.kind, work.replica, work.stage))
    groups = [job.of(work.kind == kind) for kind in kinds]
    groups += [job.of(work.replica == replica) for replica in replicas]
    groups += [job.of(work.stage == stage) for stage in stages]
    everything, nothing = (job.of(np.full(len(work), whole)) for whole in (True, False))
    step_s, ideal_s, *others = job.steps_s([everything, nothing, *groups])
    by_kind, by_replica, by_stage = np.split(np.array(others) / ideal_s, np.cumsum([len(kinds), len(replicas)]))
    found = SlowDown(step_s, ideal_s, by_kind, by_replica, by_stage, float("nan"), float("nan"))
    if step_s <= ideal_s:
        return found
    slow = job.of(~_slowest(found.by_worker, slowest)[work.replica, work.stage])
    last = job.of(work.stage < len(stages) - 1)
    without = job.steps_s([slow, last])
    workers, last_stage = ((step_s - one) / (step_s - ideal_s) for one in without)
    return replace(found, workers=workers, last_stage=last_stage)


def _slowest(by_worker: FloatArray, part: float) -> BoolArray:
    """The part of the workers with the largest slow-down, at least one of them ``[replicas, stages]``."""
    count = int(np.ceil(by_worker.size * part))
    chosen = np.zeros(by_worker.size, bool)
    chosen[np.argsort(-by_worker.ravel(), kind="stable")[:count]] = True
    return chosen.reshape(by_worker.shape)


@dataclass(frozen=True, slots=True)
class _Mask:
    """What takes as long as was measured; all else is ideal."""

    operations: BoolArray
    """``[operations]``"""
    calls: BoolArray
    """``[calls]``"""


class _Job:
    """Replays a job with some operations as measured and the others ideal."""

    def __init__(self, durations: Durations) -> None:
        self.durations = durations
        work, calls = durations.work, durations.replay.timeline.calls
        count = np.bincount(work.kind)
        self.mean_s = np.bincount(work.kind, durations.own_s) / np.maximum(count, 1)
        self.ideal_transfer_s = _usual_transfers(calls.vertex, calls.operation, durations)
        self.steps = len(np.unique(work.step))

    def of(self, measured: BoolArray) -> _Mask:
        """Operations that are as measured, and with them the calls of locations whose operations all are."""
        work, locations = self.durations.work, self.durations.replay.timeline.locations
        some = np.bincount(work.location, measured, len(locations))
        whole = some == np.bincount(work.location, minlength=len(locations))
        return _Mask(measured, whole[self.durations.replay.timeline.calls.location])

    def steps_s(self, masks: list[_Mask]) -> list[float]:
        """The mean length of a step with each."""
        durations = self.durations
        ideal_s = self.mean_s[durations.work.kind]
        changes = [
            durations.change(
                np.where(mask.operations, durations.own_s, ideal_s),
                np.where(mask.calls, durations.transfer_s, self.ideal_transfer_s),
            )
            for mask in masks
        ]
        return [length_s / self.steps for length_s in durations.lengths_s(changes)]


def _usual_transfers(vertex: IntArray, operation: IntArray, durations: Durations) -> FloatArray:
    """The median transfer of the calls at the same place, in steps ``[calls]``."""
    usual_s = np.zeros(len(vertex))
    _, kind = np.unique(np.column_stack((vertex, operation)), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    for number in range(int(kind.max(initial=-1)) + 1):
        here = durations.within & (kind == number)
        if here.any():
            usual_s[here] = np.median(durations.transfer_s[here])
    return usual_s
