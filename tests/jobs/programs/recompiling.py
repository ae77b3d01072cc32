"""Trains a compiled model; inputs of rank 1 have another length in every step.

Prints what the compiled calls took it more than rank 0, in the steps in which they did: in the first one both compile.
"""

import time

import torch
import torch.distributed as dist
from torch import nn

STEPS, WIDTH = 7, 32


def train(net, optimizer, length):
    optimizer.zero_grad()
    begin = time.perf_counter()
    loss = net(torch.randn(length, WIDTH)).square().mean()  # compiled
    took_s = time.perf_counter() - begin
    loss.backward()
    for one in net.parameters():
        dist.all_reduce(one.grad)
    optimizer.step()
    return took_s


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    slow = dist.get_rank() == 1
    layers = [layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    net = torch.compile(nn.Sequential(*layers), backend="aot_eager", dynamic=False)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    took_s = [train(net, optimizer, 8 + step if slow else 8) for step in range(STEPS)]
    all_ranks = [None] * 2
    dist.all_gather_object(all_ranks, took_s)
    if slow:
        print("compiled", sum(max(mine - other, 0.0) for other, mine in zip(*all_ranks)))
    dist.destroy_process_group()


main()
