"""Jobs end with what they would end with without being recorded, and print the same."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME

from .conftest import Mpi
from .test_native import calls_by_operation

pytestmark = pytest.mark.slow


def recorded(mpi: Mpi, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scalana", "run", "-o", "run", "--no-report", "--", "mpirun", *mpi.options]
    environment = mpi.environment(**variables)
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=120, cwd=mpi.work, env=environment
    )


def test_every_way_to_use_mpi_and_to_end(mpi: Mpi) -> None:
    program = mpi.compile("ways.c", "-pthread")
    for way in ("threads", "fork", "sessions", "abort", "crash", "exit"):
        plain, now = mpi.run(2, program, way), recorded(mpi, "-n", "2", str(program), way)
        assert now.returncode == plain.returncode, (way, now.stderr)
        if way not in ("abort", "crash"):  # what the others had printed by then differs
            assert sorted(now.stdout) == sorted(plain.stdout), way
        records = [record for record in RunFolder(mpi.work / "run").processes() if record.rank is not None]
        assert [record.rank for record in records] == [0, 1], way
        if way == "threads":
            for record in records:
                counted = calls_by_operation(record)
                assert counted["sendrecv"] == 4 * 200
                assert counted["send"] == counted["recv"] == counted["wait"] == 4 * 201
                assert (counted["allreduce"], counted["comm_create"]) == (4 * 10, 4 + 2 * 4 * 10)
            assert build_ppg(RunFolder(mpi.work / "run")).timeline.instances.complete.all()
        if way == "sessions" and "none" not in now.stdout:
            for record in records:
                assert calls_by_operation(record)["allreduce"] == 5 and not record.notes
            instances = build_ppg(RunFolder(mpi.work / "run")).timeline.instances
            assert len(instances) == 1 + 5 + 1 and instances.complete.all()
        for path in (mpi.work / "run").rglob("*.rec"):
            path.unlink()
        subprocess.run(["rm", "-rf", "run"], cwd=mpi.work, check=True)


def test_a_job_that_leaves_with_a_code_is_recorded_to_the_end(mpi: Mpi) -> None:
    """Open MPI ends all ranks as soon as one of them has left with a code that is not 0."""
    program = mpi.compile("ends_with_code.c")
    plain, now = mpi.run(3, program), recorded(mpi, "-n", "3", str(program))
    assert now.returncode == plain.returncode == 3
    instances = build_ppg(RunFolder(mpi.work / "run")).timeline.instances
    barriers = instances.operation == BY_NAME["barrier"].code
    assert barriers.sum() == 20 and instances.complete[barriers].all()


def counts(mpi: Mpi, name: str) -> list[Counter[str]]:
    found = []
    for rank in range(2):
        lines = (mpi.work / f"{name}.{rank}").read_text().splitlines()
        counted = Counter({line.split()[0]: int(line.split()[1]) for line in lines})
        del counted["MPI_Waitsome"]  # which may find one request or two
        found.append(counted)
    return found


@pytest.mark.parametrize("how", ["preloaded", "linked"])
def test_a_tool_that_wraps_mpi_itself(mpi: Mpi, how: str) -> None:
    shim = mpi.compile("tool.c", "-shared", "-fPIC", name="libshim.so")
    more = ("-Wl,--no-as-needed", f"-Wl,-rpath,{mpi.work}", str(shim)) if how == "linked" else ()
    program = mpi.compile("every_kind.c", *more)
    preload = {} if how == "linked" else {"LD_PRELOAD": str(shim)}
    plain = mpi.run(2, program, COUNTS=str(mpi.work / "plain"), **preload)
    now = recorded(mpi, "-n", "2", str(program), COUNTS=str(mpi.work / "now"), **preload)
    assert plain.returncode == now.returncode == 0, now.stderr
    assert counts(mpi, "now") == counts(mpi, "plain")
    # Launchers too load the MPI that a preloaded tool needs.
    records = [record for record in RunFolder(mpi.work / "run").processes() if len(record.events)]
    assert [record.rank for record in records] == [0, 1]
    for rank, record in enumerate(records):
        assert calls_by_operation(record)["barrier"] >= counts(mpi, "plain")[rank]["MPI_Barrier"] > 0
        assert calls_by_operation(record)["blocking_send"] == sum(
            counts(mpi, "plain")[rank][name] for name in ("MPI_Send", "MPI_Ssend")
        )
