"""What all replicas of a pipeline show together: a slow worker, a heavy stage, microbatches of unequal length.

One pipeline by itself cannot tell a slow worker from a heavy stage: only the same stage of other replicas can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import PipelineTime
from scalana.detectors.pipeline.diagnosis.culprit_findings import FindingMaker
from scalana.detectors.pipeline.diagnosis.culprits import Culprit
from scalana.detectors.pipeline.measured.job_work import job_work
from scalana.detectors.reconcile import Verdict
from scalana.detectors.thresholds.differences import TRUSTED_REPLAY
from scalana.detectors.thresholds.shares import MAJORITY, WORTH_IF_ONCE
from scalana.detectors.whatif.even_work import EvenWork, even_work
from scalana.detectors.whatif.replay import Replay
from scalana.detectors.whatif.slow_down import SlowDown, slow_down
from scalana.detectors.whatif.step_work import Durations
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.actions import KINDS, Pipeline
from scalana.graphs.spans.span_columns import Spans

_FORWARD, _BACKWARD = KINDS.index("F"), KINDS.index("B")


@dataclass(frozen=True)
class Job:
    """All replicas of a pipeline."""

    slow: SlowDown
    even: EvenWork
    ranks: IntArray
    """World rank of every worker ``[replicas, stages]``."""
    kinds: tuple[int, ...]
    """The kinds of operations that it has: places in :attr:`SlowDown.by_kind`."""
    steps: int
    lengths: FloatArray
    """Of every microbatch, 1 is usual ``[microbatches]``."""
    longest: float
    """Length of the longest microbatch of a step, the mean of all steps."""

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self.ranks)

    def saving_s(self, then_s: float) -> float:
        """What a change saves of a step; 0 where it is not worth it."""
        saving = self.even.step_s - then_s
        return saving if saving >= WORTH_IF_ONCE * self.even.step_s else 0.0


def of_job(pipelines: Sequence[Pipeline], spans: Spans, replay: Replay, transfer_s: FloatArray) -> Job | None:
    """The job of some pipelines; None where they are no replicas, or a replay of it is off."""
    work = job_work(pipelines, spans, replay.timeline)
    if work is None or not len(work) or replay.error() > TRUSTED_REPLAY:
        return None
    durations = Durations.of(replay, work, transfer_s)
    even = even_work(durations, _FORWARD, _BACKWARD)
    ranks = np.full(even.factors.worker_s.shape, -1, np.int64)
    ranks[work.replica, work.stage] = replay.timeline.locations.rank[work.location]
    about = work.microbatch >= 0
    key = np.column_stack((work.step, work.replica, work.microbatch))[about]
    each, first = np.unique(key, axis=0, return_index=True)
    lengths = even.factors.length[about][first]
    steps = np.unique(each[:, 0])
    longest = np.zeros(len(steps))
    np.maximum.at(longest, np.searchsorted(steps, each[:, 0]), lengths)
    kinds = tuple(np.unique(work.kind).tolist())
    return Job(slow_down(durations), even, ranks, kinds, len(steps), lengths, float(longest.mean()))


@dataclass(frozen=True)
class Explained:
    """What a job shows as a whole, and what is left to its pipelines."""

    verdicts: list[Verdict]
    culprits: list[list[Culprit]]
    """Of every pipeline, those that are not explained by the whole job."""
    slow_replicas: frozenset[int]
    """Pipelines with a slow worker."""


def explained(job: Job, makers: Sequence[FindingMaker], culprits: Sequence[Sequence[Culprit]]) -> Explained:
    """Findings about the job, with the makers and culprits of its pipelines."""
    several = job.replicas > 1
    workers, slow = _slow_workers(job, makers) if several else ([], frozenset())
    left = [[one for one in own if p not in slow or one.cause != "imbalance"] for p, own in enumerate(culprits)]
    stages, left = _heavy_stage(job, makers, left) if several else ([], left)
    lengths = _lengths(job, makers)
    if lengths:
        left = [[one for one in own if one.cause != "straggler"] for own in left]
    return Explained([*workers, *stages, *lengths], left, slow)


def _slow_workers(job: Job, makers: Sequence[FindingMaker]) -> tuple[list[Verdict], frozenset[int]]:
    """Workers that take longer than those of the same stage in other replicas, and their replicas."""
    saving_s = job.saving_s(job.even.workers_s)
    factors = job.even.factors
    slow = np.argwhere(factors.slow_workers)
    if not saving_s or not len(slow):
        return [], frozenset()
    slow = slow[np.argsort(-factors.slower[tuple(slow.T)], kind="stable")]
    replica, stage = (int(at) for at in slow[0])
    time = PipelineTime(
        worker_s=float(factors.worker_s[replica, stage]),
        peers_s=float(factors.stage_s[stage]),
        times=float(factors.slower[replica, stage]),
        stage=stage,
    )
    ranks = list(dict.fromkeys(job.ranks[tuple(slow.T)].tolist()))
    # A replica whose worker is an ordinary one shows what is usual there.
    usual = int(np.argsort(factors.slower[:, stage], kind="stable")[(job.replicas - 1) // 2])
    lost_s = saving_s * job.steps * (job.ranks.size - len(slow))  # all others wait
    verdict = makers[replica].worker(ranks, stage, makers[usual], time, (lost_s, saving_s * job.steps))
    return [verdict], frozenset(slow[:, 0].tolist())


def _heavy_stage(
    job: Job, makers: Sequence[FindingMaker], culprits: list[list[Culprit]]
) -> tuple[list[Verdict], list[list[Culprit]]]:
    """Stages that take longer than others in most replicas: one finding for what each pipeline shows by itself, and
    what else each shows. Where lighter stages would not shorten a step of the job, there is none."""
    of = [(p, one) for p, own in enumerate(culprits) for one in own if one.cause == "imbalance"]
    if not of:
        return [], culprits
    number, worst = max(of, key=lambda pair: pair[1].lost_s)
    same = [(p, one) for p, one in of if set(one.stages) & set(worst.stages)]
    if len(same) <= MAJORITY * job.replicas:
        return [], culprits
    left = [[one for one in own if (p, one) not in same] for p, own in enumerate(culprits)]
    saving_s = job.saving_s(job.even.stages_s)
    if not saving_s:
        return [], left
    verdict = makers[number].of_culprit(worst)
    ranks = [int(rank) for stage in worst.stages for rank in np.unique(job.ranks[:, stage])]
    lost_s = sum(one.lost_s * makers[p].steps * len(makers[p].recorded.ranks) for p, one in same)
    saving_s = min(saving_s, worst.saving_s) * makers[number].steps
    finding = replace(verdict.finding, ranks=list(dict.fromkeys(ranks)), lost_s=lost_s, saving_s=saving_s)
    return [replace(verdict, finding=makers[number].shared(finding))], left


def _lengths(job: Job, makers: Sequence[FindingMaker]) -> list[Verdict]:
    """Microbatches that differ in length, alike in forward and backward and on all stages."""
    saving_s = job.saving_s(job.even.lengths_s)
    if not saving_s:
        return []
    usual_s = float(job.even.factors.stage_s.mean())
    correlation = job.even.correlation
    time = PipelineTime(
        long_s=usual_s * job.longest,
        usual_s=usual_s,
        times=job.longest,
        correlation=None if np.isnan(correlation) else correlation,
    )
    ranks = sorted(set(job.ranks.ravel().tolist()))
    lost_s = saving_s * job.steps * len(ranks)
    return [makers[0].lengths(ranks, time, (lost_s, saving_s * job.steps))]
