"""A solver on a cube of cells: the work shrinks with the volume of a rank's part, the halo only with its surface."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node"
# sizes = [2, 4, 8]
# scaling = "strong"
# planted = "packing the halo takes 400 ms divided by the ranks to the power 2/3"
# symptom = "none: all ranks are equally busy"
#
# [[faults]]
# marker = "fault"
# function = "pack_halo"
# kind = "non-scalable"
# growth = "falls"
# lost_s = 1.184
# seconds_at_64 = 0.1
# ///

from __future__ import annotations

import time

import torch
import torch.distributed as dist

STEPS = 4
SOLVE_S = 0.8
"""One step of the solver on a single rank."""
HALO_S = 0.400


def pack_halo(ranks: int) -> float:
    time.sleep(HALO_S / ranks ** (2 / 3))  # <- fault
    return 1.0


def solve(ranks: int) -> float:
    time.sleep(SOLVE_S / ranks)
    return 1.0 / ranks


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        residual = torch.tensor([solve(ranks) + pack_halo(ranks)])
        dist.all_reduce(residual)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
