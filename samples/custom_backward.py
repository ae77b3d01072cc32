"""DDP with a custom backward that waits busily on one rank: the mean time of the backward is equal on all ranks."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "preprocess_grad() works 50 ms longer on rank 1, inside the backward"
# symptom = "loss.backward() is equally long everywhere: work on rank 1, all-reduce on ranks 0, 2 and 3"
#
# [[faults]]
# marker = "fault"
# function = "preprocess_grad"
# ranks = [1]
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
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 40
WIDTH = 96


def preprocess_grad(gradient: Tensor, budget_s: float) -> Tensor:
    deadline = time.perf_counter() + budget_s
    while time.perf_counter() < deadline:  # <- fault
        pass  # <- end of fault
    return gradient


class Preprocess(torch.autograd.Function):
    budget_s = 0.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return preprocess_grad(gradient, Preprocess.budget_s)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.below = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.above = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.above(Preprocess.apply(self.below(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    Preprocess.budget_s = 0.05 if rank == 1 and not args.fix else 0.0
    model = DistributedDataParallel(Model(), bucket_cap_mb=0.04)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, WIDTH)

    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
