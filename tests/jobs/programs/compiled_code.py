"""Trains a model that inductor compiles; rank 1 smooths more often. Prints how much longer it takes rank 1."""

import sys
import time

import torch
import torch._inductor.config
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, WIDTH, ROWS = int(sys.argv[1]), 128, 32768


class Smooth(nn.Module):
    def forward(self, x, turns: int):
        for _ in range(turns):
            x = torch.tanh(x * 1.01) + torch.sin(x)  # smoothed
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)
        self.smooth = Smooth()

    def forward(self, x, turns: int):
        return self.smooth(nn.functional.gelu(self.up(x)), turns)


def train(net, optimizer, x, turns):
    optimizer.zero_grad()
    begin = time.perf_counter()
    with net.no_sync():  # so that no waiting is in what is measured
        net(x, turns).square().mean().backward()
    took_s = time.perf_counter() - begin
    for one in net.parameters():
        dist.all_reduce(one.grad)
    optimizer.step()
    return took_s


def main():
    torch.set_num_threads(1)
    torch._inductor.config.cpp.vec_isa_ok = True  # which is compiled for otherwise, to see what this processor knows
    dist.init_process_group("gloo")
    turns = 8 if dist.get_rank() == 1 else 1
    net = DistributedDataParallel(torch.compile(Net()))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    x = torch.randn(ROWS, WIDTH)
    with net.no_sync():
        net(x, turns).sum().backward()  # compiles
    dist.barrier()
    took_s = sum(train(net, optimizer, x, turns) for _ in range(STEPS))
    all_ranks = [None] * 2
    dist.all_gather_object(all_ranks, took_s)
    if dist.get_rank() == 1:
        print("longer", all_ranks[1] - all_ranks[0], flush=True)
    dist.destroy_process_group()


main()
