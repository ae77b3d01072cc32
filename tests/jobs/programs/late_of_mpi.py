"""Ranks of MPI, of which rank 2 is late in every step."""

from __future__ import annotations

import time

from mpi4py import MPI

STEPS = 16


def repair(rank: int) -> None:
    """What only rank 2 does."""
    if rank == 2:
        time.sleep(0.1)  # <- fault


def main() -> None:
    world = MPI.COMM_WORLD
    rank, size = world.rank, world.size
    for _ in range(STEPS):
        time.sleep(0.02)
        repair(rank)
        world.sendrecv(rank, dest=(rank + 1) % size, source=(rank - 1) % size)
        world.barrier()


main()
