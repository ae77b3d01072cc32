"""Python that has its work done by a shared library of the user's, through ctypes; the last rank has more of it."""

from __future__ import annotations

import ctypes
import sys

from mpi4py import MPI

library = ctypes.CDLL(sys.argv[1])
comm = MPI.COMM_WORLD
for _step in range(20):
    rounds = 20_000_000 if comm.rank == comm.size - 1 else 100_000
    library.advance(ctypes.c_long(rounds))  # the work
    comm.Barrier()
