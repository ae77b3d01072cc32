"""A solver whose root rank prepares a message for every rank, one after the other, while all wait for its broadcast."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node"
# sizes = [2, 4, 8]
# scaling = "strong"
# planted = "rank 0 goes over all ranks in every step, 15 ms each"
# symptom = "dist.broadcast on all other ranks"
#
# [[faults]]
# marker = "fault"
# function = "prepare"
# kind = "serial"
# growth = "like p"
# lost_s = 3.6
# seconds_at_64 = 3.84
# ///

from __future__ import annotations

import time

import torch
import torch.distributed as dist

STEPS = 4
SOLVE_S = 0.8
"""One step of the solver on a single rank."""
PREPARE_S = 0.015


def solve(ranks: int) -> float:
    time.sleep(SOLVE_S / ranks)
    return 1.0 / ranks


def prepare(ranks: int) -> torch.Tensor:
    plan = torch.zeros(64)
    for peer in range(ranks):
        time.sleep(PREPARE_S)  # <- fault
        plan[peer] = peer
    return plan


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        residual = torch.tensor([solve(ranks)])
        dist.all_reduce(residual)
        plan = prepare(ranks) if rank == 0 else torch.zeros(64)
        dist.broadcast(plan, src=0)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
