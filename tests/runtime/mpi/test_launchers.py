"""Launchers and the ways to name machines and programs to them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.rank_selection import choose_records
from scalana.runtime.record.format import ProcessRecord

from .conftest import Mpi

pytestmark = pytest.mark.slow


@pytest.fixture
def program(mpi: Mpi) -> Path:
    return mpi.compile("ends_well.c")


def run(mpi: Mpi, *command: str | Path, folders: str = "", **variables: str) -> list[ProcessRecord]:
    """Records of the ranks of a job, by rank."""
    environment = mpi.environment(**variables)
    if folders:
        environment["PATH"] = folders
    words = [sys.executable, "-m", "scalana", "run", "-o", "run", "--no-report", "--", *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=mpi.work, env=environment)
    assert done.returncode == 0, done.stderr + done.stdout
    records = [record for record in RunFolder(mpi.work / "run").processes() if record.meta.get("role") == "rank"]
    return sorted(records, key=lambda record: record.rank)


def check(records: list[ProcessRecord], ranks: int) -> None:
    assert [record.rank for record in records] == list(range(ranks))
    for record in records:
        assert record.meta["world_size"] == str(ranks)
        assert record.meta["rank_source"] == "MPI_Init"
        assert len(record.events) == 12, "init, ten barriers, finalize"
        assert record.ended and not record.notes


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec"])
def test_launchers_by_name_and_by_path(mpi: Mpi, program: Path, launcher: str) -> None:
    place = launcher if launcher == "mpirun" else Path(mpi.folder) / launcher
    check(run(mpi, place, *mpi.options, "-n", "3", program), 3)


def test_several_programs(mpi: Mpi, program: Path) -> None:
    other = mpi.compile("ends_well.c", name="other")
    records = run(mpi, "mpiexec", *mpi.options, "-n", "1", program, ":", "-n", "2", other)
    check(records, 3)
    assert [Path(record.meta["program"]).name for record in records] == ["program", "other", "other"]


def test_a_machine_file_in_a_command_of_a_shell(mpi: Mpi, program: Path) -> None:
    hosts = mpi.work / "hosts"
    hosts.write_text("localhost slots=2\n" if mpi.options else "localhost:2\n")
    check(run(mpi, "bash", "-c", f"true; mpirun {' '.join(mpi.options)} --hostfile {hosts} -n 2 {program}"), 2)


REMOTE_SHELL = """\
while case $1 in -*) true;; *) false;; esac; do shift; done
echo $1 >> "$0.hosts"
shift
exec env -i HOME=$HOME PATH=/usr/bin:/bin sh -c "$*"
"""
"""As ``ssh`` to another host does: what runs there has the environment of a login."""


def test_ranks_on_other_hosts(mpi: Mpi, program: Path) -> None:
    shell = script(mpi.work / "shell", REMOTE_SHELL)
    if mpi.options:
        hosts = ["--host", "elsewhere:3"]
        variables = {"PRTE_MCA_plm_ssh_agent": str(shell)}
    else:
        hosts = ["-launcher", "ssh", "-launcher-exec", str(shell), "-hosts", "elsewhere:3"]
        variables = {}
    records = run(mpi, "mpirun", *mpi.options, *hosts, "-n", "3", program, **variables)
    check(records, 3)
    assert (mpi.work / "shell.hosts").read_text().split() == ["elsewhere"]


def test_a_script_around_the_launcher(mpi: Mpi, program: Path) -> None:
    job = script(mpi.work / "job.sh", f"cd /tmp\nmpirun {' '.join(mpi.options)} -n 2 {program}\necho done")
    check(run(mpi, job), 2)


def test_a_script_that_starts_ranks_twice(mpi: Mpi, program: Path) -> None:
    start = f"mpirun {' '.join(mpi.options)}"
    job = script(mpi.work / "job.sh", f"{start} -n 2 {program}\n{start} -n 3 {program}")
    assert len(run(mpi, job)) == 5
    for number, ranks in ((1, 2), (2, 3)):
        chosen = choose_records(RunFolder(mpi.work / "run").processes(), number)
        check([rank.record for rank in chosen.ranks], ranks)
        assert len(chosen.warnings) == 1 and f"launch {number} is analysed" in chosen.warnings[0]


def test_a_script_that_clears_variables_of_others(mpi: Mpi, program: Path) -> None:
    """Open MPI ends a job that is to hand on what is not there."""
    start = f"mpirun {' '.join(mpi.options)} -n 2 {program}"
    assert len(run(mpi, script(mpi.work / "job.sh", f"unset PYTHONPATH\n{start}\nunset LD_PRELOAD\n{start}"))) == 2


def test_a_script_around_every_rank(mpi: Mpi, program: Path) -> None:
    wrapper = script(mpi.work / "wrapper.sh", 'date >/dev/null\nnice -n 0 "$@"\n')
    check(run(mpi, "mpirun", *mpi.options, "-n", "2", wrapper, program), 2)


@pytest.mark.parametrize("wrapper", ["python", "gdb"])
def test_who_starts_each_rank_is_no_launch_of_its_own(mpi: Mpi, program: Path, wrapper: str) -> None:
    """Both have a Python inside, which is told of a rank."""
    around = {
        "python": [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:], close_fds=False)"],
        "gdb": ["gdb", "-batch", "-ex", "run", "--args"],
    }[wrapper]
    if shutil.which(around[0]) is None:
        pytest.skip(f"no {wrapper}")
    run(mpi, "mpirun", *mpi.options, "-n", "2", *around, program)
    chosen = choose_records(RunFolder(mpi.work / "run").processes())
    check([rank.record for rank in chosen.ranks], 2)
    assert (chosen.several, chosen.warnings) == (False, [])


def test_srun(mpi: Mpi, program: Path) -> None:
    """A stand-in: it sets what Slurm sets, hands the environment on as Slurm does, and starts the ranks."""
    text = 'shift\nexport SLURM_JOB_ID=7 SLURM_NTASKS="$1" SLURM_PROCID=0\nranks=$1\nshift\n'
    srun = script(mpi.work / "slurm" / "srun", f'{text}exec {mpi.folder}/mpirun {" ".join(mpi.options)} -n $ranks "$@"')
    # Neither a launcher of MPI nor its compiler is in the path: the program's library tells which MPI it is.
    check(run(mpi, "srun", "-n", "2", program, folders=f"{srun.parent}:/usr/bin:/bin"), 2)
