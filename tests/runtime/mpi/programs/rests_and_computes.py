"""Ranks rest and then compute, with others on their cores; a second stretch has fewer ranks that want one."""

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
rested = 0.0


def compute(count: int) -> float:
    total = 0.0
    for number in range(1, count):
        total += 1.0 / number
    return total


def rest() -> None:
    time.sleep(0.04)


for _turn in range(16):
    began = time.perf_counter()
    rest()
    rested += time.perf_counter() - began
    compute(400_000)
    comm.Barrier()
    if comm.rank == 0:
        compute(400_000)
    comm.Barrier()
print(f"rested {comm.rank} {rested:.3f}", flush=True)
