"""A loop of reinforcement learning on Ray: one job, and all that its report has to say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.rl.account import RLAccount
from tests.jobs.test_launching import PROGRAMS, ROOT, environment, line_of
from tests.needs import torch_or_skip

pytestmark = pytest.mark.slow

torch_or_skip()

RAY = ROOT / "build" / "ray" / "site-packages"
PROGRAM = PROGRAMS / "ray_loop.py"
SYNCHRONOUS, AHEAD = 3, 7
NAMES = ["Rollout 0", "Rollout 1", "Trainer 0", "Trainer 1", "the driver"]

if not RAY.is_dir():
    pytest.skip("Ray is not installed: make ray", allow_module_level=True)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("ray") / "run"
    command = [sys.executable, str(PROGRAM), str(SYNCHRONOUS), str(AHEAD)]
    done = subprocess.run(
        [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", *command],
        cwd=ROOT,
        env=environment(PYTHONPATH=str(RAY), RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0"),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def report(job: tuple[Path, subprocess.CompletedProcess[str]]) -> api.Report:
    return api.analyze(os.fspath(job[0]))


def test_driver_and_actors_are_processes_by_their_roles(report: api.Report) -> None:
    document = json.loads(report.to_json())
    assert document["run"]["processes"] == NAMES
    assert [(world["role"], world["size"]) for world in document["run"]["worlds"]] == [
        ("Rollout", 2), ("Trainer", 2), ("driver", 1),
    ]  # fmt: skip
    # Ray ends its workers as it likes, and has started some ahead.
    assert not [text for text in document["run"]["warnings"] if "record" in text or "lack members" in text]
    assert sum(document["time"].values()) == pytest.approx(5 * document["run"]["seconds"], rel=0.01)


def test_the_program_prints_what_it_would(job: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = job
    assert done.stdout.splitlines() == ["loop done"]


def test_who_waits_in_the_driver_waits_for_actors(report: api.Report) -> None:
    ppg = report.ppg
    driver = NAMES.index("the driver")
    lines = {
        place.line: float(ppg.metrics["wait_s"][vertex, driver])
        for vertex, place in enumerate(each.place for each in ppg.psg.vertices)
        if ppg.metrics["wait_s"][vertex, driver] > 0.0 and place.file == str(PROGRAM)
    }
    assert lines[line_of(PROGRAM, "waits for trainers")] > 0.04 * SYNCHRONOUS + 0.2 * AHEAD
    assert lines[line_of(PROGRAM, "waits for rollouts")] > 0.25 * SYNCHRONOUS


def test_actors_that_are_late_are_named_with_their_function(report: api.Report) -> None:
    late: dict[str, tuple[str, str]] = {}
    for finding in report.findings:  # the largest first; start-up apart
        if finding.function != "Trainer.join":
            late.setdefault(report.ppg.run.names.many(finding.ranks), (finding.file, finding.function))
    assert late["Rollout 1"] in [(str(PROGRAM), "Rollout.generate"), (str(PROGRAM), "decode")]
    assert late["Trainer 0"] in [(str(PROGRAM), "Trainer.train"), (str(PROGRAM), "backward")]


def test_process_time_of_the_loop_adds_up(report: api.Report) -> None:
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    assert len(account.step_s) == SYNCHRONOUS + AHEAD
    assert account.roles == {"rollout": [0, 1], "trainer": [2, 3]}
    assert sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    # Each half of the loop is idle while the other works, and one trainer is slow at the same tokens.
    assert min(account.shares[key] for key in ("generation", "training", "starvation", "pipeline")) > 0.03
    found = {finding.kind: report.ppg.run.names.many(finding.ranks) for finding in report.findings}
    assert found["rl-slow-hardware"] == "Trainer 0"
    # Rollout 0 and both trainers wait for the long trajectory: a part of that another assignment would mend.
    assert {found["rl-assignment"], found["rl-long-tail"]} == {"Rollout 1"}
