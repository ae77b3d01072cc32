"""Calls by Fortran's names: each is recorded, once, whatever the MPI's Fortran library calls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME

from .conftest import PROGRAMS, Mpi
from .test_native import calls_by_operation

pytestmark = pytest.mark.slow


def test_a_fortran_library_on_the_profiling_interface(mpi: Mpi) -> None:
    layer = mpi.compile("fortran_layer.c", "-shared", "-fPIC", "-Wl,-z,now,-z,relro", name="libmpi_mpifh.so.40")
    program = mpi.compile("fortran_names.c", "-Wl,--no-as-needed", f"-Wl,-rpath,{mpi.work}", str(layer))
    folder = RunFolder(mpi.record(2, program))
    for record in folder.processes():
        counted = calls_by_operation(record)
        assert counted["barrier"] == 9  # the one behind the profiling interface too
        assert counted["sendrecv"] == 7
        assert counted["init"] == counted["finalize"] == 1
        assert not record.notes
    instances = build_ppg(folder).timeline.instances
    # A rank that lost its core may add the moment at which it came back to MPI, which the other waited for.
    calls = instances.operation != BY_NAME["win_flush"].code
    assert instances.complete.all() and calls.sum() == 1 + 9 + 2 * 7 + 1


def test_a_program_in_fortran(mpi: Mpi) -> None:
    compiler = Path(mpi.folder) / "mpifort"
    if not compiler.exists():
        pytest.skip(f"no mpifort in {mpi.folder}")
    program = mpi.work / "exchange"
    subprocess.run([compiler, "-g", "-O1", PROGRAMS / "exchange.f90", "-o", program], check=True, cwd=mpi.work)
    for record in RunFolder(mpi.record(2, program)).processes():
        counted = calls_by_operation(record)
        assert {counted[name] for name in ("send", "recv", "wait", "allreduce", "sendrecv")} == {10}
        assert counted["init"] == counted["finalize"] == 1
