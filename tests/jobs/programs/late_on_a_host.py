"""Four ranks, of which rank 2 is late in every step."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "16"))
UNDER_WAY = os.environ.get("UNDER_WAY", "")
"""A file to write when some steps are done."""


def repair(rank: int) -> None:
    """What only rank 2 does."""
    if rank == 2:
        time.sleep(0.15)  # <- fault


def main() -> None:
    dist.init_process_group("gloo")
    rank, values = dist.get_rank(), torch.ones(1000)
    for step in range(STEPS):
        time.sleep(0.02)
        repair(rank)
        dist.all_reduce(values)
        if step == 10 and UNDER_WAY:
            Path(UNDER_WAY).touch()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
