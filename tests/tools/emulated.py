"""Stages of pipelines that take the time they are told to, for jobs of any engine.

Every layer sleeps for its forward, its input gradient and its weight gradient, which are branches of their own in the
graph of autograd: a split of the backward calls them separately. Sleeping is by deadline, on the clock of
:mod:`scalana.verify.jobs.emulation`; only lateness above ``--slack-ms`` is kept.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from scalana.verify.jobs.emulation import GARBAGE_S, Clock, sleep_until

__all__ = ["GARBAGE_S"]
"""Handed on to jobs."""

WIDTH = 8
TIME, MICROBATCH, SENT = 0, 1, 2
"""Columns of an activation; when it was sent is by the wall clock, and used where messages are to take time."""


def add_costs(parser: argparse.ArgumentParser) -> None:
    """Options: what layers take, and what is planted in them."""
    parser.add_argument("--f-ms", type=float, default=20.0, help="forward of a usual stage")
    parser.add_argument("--i-ms", type=float, default=20.0, help="its gradient of the input")
    parser.add_argument("--w-ms", type=float, default=20.0, help="its gradient of the weights")
    parser.add_argument("--layers", default="1", help="layers of the stages: 4,4,4,4 (repeated if there are more)")
    parser.add_argument("--per-stage", type=float, default=0, help="layers of a usual stage (the first of --layers)")
    parser.add_argument("--head", type=float, default=0.0, help="a head at the end that costs this many layers")
    parser.add_argument("--slow", type=numbers, action="append", default=[], help="stage:factor")
    parser.add_argument("--straggler", type=numbers, action="append", default=[], help="rank:factor:every")
    parser.add_argument("--lengths", default="1", help="factors of the microbatches in turn: 1,1.5")
    parser.add_argument(
        "--latency", type=numbers, action="append", default=[], help="source:target:ms, or ms for all links"
    )
    parser.add_argument(
        "--host", type=numbers, action="append", default=[], help="rank:ms before every send and receive"
    )
    parser.add_argument("--slack-ms", type=float, default=15.0, help="lateness that is not kept")


def read_costs(options: argparse.Namespace) -> None:
    """Make lists of what was given as text."""
    options.layers = [int(part) for part in options.layers.split(",")]
    options.lengths = [float(part) for part in options.lengths.split(",")]
    options.per_stage = options.per_stage or options.layers[0]


def numbers(text: str) -> tuple[float, ...]:
    """`3:1.75` as numbers."""
    return tuple(float(part) for part in text.split(":"))


def of_link(latencies: list[tuple[float, ...]], source: int, target: int) -> float:
    """Seconds that messages of a link are late, of ``source:target:ms``, or ``ms`` for all links."""
    return sum(link[-1] for link in latencies if len(link) == 1 or link[:2] == (source, target)) / 1000


class Costs(Clock):
    """Seconds that things take on this rank."""

    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        super().__init__(options.slack_ms / 1000)
        self.options, self.rank = options, rank

    def factor(self, stage: int, microbatch: int) -> float:
        """What the cost of a stage at a microbatch is multiplied by."""
        options = self.options
        factor = 1.0
        for which, times in options.slow:
            factor *= times if which == stage else 1.0
        for which, times in options.slow_replica:
            factor *= times if which == options.replica else 1.0
        for rank, times, every in options.straggler:
            factor *= times if rank == self.rank and microbatch % int(every) == 0 else 1.0
        return factor * options.lengths[microbatch % len(options.lengths)]

    def rest(self, cost_s: float) -> None:
        """Sleep for a cost that lateness takes nothing off."""
        time.sleep(cost_s)
        self.at_s = time.monotonic()

    def wait_until(self, moment_s: float) -> None:
        """Sleep until what was waited for is there."""
        sleep_until(moment_s)
        self.at_s = max(self.at_s, moment_s)


class SleepX(torch.autograd.Function):
    """The branch of the input: sleeps in forward for F and in backward for I."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, costs: Costs, stage: int, f_s: float, i_s: float) -> torch.Tensor:
        microbatch = float(x[0, MICROBATCH])
        microbatch = int(microbatch) if 0 <= microbatch < 1e6 else 1
        factor = costs.factor(stage, microbatch)
        ctx.costs, ctx.i_s = costs, i_s * factor
        y = x.clone()
        y[:, TIME] = costs.spend(f_s * factor, float(x[0, TIME]))
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        grad = grad.clone()
        grad[:, TIME] = ctx.costs.spend(ctx.i_s, float(grad[0, TIME]))
        return grad, None, None, None, None


class SleepW(torch.autograd.Function):
    """The branch of the parameter: sleeps in backward for W."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, x: torch.Tensor, costs: Costs, stage: int, w_s: float) -> torch.Tensor:
        microbatch = float(x[0, MICROBATCH])
        factor = costs.factor(stage, int(microbatch) if 0 <= microbatch < 1e6 else 1)
        ctx.costs, ctx.w_s = costs, w_s * factor
        return torch.zeros_like(x) + w.detach() * 0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        ctx.costs.spend(ctx.w_s, 0.0)
        return grad.sum(dim=0) * 0, None, None, None, None


class Layer(torch.nn.Module):
    """A layer that takes time."""

    def __init__(self, costs: Costs, stage: int, scale: float, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(WIDTH, dtype=dtype))
        self.costs, self.stage = costs, stage
        milliseconds = (costs.options.f_ms, costs.options.i_ms, costs.options.w_ms)
        self.f_s, self.i_s, self.w_s = (scale * each / 1000 for each in milliseconds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, later."""
        y = SleepX.apply(x, self.costs, self.stage, self.f_s, self.i_s)
        return y + SleepW.apply(self.weight, x.detach(), self.costs, self.stage, self.w_s)
