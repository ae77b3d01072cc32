"""Training on a few ranks under torch.profiler: `profiled.py FOLDER [stacks]`. Rank 2 augments far more than others."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile


def augment(x, times):
    for _ in range(times):
        x = torch.tanh(x @ x.T) @ x / 100
    return x


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        x = torch.randn(256, 128)
        x = augment(x, 60 if rank == 2 else 1)
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    stacks = len(sys.argv) > 2
    with profile(activities=[ProfilerActivity.CPU], with_stack=stacks) as profiler:
        for _ in range(8):
            step()
    profiler.export_chrome_trace(f"{sys.argv[1]}/rank{rank}.json")
    dist.destroy_process_group()


main()
