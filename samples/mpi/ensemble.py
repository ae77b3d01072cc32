"""mpi4py: the results of an ensemble are gathered as objects, their mean is told; one member's model takes longer."""

# /// scalana
# planted = "the model of rank 2 runs 145 times as many steps"
# symptom = "comm.gather on rank 0, comm.bcast on the others"
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
    state, planted_s = np.ones(1000), 0.0
    comm.Barrier()
    since = MPI.Wtime()
    for _ in range(3):
        energy = integrate(state, 13_000)
        if comm.rank == 2 and "--fix" not in sys.argv:
            start = MPI.Wtime()
            energy += integrate(state, 1_872_000)
            planted_s += MPI.Wtime() - start
        members = comm.gather({"rank": comm.rank, "energy": energy})
        mean = sum(member["energy"] for member in members) / comm.size if members else None
        state += 1e-9 * comm.bcast(mean)
    comm.Barrier()
    loop_s = MPI.Wtime() - since
    planted_s = comm.reduce(planted_s)
    if comm.rank == 0:
        print(f"loop seconds: {loop_s:.4f}\nplanted seconds: {planted_s:.4f}")


main()
