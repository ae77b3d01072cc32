"""A thread that collects statistics in pure Python keeps the interpreter's lock; one rank's training step crawls."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "the statistics thread of rank 2 holds the global interpreter lock for 50 ms in every step"
# symptom = "loss.backward() on ranks 0, 1 and 3; every line of the step on rank 2"
#
# [[faults]]
# marker = "fault"
# function = "histogram"
# ranks = [2]
# kind = "gil"
# seconds = 0.05
# occurrences = 48
# waiting_ranks = 3
# lost_s = 7.2
# saving_s = 2.4
# ///

from __future__ import annotations

import argparse
import queue
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 48


def histogram(values: list[float], budget_s: float) -> list[int]:
    """Counts values, and refines the bins until its time is over."""
    bins = [0] * 16
    until = time.perf_counter() + budget_s
    while time.perf_counter() < until:  # <- fault
        for value in values:
            bins[int(8 + 4 * value) & 15] += 1  # <- end of fault
    return bins


def statistics(inbox: queue.SimpleQueue[list[float] | None], budget_s: float) -> None:
    while (values := inbox.get()) is not None:
        histogram(values, budget_s)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sys.setswitchinterval(0.2)  # switch less often between the threads: statistics can wait, but so does the training
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    inbox: queue.SimpleQueue[list[float] | None] = queue.SimpleQueue()
    budget_s = 0.05 if rank == 2 and not args.fix else 0.0
    thread = threading.Thread(target=statistics, args=(inbox, budget_s), name="statistics", daemon=True)
    thread.start()
    model = DistributedDataParallel(nn.Sequential(*(Block(32) for _ in range(4))))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, 32)

    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        inbox.put(batch[0].tolist())
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    seconds = time.perf_counter() - start
    inbox.put(None)
    thread.join()
    if rank == 0:
        print(f"loop seconds: {seconds:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
