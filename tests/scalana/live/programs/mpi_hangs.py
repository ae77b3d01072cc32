"""Two ranks of MPI that hang, or are slow, in a way that is named: python mpi_hangs.py KIND FILE.

The line of a kind ends in ``# <- KIND``.
"""

import os
import sys
import time

from mpi4py import MPI

COMM = MPI.COMM_WORLD
STEPS = 30


def circle():
    COMM.recv(source=1 - COMM.rank)  # <- mpi-circle


def absent(file):
    os.mkfifo(file)
    with open(file) as opened:  # <- mpi-absent
        opened.read()


def write(file):
    """Slow, but it writes."""
    with open(file, "wb") as opened:
        for _ in range(90):
            opened.write(bytes(4 << 20))
            opened.seek(0)
            time.sleep(0.1)


def task():
    """One long task of a farm, by functions."""
    parts = {}
    for number in range(12):
        exec(f"def part{number}(n):\n    for i in range(n):\n        i * i", parts)
    end = time.monotonic() + 9
    while time.monotonic() < end:
        for number in range(12):
            parts[f"part{number}"](200000)


def main(kind, file):
    for step in range(STEPS):
        if step == STEPS // 2:
            if kind == "mpi-circle":
                circle()
            elif kind == "mpi-farm":
                COMM.send(task(), 0) if COMM.rank == 1 else COMM.recv(source=MPI.ANY_SOURCE)
            elif COMM.rank == 1:
                {"mpi-absent": absent, "mpi-checkpoint": write}[kind](file)
        COMM.barrier()
        time.sleep(0.1)


main(*sys.argv[1:])
