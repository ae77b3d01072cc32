"""How much slower a job is than with even operations: slow workers, heavy stages, microbatches of unequal length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.pipeline.diagnosis.job_causes import Job
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.report import names
from scalana.report.document.sections import Column, Facts, Fit, Row, Section, Table, texts
from scalana.report.topics.pipelines.pipeline import pipelines_of

NAME = "slow_down"

_KINDS = ("forward", "backward", "backward_input", "backward_weight", "optimizer")
"""What kinds of operations are called, as in tables of operations."""
_MOST_WORKERS = 5
_COLUMNS = (
    Column("what if", 14, is_text=True),
    Column("step", 9),
    Column("faster", 7),
    Column("change", is_text=True, fit=Fit.WRAP),
)
_WORKERS = (Column("rank", 5), Column("replica", 7), Column("stage", 5), Column("slow-down", 9))


def job_of(analysis: Analysis) -> Job | None:
    """What all replicas of the pipelines of a run show together."""
    return next((one.job for one in pipelines_of(analysis) if one.job is not None), None)


def sections(analysis: Analysis) -> Sequence[Section]:
    """One, where a job is clearly slower than with even operations."""
    job = job_of(analysis)
    if job is None or job.slow.slow_down < 1.0 + WORTH_IF_ONCE:
        return []
    slow = job.slow
    lead = (
        f"A step takes {names.seconds(slow.step_s)} without the time between operations, {slow.slow_down:.2f} times "
        f"the {names.seconds(slow.ideal_s)} that it would take if all operations of a kind took the same time."
    )
    blocks = ((Facts((lead,)),), (_changes(job), Facts(texts(_shares(job)), is_soft=True)), (*_workers(job),))
    count = f"{_counted(job.replicas, 'replica')} x {_counted(job.ranks.shape[1], 'stage')}"
    return [Section("slow-down", "Slow-down of the job", blocks, count)]


def _changes(job: Job) -> Table:
    even, now_s = job.even, job.even.step_s
    replicas, stages = job.replicas > 1, job.ranks.shape[1] > 1
    rows = [("as it is", now_s, "")]
    rows += [("slow workers", even.workers_s, "as fast as others of their stage")] if replicas else []
    rows += [("equal stages", even.stages_s, "every stage takes the mean of all")] if stages else []
    rows += [("equal lengths", even.lengths_s, "every microbatch takes the mean of all")]
    rows += [("both", even.stages_and_lengths_s, "equal stages and equal lengths")] if stages else []
    rows += [("ideal", job.slow.ideal_s, "every operation takes the mean of its kind")]
    return Table(
        _COLUMNS, tuple(Row((name, names.seconds(s), f"{now_s / s:.2f} x", change)) for name, s, change in rows)
    )


def _shares(job: Job) -> str:
    """The shares of Lin et al., and how like forwards and backwards are."""
    said = []
    if job.replicas > 1:
        said.append(f"The slowest 3 % of the workers explain {names.percent(job.slow.workers)} of the slow-down (M_W).")
    if job.ranks.shape[1] > 1:
        said.append(f"The last stage explains {names.percent(job.slow.last_stage)} of the slow-down (M_S).")
    if not math.isnan(job.even.correlation):
        said.append(f"Forwards and backwards of the same microbatch correlate with {job.even.correlation:.2f}.")
    return " ".join(said)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _workers(job: Job) -> list[Table]:
    """The workers with the largest slow-down, where that is clear."""
    by_worker = job.slow.by_worker
    order = np.argsort(-by_worker.ravel(), kind="stable")[:_MOST_WORKERS]
    places = [np.unravel_index(int(at), by_worker.shape) for at in order]
    rows = [
        Row((str(job.ranks[at]), str(at[0]), str(at[1]), f"{by_worker[at]:.2f} x"))
        for at in places
        if by_worker[at] >= 1.0 + WORTH_IF_ONCE
    ]
    return [Table(_WORKERS, tuple(rows))] if rows and job.replicas > 1 else []


def entries(analysis: Analysis) -> dict[str, Any]:
    """The entry of the JSON report."""
    job = job_of(analysis)
    if job is None:
        return {}
    slow, even = job.slow, job.even
    return {
        NAME: {
            "step_s": slow.step_s,
            "ideal_s": slow.ideal_s,
            "slow_down": slow.slow_down,
            "slowest_workers_share": _known(slow.workers),
            "last_stage_share": _known(slow.last_stage),
            "by_kind": {_KINDS[kind]: float(slow.by_kind[kind]) for kind in job.kinds},
            "by_replica": slow.by_replica.tolist(),
            "by_stage": slow.by_stage.tolist(),
            "ranks": job.ranks.tolist(),
            "correlation": _known(even.correlation),
            "longest": job.longest,
            "what_if": {
                "slow_workers_s": even.workers_s,
                "equal_stages_s": even.stages_s,
                "equal_lengths_s": even.lengths_s,
                "equal_stages_and_lengths_s": even.stages_and_lengths_s,
            },
        }
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
