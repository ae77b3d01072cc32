"""Trains on packed sequences: equal tokens on every rank, unequal lengths, drawn anew in each step.

What a rank computes is emulated by sleeping: some time for each token, and some for the square of each length, as
attention takes. ``--pack cost`` packs the same sequences by that cost. Prints the seconds after the first step.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

TOKENS = 8192
TOKEN_S, SQUARE_S = 1.0e-6, 4.0e-10


class Emulated(torch.autograd.Function):
    """Forward for some seconds, and backward for twice as many."""

    @staticmethod
    def forward(ctx, x, seconds):  # type: ignore[no-untyped-def]
        ctx.seconds = seconds
        time.sleep(seconds)
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        time.sleep(2.0 * ctx.seconds)
        return grad, None


class Net(torch.nn.Module):
    """Looks at few of the tokens, and takes the time for all."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 8)
        self.head = torch.nn.Linear(8, 8)

    def forward(self, tokens: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        lengths = cu_seqlens.diff().tolist()
        output: torch.Tensor = self.head(Emulated.apply(self.embedding(tokens[:16]), sum(map(cost_s, lengths))))
        return output


def cost_s(length: int) -> float:
    return TOKEN_S * length + SQUARE_S * length**2


def by_tokens(rank: int, step: int, longest: float) -> list[int]:
    """Lengths whose binary logarithm is drawn evenly up to ``longest``, until they come to TOKENS."""
    draw = random.Random(step * 1000 + rank)
    lengths: list[int] = []
    while (left := TOKENS - sum(lengths)) > 0:
        lengths.append(min(left, int(2 ** draw.uniform(6, longest))))
    return lengths


def by_cost(packs: list[list[int]]) -> list[list[int]]:
    """The same sequences, the most expensive first, each to the rank that has least."""
    load: list[tuple[float, int, list[int]]] = [(0.0, rank, []) for rank in range(len(packs))]
    for length in sorted((length for pack in packs for length in pack), reverse=True):
        least_s, rank, mine = heapq.heappop(load)
        heapq.heappush(load, (least_s + cost_s(length), rank, [*mine, length]))
    return [mine for _, _, mine in sorted(load, key=lambda each: each[1])]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pack", choices=("tokens", "cost"), default="tokens")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--heavy", type=int, default=-1, help="the rank that alone has long sequences; all ranks if -1")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    since = 0.0
    for step in range(arguments.steps):
        if step == 1:
            since = time.monotonic()
        longest = [12.5 if arguments.heavy in (-1, one) else 10.0 for one in range(world)]
        packs = [by_tokens(one, step, longest[one]) for one in range(world)]
        lengths = (by_cost(packs) if arguments.pack == "cost" else packs)[rank]
        bounds = torch.tensor([0, *lengths]).cumsum(0)
        loss = model(torch.zeros(sum(lengths), dtype=torch.long), bounds).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        print(f"{time.monotonic() - since:.3f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
