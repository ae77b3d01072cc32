"""mpi4py: the members of an ensemble tell each other their results as objects; one member's model takes longer."""

# /// scalana
# planted = "the model of rank 2 runs 12 times as many steps"
# symptom = "comm.allgather on the others"
#
# [[faults]]
# marker = "fault"
# function = "integrate"
# ranks = [2]
# kind = "busy"
# ///

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI


def integrate(state: np.ndarray, steps: int) -> float:
    energy = 0.0
    for step in range(steps):  # <- fault
        energy += (step * 0.5) % 3.0  # <- end of fault
    return energy + float(state.sum())


def main() -> None:
    comm = MPI.COMM_WORLD
    state = np.ones(1000)
    for _ in range(20):
        energy = integrate(state, 360_000 if comm.rank == 2 and "--fix" not in sys.argv else 30_000)
        members = comm.allgather({"rank": comm.rank, "energy": energy})
        mean = sum(member["energy"] for member in members) / comm.size
        mine = state * (1.0 + 1e-9 * mean)
        comm.Allreduce(mine, state)
        state /= comm.size


main()
