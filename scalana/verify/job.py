"""The job that carries a plan out: a rank of torch's pipeline runtime on gloo, whose layers sleep.

    python -m scalana.verify.job JOB.json RANK

Sleeping is by deadline: the first number of an activation or a gradient carries when it was made, on a clock on which
nothing is late; an action sleeps until the later of its own and its producer's time plus what it costs. So a few cores
are enough for many ranks. Only lateness above ``slack_s`` is kept: then the machine was too busy to emulate.

The branch of the input and that of the weights are two functions of autograd: torch's own split of a backward calls
them separately.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

WIDTH = 4
TIME = 0
"""The column of an activation that carries when it was made."""
GARBAGE_S = 60.0
"""Times that far away come from tensors that hold anything (torch finds out shapes)."""


class Clock:
    """The time of one rank on which nothing is late."""

    def __init__(self, slack_s: float) -> None:
        self.slack_s = slack_s
        self.at_s = 0.0
        self.late = 0
        self.whole = True
        """Whether the backward that runs is a whole one."""

    def spend(self, cost_s: float, made_s: float) -> float:
        """Sleep for a cost, from the later of the rank's own time and ``made_s``; the end."""
        now = time.monotonic()
        start = max(self.at_s, made_s if abs(made_s - now) < GARBAGE_S else 0.0)
        if now - start > self.slack_s:
            self.late += now - start < GARBAGE_S
            start = now
        self.at_s = start + cost_s
        left = self.at_s - time.monotonic()
        if left > 0:
            time.sleep(left)
        return self.at_s


class _Input(torch.autograd.Function):  # type: ignore[misc]
    """Sleeps in forward for F, and in backward for I, or for what a whole backward takes beside W."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, clock: Clock, costs: list[float]) -> torch.Tensor:
        ctx.clock, ctx.costs = clock, costs
        y = x.clone()
        y[:, TIME] = clock.spend(costs[0], float(x[0, TIME]))
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        _, whole, back, weight = ctx.costs
        grad = grad.clone()
        cost = max(whole - weight, 0.0) if ctx.clock.whole else back
        grad[:, TIME] = ctx.clock.spend(cost, float(grad[0, TIME]))
        return grad, None, None


class _Weight(torch.autograd.Function):  # type: ignore[misc]
    """Sleeps in backward for W."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, x: torch.Tensor, clock: Clock, costs: list[float]) -> torch.Tensor:
        ctx.clock, ctx.cost = clock, min(costs[3], costs[1]) if costs[1] else costs[3]
        return torch.zeros_like(x) + w.detach() * 0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        ctx.clock.spend(ctx.cost, 0.0)
        return grad.sum(dim=0) * 0, None, None, None


class Stage(torch.nn.Module):  # type: ignore[misc]
    """All layers of a stage as one that takes their time: F, B, I and W."""

    def __init__(self, clock: Clock, costs: list[float]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(WIDTH, dtype=torch.float64))
        self.clock, self.costs = clock, costs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, later. The gradient of the first stage's input is made too: all stages cost what they do."""
        x = x if x.requires_grad else x.detach().requires_grad_()
        y: torch.Tensor = _Input.apply(x, self.clock, self.costs)
        return y + _Weight.apply(self.weight, x.detach(), self.clock, self.costs)


def delay_messages(latency_s: list[list[float]], rank: int) -> None:
    """Let what comes from other ranks be there only after the latency of the link, from when it was made."""
    received: dict[int, tuple[Any, torch.Tensor, float]] = {}
    batch, wait = schedules._batch_p2p, dist.Work.wait

    def batched(ops: list[dist.P2POp], desc: str | None = None) -> list[Any]:
        works = batch(ops, desc=desc)
        for op, work in zip(ops, works, strict=False):
            if op.op is dist.irecv and latency_s[op.peer][rank] > 0:
                received[id(work)] = (work, op.tensor, latency_s[op.peer][rank])
        return works

    def waited(work: Any, *args: Any) -> Any:
        result = wait(work, *args)
        found = received.pop(id(work), None)
        if found is not None:
            made_s = float(found[1].reshape(-1)[TIME]) + found[2]
            now = time.monotonic()
            if abs(made_s - now) < GARBAGE_S:
                time.sleep(max(made_s - now, 0.0))
                found[1].detach()[:, TIME] = made_s
        return result

    schedules._batch_p2p = batched
    dist.Work.wait = waited


def build(job: dict[str, Any], clock: Clock, rank: int) -> tuple[Any, list[PipelineStage]]:
    """The runtime with its order, and the stages of this rank."""
    count = len(job["rank_of_stage"])
    held = [s for s in range(count) if job["rank_of_stage"][s] == rank]
    device = torch.device("cpu")
    stages = [PipelineStage(Stage(clock, job["costs"][s]), s, count, device) for s in held]
    for stage in stages:
        inner = stage.backward_one_chunk

        def backward(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
            clock.whole = bool(kwargs.get("full_backward", True))
            return _inner(*args, **kwargs)

        stage.backward_one_chunk = backward
    runtime = schedules._PipelineScheduleRuntime(stages, job["microbatches"], loss_fn=lambda y, _: (y * 0).sum())
    runtime._load_csv(job["order"])
    return runtime, stages


def main() -> None:
    """Run the steps of this rank; rank 0 writes what they took."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    rank = int(sys.argv[2])
    dist.init_process_group("gloo", init_method=f"file://{job['meeting']}", rank=rank, world_size=job["ranks"])
    clock = Clock(job["slack_s"])
    if any(any(row) for row in job["latency_s"]):
        delay_messages(job["latency_s"], rank)
    runtime, stages = build(job, clock, rank)
    first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
    batch = torch.zeros(job["microbatches"], WIDTH, dtype=torch.float64)
    windows = []
    for step in range(job["steps"] + 1):  # in the first one torch finds out shapes
        dist.barrier()
        clock.late = 0 if step < 2 else clock.late
        begin = clock.at_s = time.monotonic()
        runtime.step(*((batch,) if first else ()), **({"target": torch.zeros(len(batch), 1)} if last else {}))
        windows.append((begin, time.monotonic()))
        for stage in stages:
            stage.submod.zero_grad()
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.gather_object({"windows": windows, "late": clock.late}, everyone if rank == 0 else None)
    if rank == 0:
        Path(job["result"]).write_text(json.dumps(everyone), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
