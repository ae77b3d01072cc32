"""Ranks that pass halos to both neighbours in each step, and reduce a residual."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

HALO = 400_000


def exchange(halo: torch.Tensor, into: torch.Tensor, way: int) -> None:
    """Send a halo to the next rank of a ring, one way round, and receive one from the other side."""
    rank, size = dist.get_rank(), dist.get_world_size()
    works = [dist.isend(halo, (rank + way) % size, tag=way + 1), dist.irecv(into, (rank - way) % size, tag=way + 1)]
    for work in works:
        work.wait()


def main() -> None:
    dist.init_process_group("gloo")
    halo, into, residual = torch.ones(HALO), torch.empty(HALO), torch.ones(4)
    for _ in range(int(os.environ.get("STEPS", "60"))):
        time.sleep(0.02)
        exchange(halo, into, 1)
        exchange(halo, into, -1)
        dist.all_reduce(residual)
    dist.destroy_process_group()


main()
