"""Jobs of Ray Train, Data, Tune and Serve, as their users start them: what is slow is measured there by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.facts import Facts
from tests.jobs.test_launching import PROGRAMS, ROOT, environment, line_of
from tests.needs import torch_or_skip

pytestmark = pytest.mark.slow

torch_or_skip()

TRAIN, TUNE, SERVE = (PROGRAMS / f"ray_{name}.py" for name in ("train", "tune", "serve"))
RAY, LIBRARIES, FOR_SERVE = (ROOT / "build" / name / "site-packages" for name in ("ray", "raylibs", "rayserve"))
MOST = 0.6
"""Part of what was measured that must be found: Ray looks for results ten times a second, which takes its time, too."""

if not (RAY.is_dir() and LIBRARIES.is_dir()):
    pytest.skip("what Ray's libraries need is not installed: make raylibs", allow_module_level=True)


@dataclass(frozen=True)
class Job:
    """A job that was recorded."""

    program: Path
    report: api.Report
    stdout: str
    truth: Mapping[str, float]
    """Seconds that the program measured, by what."""

    @classmethod
    def recorded(cls, folder: Path, program: Path, *packages: Path) -> Job:
        truth = folder / "truth"
        truth.mkdir()
        run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder / "run"), "--"]
        done = subprocess.run(
            [*run, sys.executable, str(program), str(truth)],
            cwd=ROOT,
            env=environment(
                PYTHONPATH=os.pathsep.join(map(str, (LIBRARIES, *packages, RAY))),
                RAY_AUTH_MODE="disabled",
                RAY_USAGE_STATS_ENABLED="0",
                RAY_ADDRESS="local",
                RAY_TRAIN_HEALTH_CHECK_INTERVAL_S="0.2",  # a report waits until it is asked for
                RAY_TRAIN_ENABLE_PREEMPTION_WATCHER="0",
                RAY_AIR_NEW_OUTPUT="0",
            ),
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr
        seconds = {file.name: float(file.read_text()) for file in truth.iterdir()}
        return cls(program, api.analyze(os.fspath(folder / "run")), done.stdout, seconds)

    def blamed_s(self, role: str, comment: str) -> float:
        """Waiting of all that is charged to the line with a comment, on processes of a role."""
        ppg = self.report.ppg
        facts, names, line = Facts(ppg), ppg.run.names, line_of(self.program, comment)
        activities, rank = facts.timeline.activities, facts.timeline.locations.rank
        total = 0.0
        for location, target, seconds in zip(
            facts.blame.location, facts.blame.target, facts.blame.seconds, strict=True
        ):
            if target < len(activities) and names.role_of(int(rank[location])) == role:
                place = ppg.psg[int(activities.vertex[target])].place
                # A block of lines is told by its first.
                if place.file == str(self.program) and line - 1 <= activities.line[target] <= line:
                    total += float(seconds)
        return total

    def waited_s(self, comment: str) -> dict[str, float]:
        """Waiting at the line with a comment, by process."""
        ppg, line = self.report.ppg, line_of(self.program, comment)
        waited: dict[str, float] = defaultdict(float)
        for vertex in ppg.psg.vertices:
            if vertex.place.file == str(self.program) and vertex.place.line == line:
                for process, seconds in enumerate(ppg.metrics["wait_s"][vertex.index].tolist()):
                    waited[ppg.run.names.one(process)] += seconds
        return waited

    def spurious(self) -> list[str]:
        """Warnings, but for those of a busy machine."""
        warnings: list[str] = json.loads(self.report.to_json())["run"]["warnings"]
        return [text for text in warnings if "waited for a CPU core" not in text]

    def files_named(self) -> set[str]:
        """Files that findings name."""
        return {finding.file for finding in self.report.findings}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job.recorded(tmp_path_factory.mktemp("train"), TRAIN)


def test_workers_of_a_trainer_are_ranks_and_ray_keeps_to_itself(trained: Job) -> None:
    run = trained.report.ppg.run
    names = [run.names.one(process) for process in range(run.ranks)]
    assert [name for name in names if not name.startswith(("data worker", "the data worker"))] == [
        "the MapBatches(Crop)", "the data coordinator", "trainer 0", "trainer 1",
    ]  # fmt: skip
    assert [(world.size, world.ranked) for world in run.worlds if world.role == "trainer"] == [(2, True)]
    assert not trained.spurious()
    assert trained.stdout.splitlines()[-1] == "trained ['loss']"  # Ray's own warnings are before it


@pytest.mark.measured
def test_a_slow_line_and_a_slow_checkpoint_are_charged_with_what_the_other_waits(trained: Job) -> None:
    for role_line, name in (("slow line", "slow"), ("slow checkpoint", "checkpoint")):
        assert trained.blamed_s("trainer", role_line) == pytest.approx(trained.truth[name], rel=0.15), name


@pytest.mark.measured
def test_who_waits_for_batches_waits_for_the_map_function(trained: Job) -> None:
    waited = trained.waited_s("waits for data")
    for rank in range(2):
        # Until the pipeline has begun there is nobody to wait for.
        assert 0.5 * trained.truth["map"] < waited[f"trainer {rank}"] < 1.05 * trained.truth[f"data{rank}"]
    assert trained.blamed_s("MapBatches(Crop)", "slow map") > MOST * trained.truth["map"]
    assert trained.files_named() <= {str(TRAIN)}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job.recorded(tmp_path_factory.mktemp("tune"), TUNE)


@pytest.mark.measured
def test_a_slow_trial_is_what_the_driver_waits_for(tuned: Job) -> None:
    assert tuned.blamed_s("trial", "slow trial") > MOST * tuned.truth["trial"]
    assert tuned.report.ppg.run.names.count(4) == "4 processes (1 driver, 3 trial)"
    assert not tuned.spurious()
    assert tuned.files_named() <= {str(TUNE)}
    assert tuned.stdout.splitlines()[-1] == "tuned 3"


@pytest.mark.measured
@pytest.mark.skipif(not FOR_SERVE.is_dir(), reason="what Ray Serve needs is not installed: make raylibs")
def test_a_slow_replica_is_what_is_waited_for(tmp_path: Path) -> None:
    served = Job.recorded(tmp_path, SERVE, FOR_SERVE)
    assert served.blamed_s("Model", "slow replica") > MOST * served.truth["replica1"]
    assert served.report.ppg.run.names.count(3) == "3 processes (2 Model, 1 driver)"
    assert served.waited_s("waits for replies")["the driver"] > MOST * served.truth["replica1"]
    assert not served.spurious()
    assert served.files_named() <= {str(SERVE)}
    assert served.stdout.splitlines()[-1].startswith("served")
