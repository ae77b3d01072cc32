"""Real jobs of several ranks, launched in every way and ended in every way: there is always a true report."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scalana import api
from tests.installed import RUNTIME
from tests.needs import torch_or_skip

pytestmark = pytest.mark.slow

torch_or_skip()

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
TRAIN = PROGRAMS / "train.py"
LIMIT_S = 120
HANGS_S = 4.0
NO_REPORT = ("--no-report",)
"""Of jobs whose report a test makes itself."""


def line_of(program: Path, comment: str) -> int:
    return 1 + next(n for n, text in enumerate(program.read_text().splitlines()) if text.endswith(f"# {comment}"))


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **more}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def slept(folder: Path) -> Path:
    """Where the slow rank of a run leaves what it has slept."""
    return folder.with_name("slept")


def start(folder: Path, *command: str, options: Sequence[str] = NO_REPORT, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scalana", "run", *options, "-o", str(folder), "--", *command],
        cwd=ROOT,
        env=environment(SLEPT=str(slept(folder)), **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *command: str, options: Sequence[str] = NO_REPORT, **more: str) -> tuple[int, str, str]:
    job = start(folder, *command, options=options, **more)
    try:
        out, err = job.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        job.kill()
        raise
    return job.returncode, out, err


def report(folder: Path) -> dict[str, Any]:
    return json.loads(api.analyze(folder).to_json())


def check_slow_rank(folder: Path, ranks: int) -> dict[str, Any]:
    """Check what a run's report says; returns it."""
    document = report(folder)
    finding = document["findings"][0]
    assert Path(finding["root"]["file"]).name == "train.py"
    assert (finding["root"]["line"], finding["ranks"]) == (line_of(TRAIN, "slow here"), [1])
    assert finding["lost_s"] == pytest.approx(float(slept(folder).read_text()) * (ranks - 1), rel=0.15)
    total = sum(document["time"].values())
    assert total == pytest.approx(document["run"]["ranks"] * document["run"]["seconds"], rel=0.01)
    return document


TORCHRUN = ["torchrun", "--standalone", "--nproc-per-node", "2"]
PYTHON_MODULE = [sys.executable, "-m", "tests.jobs.programs.train"]


@pytest.mark.measured
@pytest.mark.parametrize(
    "command",
    [[*TORCHRUN, str(TRAIN)], [*PYTHON_MODULE, "--spawn", "2"]],
    ids=["torchrun", "python -m spawn"],
)
def test_every_way_to_launch(tmp_path: Path, command: list[str]) -> None:
    code, out, err = run(tmp_path / "run", *command, options=(), PORT=str(free_port()))
    assert code == 0, err
    assert sorted(out.splitlines()) == ["rank 0 has finished", "rank 1 has finished"]
    check_slow_rank(tmp_path / "run", 2)
    assert "train.py" in err


@pytest.mark.measured
def test_a_rank_that_is_killed_launched_as_a_module(tmp_path: Path) -> None:
    code, _, err = run(tmp_path / "run", *TORCHRUN, *PYTHON_MODULE[1:], "--ending", "kill")
    assert code == 1, err
    document = check_slow_rank(tmp_path / "run", 2)
    assert any("rank 1" in warning for warning in document["run"]["warnings"])
    assert document["run"]["exit_code"] == 1


