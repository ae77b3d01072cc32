"""What the jobs share: layers that sleep instead of computing, and a rank's way through the steps.

Sleeping is by deadline: the first number of an activation or a gradient carries when it was made, on a clock on which
nothing is late; an action sleeps until the later of its own and its producer's time plus what it costs. So a few cores
are enough for many ranks. Only lateness above ``slack_s`` is kept: it is a message that was waited for, or then the
machine was too busy to emulate.

The branch of the input and that of the weights are two functions of autograd: torch's own split of a backward calls
them separately.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

WIDTH = 4
TIME = 0
"""The column of an activation that carries when it was made."""
GARBAGE_S = 60.0
"""Times that far away come from tensors that hold anything (engines find out shapes)."""


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
        self.at_s = self.now_s(made_s) + cost_s
        sleep_until(self.at_s)
        return self.at_s

    def now_s(self, made_s: float = 0.0) -> float:
        """The rank's own time, or ``made_s`` if that is later; lateness above the slack is kept, and counted."""
        now = time.monotonic()
        start = max(self.at_s, made_s if abs(made_s - now) < GARBAGE_S else 0.0)
        if now - start <= self.slack_s:
            return start
        self.late += now - start < GARBAGE_S
        return now


def sleep_until(moment_s: float) -> None:
    """Sleep until a moment of the monotonic clock."""
    left_s = moment_s - time.monotonic()
    if left_s > 0:
        time.sleep(left_s)


def made_s(tensor: torch.Tensor) -> float:
    """When a tensor was made, by the clock of its maker."""
    return float(tensor.reshape(-1)[TIME])


class _Input(torch.autograd.Function):  # type: ignore[misc]
    """Sleeps in forward for F, and in backward for I, or for what a whole backward takes beside W."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, clock: Clock, costs: list[float]) -> torch.Tensor:
        ctx.clock, ctx.costs = clock, costs
        y = x.clone()
        y[..., TIME] = clock.spend(costs[0], made_s(x))
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        _, whole, back, weight = ctx.costs
        grad = grad.clone()
        cost = max(whole - weight, 0.0) if ctx.clock.whole else back
        grad[..., TIME] = ctx.clock.spend(cost, made_s(grad))
        return grad, None, None


class _Weight(torch.autograd.Function):  # type: ignore[misc]
    """Sleeps in backward for W."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, x: torch.Tensor, clock: Clock, costs: list[float]) -> torch.Tensor:
        ctx.clock, ctx.cost = clock, min(costs[3], costs[1]) if costs[1] else costs[3]
        return torch.zeros_like(x) + w.detach() * 0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        ctx.clock.spend(ctx.cost, made_s(grad))
        return grad.reshape(-1, WIDTH).sum(dim=0) * 0, None, None, None


class Sleeper(torch.nn.Module):  # type: ignore[misc]
    """A layer, or all layers of a stage, that take their time: F, B, I and W in seconds."""

    def __init__(self, clock: Clock, costs: list[float]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(WIDTH))
        self.clock, self.costs = clock, costs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, later. The gradient of the first stage's input is made too: all stages cost what they do."""
        x = x if x.requires_grad else x.detach().requires_grad_()
        y: torch.Tensor = _Input.apply(x, self.clock, self.costs)
        return y + _Weight.apply(self.weight, x.detach(), self.clock, self.costs)


class Job:
    """What a rank is told, and its place among the others."""

    def __init__(self, told: dict[str, Any], rank: int) -> None:
        self.told, self.rank, self.ranks = told, rank, int(told["ranks"])
        self.microbatches = int(self.told["microbatches"])
        self.clock = Clock(self.told["slack_s"])
        os.environ |= {"RANK": str(self.rank), "LOCAL_RANK": str(self.rank), "WORLD_SIZE": str(self.ranks)}
        torch.set_num_threads(1)

    def meet(self) -> None:
        """Find the other ranks."""
        dist.init_process_group(
            "gloo", init_method=f"file://{self.told['meeting']}", rank=self.rank, world_size=self.ranks
        )

    def held(self, stage: int) -> list[int]:
        """The layers of a stage by the plan."""
        first = sum(len(one["layers"]) for one in self.told["stages"][:stage])
        return list(range(first, first + len(self.told["stages"][stage]["layers"])))

    def layer(self, index: int) -> Sleeper:
        """An emulated layer. The first of a stage has the host's time."""
        begins = any(self.held(stage)[0] == index for stage in range(len(self.told["stages"])))
        host_s = self.told["host_s"] if begins else 0.0
        return Sleeper(self.clock, [cost + host_s for cost in self.told["layers"][index]["costs"]])

    def stage(self, held: Sequence[int]) -> Sleeper:
        """All layers of a stage as one."""
        rows = [self.told["layers"][index]["costs"] for index in held]
        return Sleeper(self.clock, [sum(column) + self.told["host_s"] for column in zip(*rows, strict=True)])

    def wait_for_link(self, tensor: torch.Tensor, source: int) -> None:
        """Let what came from a rank be there only after the latency of the link, from when it was made."""
        latency_s = self.told["latency_s"][source][self.rank]
        if latency_s <= 0:
            return
        there_s = made_s(tensor) + latency_s
        now = time.monotonic()
        if abs(there_s - now) < GARBAGE_S:
            sleep_until(there_s)
            tensor.detach()[..., TIME] = there_s

    def batches(self) -> torch.Tensor:
        """The input of a step, a row a microbatch."""
        return torch.zeros(self.microbatches, WIDTH, dtype=torch.float64)

    def measure(
        self, step: Callable[[], Any], parts: Sequence[Sequence[int]], actions: Callable[[], Any] = lambda: []
    ) -> None:
        """Run the steps; rank 0 writes what they took.

        Args:
            step: runs one step on this rank, without its optimizer.
            parts: the layers of each stage that the engine gave this rank.
            actions: says, after the steps, what actions took: kind, stage and seconds of each.
        """
        windows = []
        for number in range(self.told["steps"] + 1):  # in the first one engines find out shapes
            dist.barrier()
            self.clock.late = 0 if number < 2 else self.clock.late
            begin = self.clock.at_s = time.monotonic()
            step()
            windows.append((begin, time.monotonic()))
        everyone: list[Any] = [None] * self.ranks
        said = {"windows": windows, "late": self.clock.late, "parts": [*map(list, parts)], "actions": actions()}
        dist.gather_object(said, everyone if self.rank == 0 else None)
        if self.rank == 0:
            Path(self.told["result"]).write_text(json.dumps(everyone), encoding="utf-8")
        dist.destroy_process_group()


def start(main: Callable[[Job], None]) -> None:
    """Run a job in a process a rank, all forked from this one: engines take seconds to import.

    Ends with 1 as soon as a rank has failed, and with what that one said.
    """
    file = Path(sys.argv[1])
    told = json.loads(file.read_text(encoding="utf-8"))
    logs: dict[int, Path] = {}
    for rank in range(told["ranks"]):
        log = file.parent / f"rank-{rank}.log"
        child = os.fork()
        if not child:
            _run(main, told, rank, log)
        logs[child] = log
    while logs:
        child, status = os.wait()
        log = logs.pop(child)
        if status:
            for other in logs:
                os.kill(other, signal.SIGKILL)
            sys.exit(log.read_text(encoding="utf-8", errors="replace"))


def _run(main: Callable[[Job], None], told: dict[str, Any], rank: int, log: Path) -> None:
    """Be a rank, to its end."""
    code = 1
    try:
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        main(Job(told, rank))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
