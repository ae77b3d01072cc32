"""Objects and arrays between ranks; one rank is slow in a function of its own."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI


def work(rounds: int) -> float:
    total = 0.0
    for number in range(rounds):
        total += number * 0.5
    return total


comm = MPI.COMM_WORLD
data, out = np.zeros(1000), np.zeros(1000)
for step in range(20):
    work(10_000)
    if comm.rank == 1:
        work(400_000)  # slow
    comm.sendrecv(("step", step), dest=(comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            comm.recv(source=MPI.ANY_SOURCE, tag=3)
    else:
        comm.send({"from": comm.rank}, dest=0, tag=3)
    comm.Allreduce(data, out)
    comm.bcast(step, root=0)
