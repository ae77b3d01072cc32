"""A solver that rests in one helper wherever it waits: for its cells, which become fewer, and for the halo, which does
not."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node"
# sizes = [2, 4, 8]
# scaling = "strong"
# planted = "six rests of 20 ms a step in exchange_halo, whatever the number of ranks"
# symptom = "none: all ranks are equally busy, in the helper that they rest in"
#
# [[faults]]
# marker = "fault"
# function = "exchange_halo"
# kind = "replicated"
# growth = "constant"
# lost_s = 2.88
# seconds_at_64 = 0.48
# ///

from __future__ import annotations

import time

import torch
import torch.distributed as dist

STEPS = 4
CELLS = 16
SOLVE_S = 0.8
"""One step of the solver on a single rank."""
FACE_S = 0.020


def rest(seconds: float) -> None:
    time.sleep(seconds)


def solve(ranks: int) -> float:
    for _ in range(CELLS):
        rest(SOLVE_S / ranks / CELLS)
    return 1.0 / ranks


def exchange_halo() -> float:
    for _ in range(6):
        rest(FACE_S)  # <- fault
    return 1.0


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        residual = torch.tensor([solve(ranks) + exchange_halo()])
        dist.all_reduce(residual)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
