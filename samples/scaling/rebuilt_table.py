"""A solver in which every rank rebuilds the same table in every step: nobody waits, and nobody gets faster."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node"
# sizes = [2, 4, 8]
# scaling = "strong"
# planted = "every rank builds the whole table in every step, 100 ms"
# symptom = "none: all ranks are equally busy"
#
# [[faults]]
# marker = "fault"
# function = "build_table"
# kind = "replicated"
# growth = "constant"
# lost_s = 2.4
# seconds_at_64 = 0.4
# ///

from __future__ import annotations

import time

import torch
import torch.distributed as dist

STEPS = 4
SOLVE_S = 0.8
"""One step of the solver on a single rank."""
TABLE_S = 0.100


def build_table() -> list[float]:
    time.sleep(TABLE_S)  # <- fault
    return [0.5**power for power in range(64)]


def solve(ranks: int, table: list[float]) -> float:
    time.sleep(SOLVE_S / ranks)
    return sum(table) / ranks


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        residual = torch.tensor([solve(ranks, build_table())])
        dist.all_reduce(residual)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
