"""Ways to end an MPI job, and what the recorder must leave alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

import scalana
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME

from .conftest import Mpi, under_one_mpi
from .test_native import lines_of

pytestmark = pytest.mark.slow


def test_no_system_call_is_interrupted(mpi: Mpi) -> None:
    program = mpi.compile("interrupted.c")
    words = [sys.executable, "-m", "scalana", "run", "-o", "run", "--no-report", "--", "mpirun", *mpi.options]
    done = subprocess.run(
        [*words, "-n", "2", program], capture_output=True, text=True, timeout=120, cwd=mpi.work, env=mpi.environment()
    )
    assert "interrupted 0 " in done.stdout, done.stdout + done.stderr
    assert RunFolder(mpi.work / "run").processes()[0].meta["sampler"] in ("timers", "kernel")


@pytest.mark.measured
@under_one_mpi
def test_samples_by_signals(mpi: Mpi) -> None:
    folder = mpi.record(4, mpi.compile("slow_rank.c"), SCALANA_NATIVE_SAMPLES="signal")
    assert {record.meta["sampler"] for record in RunFolder(folder).processes()} == {"timers"}
    finding = scalana.analyze(folder).findings[0]
    assert finding.line in lines_of("slow_rank.c", "/* slow */")
    assert finding.ranks == [2]


@pytest.mark.measured
@under_one_mpi
def test_threads_of_openmp(mpi: Mpi) -> None:
    folder = mpi.record(2, mpi.compile("threads.c", "-fopenmp"), OMP_WAIT_POLICY="passive")
    finding = scalana.analyze(folder).findings[0]
    assert finding.line in lines_of("threads.c", "/* slow */") | set(range(6, 13))
    assert finding.ranks == [1]
    busy = RunFolder(folder).processes()[1]
    assert len({busy.samples.thread[row] for row in range(len(busy.samples)) if busy.samples.state[row] == 0}) >= 2


def test_a_killed_rank_leaves_what_it_did(mpi: Mpi) -> None:
    program = mpi.compile("ends_badly.c")
    words = [sys.executable, "-m", "scalana", "run", "-o", "run", "--no-report", "--", "mpirun", *mpi.options]
    done = subprocess.run(
        [*words, "-n", "2", program], capture_output=True, text=True, timeout=120, cwd=mpi.work, env=mpi.environment()
    )
    assert done.returncode != 0
    records = RunFolder(mpi.work / "run").processes()
    assert [record.rank for record in records] == [0, 1]
    barrier = BY_NAME["barrier"].code
    assert [list(record.events.operation).count(barrier) for record in records] == [10, 10]
    assert not records[1].ended
    assert barrier in list(records[0].open.operation)  # rank 0 was inside the eleventh


def test_a_rank_that_never_begins_mpi_is_told(mpi: Mpi) -> None:
    program = mpi.compile("never_begins.c")
    words = [sys.executable, "-m", "scalana", "run", "-o", "run", "--no-report", "--", "timeout", "8", "mpirun"]
    done = subprocess.run(
        [*words, *mpi.options, "-n", "3", program],
        capture_output=True,
        timeout=120,
        cwd=mpi.work,
        env=mpi.environment(),
    )
    assert done.returncode == 124
    (finding,) = scalana.analyze(mpi.work / "run").findings
    assert (finding.kind, finding.ranks) == ("hang", [1])
    assert finding.line in lines_of("never_begins.c", "/* here */")
    assert (finding.evidence.as_dict()["operation"], finding.evidence.as_dict()["waiting_ranks"]) == ("init", [0, 2])


@pytest.mark.measured
@under_one_mpi
def test_debug_information_in_a_file_of_its_own(mpi: Mpi) -> None:
    program = mpi.compile("slow_rank.c")
    for words in (
        ["objcopy", "--only-keep-debug", program, f"{program}.debug"],
        ["strip", program],
        ["objcopy", f"--add-gnu-debuglink={program}.debug", program],
    ):
        subprocess.run(words, check=True, cwd=mpi.work)
    finding = scalana.analyze(mpi.record(4, program)).findings[0]
    assert finding.line in lines_of("slow_rank.c", "/* slow */")
    assert finding.ranks == [2]
