"""Ranks of `torch.distributed.pipelining`, on gloo, with stages that sleep.

    python -m scalana.verify.jobs.torch_runtime JOB.json

An order of one's own runs in torch's `_PipelineScheduleRuntime`, a standard one in the class that torch has for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

from scalana.verify.jobs.emulation import Clock, Job, start


def delay_messages(job: Job) -> None:
    """Emulate the links, where torch has waited for its messages."""
    received: dict[int, tuple[Any, torch.Tensor, int]] = {}
    batch, wait = schedules._batch_p2p, dist.Work.wait

    def batched(ops: list[dist.P2POp], desc: str | None = None) -> list[Any]:
        works = batch(ops, desc=desc)
        for op, work in zip(ops, works, strict=False):
            if op.op is dist.irecv:
                received[id(work)] = (work, op.tensor, op.peer)
        return works

    def waited(work: Any, *args: Any) -> Any:
        result = wait(work, *args)
        found = received.pop(id(work), None)
        if found is not None:
            job.wait_for_link(found[1], found[2])
        return result

    if any(any(row) for row in job.told["latency_s"]):
        schedules._batch_p2p = batched
        dist.Work.wait = waited


def watch_backwards(stages: Sequence[PipelineStage], clock: Clock) -> None:
    """Let the clock know whether a backward is a whole one."""
    for stage in stages:
        inner = stage.backward_one_chunk

        def backward(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
            clock.whole = bool(kwargs.get("full_backward", True))
            return _inner(*args, **kwargs)

        stage.backward_one_chunk = backward


def loss(output: torch.Tensor, _: Any) -> torch.Tensor:
    """Nothing, with gradients."""
    return (output * 0).sum()


def schedule_of(job: Job, stages: list[PipelineStage], loss_fn: Callable[[Any, Any], torch.Tensor]) -> Any:
    """The schedule of this rank."""
    if name := job.told["schedule"]:
        kind = schedules.get_schedule_class(name)
        one = issubclass(kind, schedules.PipelineScheduleSingle)
        return kind(stages[0] if one else stages, job.microbatches, loss_fn=loss_fn)
    runtime = schedules._PipelineScheduleRuntime(stages, job.microbatches, loss_fn=loss_fn)
    runtime._load_csv(job.told["order"])
    return runtime


def main(job: Job) -> None:
    """Run the steps of this rank."""
    job.meet()
    delay_messages(job)
    held = [s for s, one in enumerate(job.told["stages"]) if one["rank"] == job.rank]
    count = len(job.told["stages"])
    stages = [PipelineStage(job.stage(job.held(s)), s, count, torch.device("cpu")) for s in held]
    watch_backwards(stages, job.clock)
    runtime = schedule_of(job, stages, loss)
    inputs = (job.batches(),) if any(stage.is_first for stage in stages) else ()
    target = {"target": torch.zeros(job.microbatches, 1)} if any(stage.is_last for stage in stages) else {}
    job.measure(lambda: runtime.step(*inputs, **target), [job.held(s) for s in held])


if __name__ == "__main__":
    start(main)
