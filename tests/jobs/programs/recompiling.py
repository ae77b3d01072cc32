"""Trains a compiled model; inputs of rank 1 have another length in every step. Prints what compiling took it more."""

import time

import torch
import torch.distributed as dist
from torch import nn

STEPS, WIDTH = 6, 32


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
    net(torch.randn(8, WIDTH))  # for the first time, which takes all ranks about as long
    dist.barrier()
    took_s = sum(train(net, optimizer, 9 + step if slow else 8) for step in range(STEPS))
    all_ranks = [None] * 2
    dist.all_gather_object(all_ranks, took_s)
    if slow:
        print("compiled", all_ranks[1] - all_ranks[0])
    dist.destroy_process_group()


main()
