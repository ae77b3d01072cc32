"""Records samples, each of them at most once in a session (and once more without its fault).

Two environment variables help when the tool is tried on other programs: ``SAMPLES_FOLDER`` names a folder of programs
with headers of the same kind, ``SAMPLES_RUNS`` one in which the run folders are kept.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from scalana import api
from tests.needs import torch_or_skip
from tests.tools.fork_server import launcher

from .alone import alone, give_way
from .planted import SAMPLES, Sample, read_samples

ROOT = SAMPLES.parent
LIMIT_S = 60
"""Many times what a sample takes; what takes longer hangs."""
SHORT = (
    *("balanced_noise", "checkpoint_rank0", "decoy", "moving_rebuild", "parameter_server", "pipeline_chain"),
    *("power_law_graph", "slow_augmentation", "two_faults"),
)
"""Of different kinds: others have the mark ``long``, as `make proof NAME=accuracy-*` measures all of them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a test that asks for ``sample``, ``faulty`` or ``balanced`` one case per program of that sort."""
    chosen: dict[str, Callable[[Sample], bool]] = {
        "sample": lambda sample: True,
        "faulty": lambda sample: bool(sample.faults),
        "balanced": lambda sample: sample.balanced,
    }
    for name, wanted in chosen.items():
        if name in metafunc.fixturenames:
            samples = [s for s in read_samples(Path(os.environ.get("SAMPLES_FOLDER", SAMPLES))) if wanted(s)]
            marks = [() if sample.name in SHORT else pytest.mark.long for sample in samples]
            metafunc.parametrize(
                name, [pytest.param(one, marks=mark, id=one.name) for one, mark in zip(samples, marks, strict=True)]
            )


@pytest.fixture(scope="session", autouse=True)
def gives_way() -> None:
    give_way()


@dataclass
class Recording:
    """One run of a sample under ``scalana run``."""

    folder: Path
    output: str

    @property
    def loop_s(self) -> float:
        """Seconds of the training loop, by the program's own clock."""
        found = re.search(r"loop seconds: ([0-9.]+)", self.output)
        assert found, self.output
        return float(found[1])

    @cached_property
    def report(self) -> dict[str, Any]:
        return json.loads(api.analyze(self.folder).to_json())

    @property
    def findings(self) -> list[dict[str, Any]]:
        return self.report["findings"]


def scalana(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user does, from the checkout, to its end."""
    return alone(lambda: _run(arguments))


def _run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    process = subprocess.Popen(
        [sys.executable, "-m", "scalana", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": programs, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the ranks too
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def launch(sample: Sample) -> tuple[str, ...]:
    """The command before the program's name: as users launch it, but ranks of our own samples are forked.

    That takes a sixth of the CPU time. ``tests/jobs/test_launching.py`` has jobs that are launched as users do.
    """
    return tuple(launcher(sample.ranks)) if sample.path.parent == SAMPLES else sample.launch


Record = Callable[..., Recording]


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """``record(sample, fix=False, attempt=0)`` runs a sample, or gives what that attempt gave the first time."""
    torch_or_skip()
    kept = os.environ.get("SAMPLES_RUNS")
    runs = Path(kept).resolve() if kept else tmp_path_factory.mktemp("runs")
    runs.mkdir(parents=True, exist_ok=True)
    seen: dict[tuple[Path, bool, int], Recording | str] = {}

    def folder(sample: Sample, fix: bool, attempt: int) -> Path:
        return runs / (sample.name + ("-fixed" if fix else "") + (f"-{attempt}" if attempt else ""))

    def make(sample: Sample, fix: bool, attempt: int) -> Recording | str:
        command = [*launch(sample), str(sample.path), *(["--fix"] if fix else [])]
        into = folder(sample, fix, attempt)
        try:
            done = scalana("run", "--no-report", "-o", str(into), "--", *command)
        except subprocess.TimeoutExpired:
            return f"{sample.name} did not end within {LIMIT_S} s"
        if done.returncode != 0:
            return f"{sample.name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return Recording(into, done.stdout)

    def once(sample: Sample, fix: bool = False, attempt: int = 0) -> Recording:
        key = (sample.path, fix, attempt)
        if key not in seen:
            seen[key] = make(sample, fix, attempt)
        recording = seen[key]
        if isinstance(recording, str):
            raise AssertionError(recording)
        return recording

    return once
