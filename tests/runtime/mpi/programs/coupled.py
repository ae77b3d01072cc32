"""The other half of a job of two programs, see coupled.c. With SLOW=python its last rank is slow."""

from __future__ import annotations

import os

import numpy as np
from mpi4py import MPI


def interpolate(rounds: int) -> float:
    total = 0.0
    for number in range(rounds):
        total += number * 0.5  # the work
    return total


comm = MPI.COMM_WORLD
slow = os.environ.get("SLOW") == "python" and comm.rank == comm.size - 1
data, out = np.zeros(4), np.zeros(4)
for _step in range(20):
    interpolate(1_000_000 if slow else 10_000)
    comm.Allreduce(data, out)
