"""Four ranks, of which rank 2 is late in every step."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "16"))


def repair(rank: int) -> None:
    """What only rank 2 does."""
    if rank == 2:
        time.sleep(0.15)  # <- fault


def main() -> None:
    dist.init_process_group("gloo")
    rank, values = dist.get_rank(), torch.ones(1000)
    for _ in range(STEPS):
        time.sleep(0.02)
        repair(rank)
        dist.all_reduce(values)
    dist.destroy_process_group()


main()
