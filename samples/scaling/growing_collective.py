"""A solver that gathers the state of all ranks on all ranks in every step: the more ranks, the more data for each."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node"
# sizes = [2, 4, 8]
# scaling = "weak"
# planted = "an all-gather of 4 MB of every rank"
# symptom = "dist.all_gather_into_tensor, on all ranks alike"
#
# [[faults]]
# marker = "fault"
# function = "exchange"
# kind = "communication"
# ///

from __future__ import annotations

import time

import torch
import torch.distributed as dist

STEPS = 10
SOLVE_S = 0.05
STATE = 1 << 20
"""Numbers of four bytes that a rank contributes."""


def solve() -> float:
    time.sleep(SOLVE_S)
    return 1.0


def exchange(state: torch.Tensor, everything: torch.Tensor) -> None:
    dist.barrier()
    dist.all_gather_into_tensor(everything, state)  # <- fault


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    state, everything = torch.zeros(STATE), torch.zeros(STATE * ranks)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        state += solve()
        exchange(state, everything)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
