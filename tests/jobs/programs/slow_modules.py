"""Trains a model whose layers meet all ranks, each with something planted in it on one rank; prints what that took.

Layer 0 falls back to a slow path on rank 0, layer 1 asks for single numbers on rank 1, layer 2 has a longer sequence on
rank 0, layer 3 has an expert that gets most tokens on rank 1.
"""

import time

import torch
import torch.distributed as dist
from torch import nn

STEPS = 20
WIDTH = 64
SECONDS = 0.03


class Scan(nn.Module):
    took_s = 0.0

    def forward(self, x, slow):
        begin = time.perf_counter()
        while slow and time.perf_counter() < begin + SECONDS:
            x = x + torch.cumsum(x, 0).detach() * 0  # fallback
        self.took_s += time.perf_counter() - begin
        return x


class Router(nn.Module):
    took_s = 0.0

    def forward(self, x, slow):
        begin, total = time.perf_counter(), 0.0
        while slow and time.perf_counter() < begin + SECONDS:
            total += x[0, 0].item()  # item
        self.took_s += time.perf_counter() - begin
        return x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.took_s = 0.0

    def forward(self, x, slow):
        begin = time.perf_counter()
        with torch.no_grad():
            for block in x.repeat(16 if slow else 1, 1).split(64):
                q, k, v = self.qkv(block.repeat(8, 1)).chunk(3, -1)
                (torch.softmax(q @ k.T, -1) @ v).sum()  # sequence
        self.took_s += time.perf_counter() - begin
        return x


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 16 * WIDTH)
        self.down = nn.Linear(16 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))  # expert


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(Expert() for _ in range(3))
        self.took_s = 0.0

    def forward(self, x, slow):
        begin = time.perf_counter()
        with torch.no_grad():
            for number, expert in enumerate(self.experts):
                expert(x.repeat(64 if slow and number == 1 else 1, 1))
        self.took_s += time.perf_counter() - begin
        return x


class Layer(nn.Module):
    def __init__(self, inner, slow):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = inner
        self.slow = slow

    def forward(self, x):
        x = x + self.inner(self.norm(x), self.slow)
        dist.all_reduce(x.detach().sum())
        return x


class Net(nn.Module):
    def __init__(self, rank):
        super().__init__()
        inner = Scan(), Router(), Attention(), Experts()
        self.layers = nn.ModuleList(Layer(each, rank == number % 2) for number, each in enumerate(inner))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    net = Net(dist.get_rank())
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    x = torch.randn(64, WIDTH)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        dist.barrier()
        optimizer.step()
    took = [None] * 2
    dist.all_gather_object(took, [layer.inner.took_s for layer in net.layers])
    if dist.get_rank() == 0:
        for number, name in enumerate(("fallback", "item", "sequence", "expert")):
            slow = number % 2
            print(name, took[slow][number] - took[1 - slow][number])
    dist.destroy_process_group()


main()
