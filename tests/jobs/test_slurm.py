"""Jobs of Slurm on two emulated hosts: the planted line and rank are named, however they are started and ended.

``make slurm-test`` has Debian's packages of Slurm in ``build/slurm``, where these tests alone see them. All jobs run in
one cluster, one after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalana.runtime import user_cache
from scalana.runtime.record import layout
from tests.jobs.test_hosts import OF_MPI, PROGRAM, ROOT, TOOL, fault_of
from tests.scalana.test_batch_systems import blocks

PACKAGES = ROOT / "build" / "slurm"
MPI = ROOT / "build" / "mpi"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PACKAGES / ".installed").exists(), reason="no Slurm: make slurm-test"),
    pytest.mark.skipif(os.geteuid() != 0, reason="emulated hosts need root"),
]

RANK = f"""\
#!/bin/sh
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=host0 MASTER_PORT=29500
exec {sys.executable} {PROGRAM}
"""
TORCHRUN = (
    "torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-id $SLURM_JOB_ID --rdzv-endpoint host0:29400"
)
HERE = {
    " --gpus-per-node=8": "",
    "--nproc-per-node=8": "--nproc-per-node=2",
    "train.py": str(PROGRAM),
    "mpirun python solve.py": f"mpirun --allow-run-as-root {MPI}/openmpi/bin/python {OF_MPI}",
}
"""What the examples of the document are on these hosts."""


def example(number: int, folder: str) -> str:
    """A batch script of the document, with a run folder."""
    script = blocks("bash")[number].replace('"run-$SLURM_JOB_ID"', folder).removeprefix("#!/bin/bash\n")
    for there, here in HERE.items():
        script = script.replace(there, here)
    return script


BATCH = {
    "around-srun": example(0, "around-srun"),
    "around-mpirun": example(1, "around-mpirun"),
    "behind-srun": f"#SBATCH -N 2 --ntasks-per-node=1\nsrun scalana run -o behind-srun -- {TORCHRUN} {PROGRAM}",
    "cancelled": "#SBATCH -N 2 --ntasks-per-node=2\nexport STEPS=100000 UNDER_WAY=$PWD/under-way\n"
    "exec scalana run -o cancelled -- srun ./rank.sh",
    "limited": "#SBATCH -N 2 --ntasks-per-node=2 --time=1\nexport STEPS=100000\n"
    "exec scalana run -o limited -- srun ./rank.sh",
    "requeued": "#SBATCH -N 2 --ntasks-per-node=2 --requeue\n"
    "test $SLURM_RESTART_COUNT || export STEPS=100000 UNDER_WAY=$PWD/before-requeue\n"
    "exec scalana run -o requeued -- srun ./rank.sh",
    "private-cache": "#SBATCH -N 2 --ntasks-per-node=2\ncp -a $MADE cache/mpi\nexport SCALANA_CACHE=$PWD/cache\n"
    "exec scalana run -o private-cache -- sh job.sh",
}
"""Batch scripts by the name of their run folder."""
SAY = '#!/bin/sh\necho "$SLURM_PROCID $0 $* $SLURM_JOB_NAME"\n'
"""A program that prints what a launcher started it as."""
ALL_JOBS = f"""\
export PATH={MPI}/openmpi/bin:$PATH
sbatch -o limited.txt limited.sbatch
for job in around-srun around-mpirun behind-srun private-cache; do sbatch --wait -o $job.txt $job.sbatch; done
srun -N2 --ntasks-per-node=2 --mpi=pmi2 scalana run -o each-task -- {MPI}/mpich/bin/python {OF_MPI} > each-task.txt 2>&1
job=$(sbatch --parsable -o cancelled.txt cancelled.sbatch)
until test -e under-way; do sleep 0.2; done
sleep 1
scancel $job
while squeue -h -j $job 2> squeue.txt | grep -q .; do sleep 0.2; done
salloc -N2 --ntasks-per-node=2 scalana run -o in-salloc -- srun ./rank.sh > in-salloc.txt 2>&1
scalana run -o around-own-srun -- srun -N2 --ntasks-per-node=2 ./rank.sh > around-own-srun.txt 2>&1
srun -N2 -n3 say.sh one two > say.txt 2>&1
export SCALANA_CACHE=$PWD/cache
scalana run --mpi --no-report -- srun -N2 -n3 say.sh one two > say-recorded.txt 2> said.txt
unset SCALANA_CACHE
job=$(sbatch --parsable -o requeued.txt --open-mode=append requeued.sbatch)
until test -e before-requeue; do sleep 0.2; done
scontrol requeue $job
while squeue -h 2> squeue.txt | grep -q .; do sleep 0.2; done
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which all jobs ran."""
    work = tmp_path_factory.mktemp("slurm")
    tools = work / "bin"
    tools.mkdir()
    (tools / "scalana").write_text(f'#!/bin/sh\nexec {sys.executable} -m scalana "$@"\n')
    (tools / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    (work / "rank.sh").write_text(RANK)
    (tools / "say.sh").write_text(SAY)
    (work / "job.sh").write_text(f"srun --mpi=pmi2 {MPI}/mpich/bin/python {OF_MPI}\n")
    (work / "cache").mkdir()
    for name, lines in BATCH.items():
        (work / f"{name}.sbatch").write_text(f"#!/bin/sh\n{lines}\n")
    for program in (*tools.iterdir(), work / "rank.sh"):
        program.chmod(0o755)
    environ = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "MADE": user_cache.folder_of(user_cache.MPI, os.environ),
    }
    private = ["--private", str(work / "cache")]
    hosts = [sys.executable, str(TOOL), "--hosts", "2", "--limit", "900", *private, "--head", "--"]
    cluster = [str(TOOL.with_name("with-packages")), str(PACKAGES), *hosts, str(TOOL.with_name("with-slurm"))]
    words = [*cluster, "sh", "-c", ALL_JOBS]
    done = subprocess.run(words, cwd=work, env=environ, capture_output=True, text=True)
    (work / "output.txt").write_text(done.stdout + done.stderr)
    return work


def report_of(work: Path, name: str) -> dict[str, Any]:
    """The report that a job wrote, or a failure with all that it said."""
    path = Path(layout.report_file(work / name, "json"))
    said = work / f"{name}.txt"
    assert path.exists(), f"{said.read_text() if said.exists() else ''}\n{(work / 'output.txt').read_text()}"
    report: dict[str, Any] = json.loads(path.read_text())
    return report


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("around-srun", PROGRAM),
        ("around-mpirun", OF_MPI),
        ("behind-srun", PROGRAM),
        ("each-task", OF_MPI),
        ("cancelled", PROGRAM),
        ("limited", PROGRAM),
        ("in-salloc", PROGRAM),
        ("around-own-srun", PROGRAM),
    ],
)
def test_the_line_and_the_rank_are_named(jobs: Path, name: str, program: Path) -> None:
    report = report_of(jobs, name)
    run, first = report["run"], report["findings"][0]
    assert (run["hosts"], run["host_of_rank"]) == (["host0", "host1"], [0, 0, 1, 1])
    assert first["ranks"] == [2] and first["root"]["line"] in (fault_of(program), fault_of(program) - 1)
    assert not any("no record" in warning for warning in run["warnings"])
    said = (jobs / f"{name}.txt").read_text()
    assert "scalana ──" in said and "without the records" not in said


def test_a_job_that_is_started_again_continues_its_run(jobs: Path) -> None:
    report = report_of(jobs, "requeued")
    info = json.loads(Path(layout.info_file(jobs / "requeued")).read_text())
    assert len(info["before"]) == 1 and report["run"]["ranks"] == 4
    assert report["findings"][0]["ranks"] == [2]


def test_hosts_that_lack_the_recorder_print_no_errors(jobs: Path) -> None:
    report = report_of(jobs, "private-cache")
    said = (jobs / "private-cache.txt").read_text()
    assert "ld.so" not in said
    assert any("not recorded on host1" in warning for warning in report["run"]["warnings"]), report["run"]["warnings"]


def test_programs_of_srun_print_what_they_print_without_us(jobs: Path) -> None:
    said, recorded = (sorted((jobs / name).read_text().splitlines()) for name in ("say.txt", "say-recorded.txt"))
    assert len(said) == 3 and recorded == said
    assert "ld.so" not in (jobs / "said.txt").read_text()
