"""Whole jobs of RLlib, as its users start them: what their reports say of causes that are planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scalana import api
from scalana.detectors.finding import Finding
from scalana.detectors.rl.account import RLAccount
from tests.jobs.test_launching import PROGRAMS, ROOT, environment, line_of
from tests.needs import torch_or_skip

pytestmark = pytest.mark.slow

torch_or_skip()

PROGRAM, PLANTED = PROGRAMS / "rllib_loop.py", PROGRAMS / "rllib_planted.py"
PACKAGES = [ROOT / "build" / name / "site-packages" for name in ("rllib", "ray")]
ITERATIONS, LIMIT_S = 6, 900

if not all(path.is_dir() for path in PACKAGES):
    pytest.skip("RLlib is not installed: make rllib", allow_module_level=True)


class Job:
    """One, and what it measured itself."""

    def __init__(self, folder: Path, algorithm: str, learners: int, iterations: int, *planted: str) -> None:
        self.folder, self.truth = folder / "run", folder / "truth"
        self.truth.mkdir()
        command = [sys.executable, PROGRAM, algorithm, learners, iterations, self.truth, *planted]
        done = subprocess.run(
            [sys.executable, "-m", "scalana", "run", "--no-report", "-o", self.folder, "--", *map(str, command)],
            cwd=ROOT,
            env=environment(
                PYTHONPATH=os.pathsep.join(map(str, PACKAGES)),
                RAY_AUTH_MODE="disabled",
                RAY_USAGE_STATS_ENABLED="0",
                RAY_ADDRESS="local",
                OMP_NUM_THREADS="1",
            ),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        self.stdout = done.stdout
        self.report = api.analyze(os.fspath(self.folder))

    @property
    def names(self) -> list[str]:
        run = self.report.ppg.run
        return [run.names.one(process) for process in range(run.ranks)]

    def account(self) -> RLAccount:
        account = self.report.analysis.sections["rl"]
        assert isinstance(account, RLAccount)
        return account

    def roles(self) -> dict[str, list[str]]:
        return {role: [self.names[rank] for rank in ranks] for role, ranks in self.account().roles.items()}

    def at(self, comment: str) -> list[tuple[str, list[str], Finding]]:
        """Findings at a line that is planted: their kinds, and whom they name."""
        line = line_of(PLANTED, comment)
        return [
            (finding.kind, [self.names[rank] for rank in finding.ranks], finding)
            for finding in self.report.findings
            if finding.file == str(PLANTED) and finding.line == line
        ]

    def slept_s(self, what: str) -> float:
        """What one of its processes slept at a place, the one that did most."""
        return max(sum(map(float, path.read_text().split())) for path in self.truth.glob(f"{what}-*"))


@pytest.fixture(scope="module")
def synchronous(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("rllib"), "ppo", 2, ITERATIONS, "env", "learner", "evaluation")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("rllib"), "ppo", 0, ITERATIONS, "connector", "weights")


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("rllib"), "appo", 1, ITERATIONS)


def test_actors_are_known_by_what_they_are_to_rllib(synchronous: Job) -> None:
    runners = ["EnvRunner 1", "EnvRunner 2", "EnvRunner 3"]
    assert synchronous.stdout.splitlines()[-1] == "trained"
    assert synchronous.names == [*runners, "EvalEnvRunner 1", "Learner 0", "Learner 1", "the driver"]
    told = synchronous.roles()
    assert told == {"rollout": runners, "trainer": ["Learner 0", "Learner 1"], "evaluation": ["EvalEnvRunner 1"]}
    # That is all of them: nobody waits for one who left no record.
    assert not [text for text in synchronous.report.ppg.run.warnings if "without a record" in text]


def test_iterations_are_the_steps(synchronous: Job) -> None:
    account, measured = synchronous.account(), synchronous.slept_s("iteration")
    assert account.framework == "rllib" and account.unit == "env step"
    assert len(account.step_s) == ITERATIONS and account.first_step == 1
    assert account.step_s.sum() == pytest.approx(measured, rel=0.05)
    assert sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    assert min(account.shares[key] for key in ("generation", "training", "evaluation", "slow-hardware")) > 0.01


@pytest.mark.measured
def test_what_is_slow_is_told_by_line_and_process(synchronous: Job) -> None:
    found = {kind: (names, finding) for kind, names, finding in synchronous.at("slow environment")}
    assert found["rl-slow-hardware"][0] == ["EnvRunner 3"]
    assert found["rl-evaluation"][0] == ["EvalEnvRunner 1"]
    # Two of three wait less for what the driver does meanwhile: most of it is saved.
    assert found["rl-evaluation"][1].saving_s > 0.5 * synchronous.slept_s("env")
    ((kind, names, finding),) = synchronous.at("slow learner")
    assert (kind, names) == ("rl-slow-hardware", ["Learner 1"])
    assert finding.saving_s == pytest.approx(synchronous.slept_s("learner"), rel=0.25)
    assert "this line, which the others hardly run" in str(finding.evidence.as_dict()["recurrence"])


@pytest.mark.measured
def test_a_slow_connector_and_large_weights_of_a_driver_that_trains(local: Job) -> None:
    assert local.roles() == {"rollout": ["EnvRunner 1", "EnvRunner 2", "EnvRunner 3"], "trainer": ["the driver"]}
    ((kind, names, finding),) = local.at("slow connector")
    assert (kind, names) == ("rl-data-transfer", ["the driver"])
    assert finding.saving_s == pytest.approx(local.slept_s("connector"), rel=0.1)
    (sync,) = [finding for finding in local.report.findings if finding.kind == "rl-weight-sync"]
    assert "the driver" in local.names[sync.ranks[-1]] and sync.file == str(PROGRAM)
    assert local.account().shares["weight-sync"] > 0.05


@pytest.mark.measured
def test_runners_of_an_asynchronous_loop_work_and_its_learner_waits_for_them(asynchronous: Job) -> None:
    account = asynchronous.account()
    told = asynchronous.roles()
    assert told == {"rollout": ["EnvRunner 1", "EnvRunner 2", "EnvRunner 3"], "trainer": ["Learner 0"]}
    assert len(account.step_s) == ITERATIONS
    assert sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    # Three of five processes generate nearly all of the time, as what they wait for is not there for half of a second.
    assert account.shares["generation"] + account.shares["under-batched"] > 0.35
    # The other two wait for them most of it: the driver asks again and again.
    assert account.shares["starvation"] > 0.1
    waited = {name: float(seconds) for name, seconds in zip(asynchronous.names, waited_s(asynchronous), strict=True)}
    assert waited["the driver"] > 2 * max(waited[name] for name in told["rollout"])


def waited_s(job: Job) -> np.ndarray:
    return np.asarray(job.report.ppg.metrics["wait_s"].sum(axis=0))


def test_tune_as_the_launcher(tmp_path: Path) -> None:
    job = Job(tmp_path, "tune", 0, 2)
    assert job.stdout.splitlines()[-1] == "trials: 2 []"
    counts = {role: sum(name.split()[0] == role for name in job.names) for role in ("EnvRunner", "PPO")}
    assert counts == {"EnvRunner": 6, "PPO": 2}
    assert len(set(job.names)) == len(job.names)
