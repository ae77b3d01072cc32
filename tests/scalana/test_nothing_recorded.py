"""The reasons for an empty run folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalana.job.nothing_recorded import explain


def script(path: Path, first: str) -> str:
    """An executable file that begins with a line."""
    path.write_text(f"{first}\nprint(1)\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("command", "exported", "named"),
    [
        (["srun", "-n", "2", "--export=NONE", "hostname"], "", "but NONE:"),
        (["sh", "-c", "srun --export PATH,A=1 hostname"], "", "but PATH,A=1:"),
        (["srun", "hostname"], "NONE", "but NONE:"),
        (["srun", "--export=ALL,A=1", "hostname"], "NONE", "no program that called MPI"),
        (["mpirun", "hostname"], "NONE", "no program that called MPI"),
        (["sbatch", "job.sh"], "", "in the batch script"),
    ],
)
def test_what_slurm_passes_on(monkeypatch: pytest.MonkeyPatch, command: list[str], exported: str, named: str) -> None:
    monkeypatch.setenv("SLURM_EXPORT_ENV", exported)
    assert named in explain(command, mpi=True)


def test_programs_that_are_not_python(tmp_path: Path) -> None:
    for command in (["true"], ["no-such-program"], [script(tmp_path / "job", "#!/bin/sh")]):
        reason = explain(command)
        assert reason.startswith(f"{command[0]} started no Python program, or cleared its environment;")
        assert reason.endswith("for MPI programs, use: scalana run --mpi")


def test_programs_of_mpi_that_made_no_call() -> None:
    reason = explain(["mpirun", "-n", "2", "hostname"], mpi=True)
    assert reason.startswith("mpirun started no Python program and no program that called MPI")
    assert "--mpi" not in reason


def test_options_that_keep_the_recorder_out(tmp_path: Path) -> None:
    for option, shown in (("-I", "-I"), ("-uE", "-E"), ("-BS", "-S")):
        assert f"started with {shown}," in explain([sys.executable, option, "train.py"])
    assert "started with -I," in explain([script(tmp_path / "job", f"#!{sys.executable} -I")])
    for fine in (["-X", "dev", "train.py", "-I"], ["-c", "pass", "-E"], ["-Wignore", "train.py"], ["-m", "mod", "-S"]):
        assert "ended before the recorder" in explain([sys.executable, *fine])


def test_another_python(tmp_path: Path) -> None:
    other = script(tmp_path / "python3.99", "#!/bin/sh\necho 3.99.1 .cpython-399-x86_64-linux-gnu.so; exit; ")
    assert explain([other, "train.py"]) == (
        f"{other} is Python 3.99.1, and this scalana has no recorder for it: install scalana there"
    )
    entry = script(tmp_path / "torchrun", f"#!{other}")
    assert "Python 3.99.1" in explain([entry], ["process 7 is not recorded"])
    broken = script(tmp_path / "python3.98", "#!/no/such/interpreter")
    assert "cannot be started" in explain([broken])


def test_what_the_recorders_noted() -> None:
    assert explain(["true"], ["disk full"]) == "disk full"
    assert explain(["true"], ["disk full", "disk full too"]) == "disk full (and 1 more)"


def test_programs_that_start_others_elsewhere(tmp_path: Path) -> None:
    loop = tmp_path / "loop.sh"
    loop.write_text("#!/bin/sh\nfor i in 0 1; do ssh host$i torchrun --nnodes 2 train.py & done; wait\n")
    for command in ([str(loop)], ["pdsh", "-w", "host[0-1]", "./app"], ["sh", "-c", "ssh host1 ./app"]):
        assert "put `scalana run --` before the command that it starts there" in explain(command)
