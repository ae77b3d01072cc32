"""FSDP2 training: the backward of one layer is slow on one rank, between the reduce-scatters of its neighbours."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "the backward of the straight-through quantiser takes 50 ms on rank 0"
# symptom = "loss.backward() on ranks 1, 2 and 3: all-gathers and reduce-scatters of FSDP2"
#
# [[faults]]
# marker = "fault"
# function = "backward"
# ranks = [0]
# kind = "busy"
# seconds = 0.05
# occurrences = 40
# waiting_ranks = 3
# lost_s = 6.0
# saving_s = 2.0
# ///

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS = 40
WIDTH = 48


class Quantise(torch.autograd.Function):
    """Rounds in the forward; the backward passes gradients straight through after calibrating their scale."""

    calibrate_s = 0.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x * 16).round() / 16

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        scale = gradient.abs().amax()
        until = time.perf_counter() + Quantise.calibrate_s
        while time.perf_counter() < until:  # <- fault
            scale = torch.maximum(scale, (gradient * gradient).mean())  # <- end of fault
        return gradient.clamp(-scale, scale)


class Block(nn.Module):
    def __init__(self, quantised: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.quantised = quantised

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.linear(self.norm(x)))
        if self.quantised:
            y = Quantise.apply(y)
        return x + y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    Quantise.calibrate_s = 0.05 if rank == 0 and not args.fix else 0.0

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(*(Block(quantised=i == 1) for i in range(2)))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, WIDTH)

    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