@pytest.mark.measured
@pytest.mark.long
def test_a_rank_that_raises_launched_by_the_module_of_torch(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", *TORCHRUN[1:], str(TRAIN)]
    code, _, err = run(tmp_path / "run", *launch, "--ending", "raise")
    assert code == 1
    assert "the loss is not finite" in err
    check_slow_rank(tmp_path / "run", 2)


def start_one_that_hangs(tmp_path: Path, options: Sequence[str] = NO_REPORT) -> subprocess.Popen[str]:
    """A job of which a rank has been stuck for some seconds."""
    stuck = tmp_path / "stuck"
    job = start(tmp_path / "run", *TORCHRUN, str(TRAIN), "--ending", "hang", options=options, STUCK=str(stuck))
    limit = time.monotonic() + LIMIT_S
    while not stuck.exists() and job.poll() is None and time.monotonic() < limit:
        time.sleep(0.1)
    time.sleep(HANGS_S)
    return job


def launcher_of(job: subprocess.Popen[str]) -> int:
    """The torchrun of a job."""
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    (found,) = [pid for pid in children if b" -m scalana run " not in command_line(pid)]
    return int(found)


def command_line(pid: str) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")


@pytest.mark.measured
def test_a_job_that_hangs_until_it_is_stopped(tmp_path: Path) -> None:
    job = start_one_that_hangs(tmp_path)
    os.kill(launcher_of(job), signal.SIGTERM)
    _, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode != 0
    document = report(tmp_path / "run")
    finding = next(f for f in document["findings"] if f["kind"] == "hang")
    assert (finding["root"]["line"], finding["ranks"]) == (line_of(TRAIN, "stuck here"), [1]), err
    assert finding["lost_s"] > 1.0


@pytest.mark.long
@pytest.mark.measured
def test_a_job_that_is_interrupted(tmp_path: Path) -> None:
    job = start_one_that_hangs(tmp_path, options=())
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode != 0
    assert "scalana" in err
    check_slow_rank_or_hang(report(tmp_path / "run"))


def check_slow_rank_or_hang(document: dict[str, Any]) -> None:
    lines = {(finding["kind"], finding["root"]["line"]) for finding in document["findings"]}
    assert ("late-ranks", line_of(TRAIN, "slow here")) in lines
    assert ("hang", line_of(TRAIN, "stuck here")) in lines


@pytest.mark.measured
@pytest.mark.long
def test_two_nodes_that_share_a_run_folder(tmp_path: Path) -> None:
    port = free_port()
    nodes = [
        "torchrun",
        "--nnodes=2",
        "--nproc-per-node=2",
        "--master-addr=127.0.0.1",
        f"--master-port={port}",
    ]
    first = start(tmp_path / "run", *nodes, "--node-rank=0", str(TRAIN))
    limit = time.monotonic() + LIMIT_S
    while not (tmp_path / "run" / "records").is_dir() and time.monotonic() < limit:
        time.sleep(0.05)
    second = subprocess.Popen(
        [*nodes, "--node-rank=1", str(TRAIN)],
        cwd=ROOT,
        env=recorded_environment(tmp_path / "run"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert second.wait(timeout=LIMIT_S) == 0
    end_the_wait(first)
    assert first.wait(timeout=LIMIT_S) == 0
    for job in (first, second):
        job.communicate()
    check_slow_rank(tmp_path / "run", 4)


def end_the_wait(job: subprocess.Popen[str]) -> None:
    """Press Ctrl-C when a start waits for one on another node, as it says itself: here there is none."""
    assert job.stderr is not None
    for line in job.stderr:
        if "Ctrl-C: report now" in line:
            job.send_signal(signal.SIGINT)
            return


def recorded_environment(folder: Path) -> dict[str, str]:
    """What the launcher of a second node is given: the same run folder."""
    return environment(SCALANA_RUN_DIR=str(folder), PYTHONPATH=str(RUNTIME / "bootstrap"), SCALANA_RATE_HZ="200")


@pytest.mark.measured
def test_a_program_that_records_a_part_of_itself(tmp_path: Path) -> None:
    program = PROGRAMS / "marked.py"
    folder = tmp_path / "part"
    done = subprocess.run(
        [*TORCHRUN, str(program), str(folder)],
        cwd=ROOT,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = report(folder)
    slow = next(f for f in document["findings"] if f["root"]["line"] == line_of(program, "slow here"))
    assert slow["ranks"] == [1]
    assert slow["lost_s"] == pytest.approx(float(done.stdout), rel=0.2)
    assert any(f["kind"] == "carried-in" and f["ranks"] == [1] for f in document["findings"])
