"""A mesh of particles: all ranks poll their queue in small rests, one rank rests as often while it repairs its mesh."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "rank 2 repairs ten cells a step and rests 5 ms after each, as all do when they drain their queue"
# symptom = "all_reduce on ranks 0, 1 and 3"
#
# [[faults]]
# marker = "fault"
# function = "repair"
# ranks = [2]
# kind = "sleep"
# seconds = 0.05
# occurrences = 40
# waiting_ranks = 3
# lost_s = 6.0
# saving_s = 2.0
# ///

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor

STEPS = 40
MESSAGES = 2
TANGLED_CELLS = 10
TANGLED_RANK = 2


def pause() -> None:
    """Leaves the core to others for a while."""
    time.sleep(0.005)


def drain(queue: list[int]) -> int:
    """Takes what has come from the queue; it comes slowly."""
    taken = 0
    while queue:
        taken += queue.pop()
        pause()
    return taken


def repair(cells: Tensor, tangled: int) -> Tensor:
    """Untangles cells one by one, and lets their neighbours settle."""
    for cell in range(tangled):
        cells[cell] = cells[cell].sort().values
        pause()  # <- fault
    return cells


def move(fix: bool) -> float:
    cells = torch.rand(64, 8)
    tangled = TANGLED_CELLS if dist.get_rank() == TANGLED_RANK and not fix else 0
    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        arrived = drain([step] * MESSAGES)
        cells = repair(cells, tangled)
        energy = cells.square().sum() + 0.0 * arrived
        dist.all_reduce(energy)
        cells = cells / (1 + 1e-6 * energy)
    dist.barrier()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seconds = move(args.fix)
    if dist.get_rank() == 0:
        print(f"loop seconds: {seconds:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
