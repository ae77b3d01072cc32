"""A loop of reinforcement learning on Ray: one job, and all that its report has to say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.facts import Facts
from scalana.detectors.rl.account import RLAccount
from scalana.runtime.record import layout
from tests.attempts import attempts
from tests.jobs.test_launching import PROGRAMS, ROOT, environment, line_of
from tests.needs import torch_or_skip
from tests.runtime.jobs import shows_recorder

pytestmark = pytest.mark.slow

torch_or_skip()

WAITS = PROGRAMS / "ray_waits.py"
RAY = ROOT / "build" / "ray" / "site-packages"
PROGRAM = PROGRAMS / "ray_loop.py"
SYNCHRONOUS, AHEAD = 3, 7
NAMES = ["Rollout 0", "Rollout 1", "Trainer 0", "Trainer 1", "the driver"]

if not RAY.is_dir():
    pytest.skip("Ray is not installed: make ray", allow_module_level=True)


Job = tuple[Path, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return recorded(tmp_path_factory.mktemp("ray") / "run", PROGRAM, str(SYNCHRONOUS), str(AHEAD))


def recorded(folder: Path, *program: str | Path, **variables: str) -> Job:
    command = [sys.executable, *map(str, program)]
    done = subprocess.run(
        [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", *command],
        cwd=ROOT,
        env=environment(
            PYTHONPATH=str(RAY),
            RAY_AUTH_MODE="disabled",
            RAY_USAGE_STATS_ENABLED="0",
            RAY_ADDRESS="local",  # where a program names none: not what is left of others on this machine
            **variables,
        ),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def report(job: Job) -> api.Report:
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


def test_the_program_prints_what_it_would(job: Job) -> None:
    _, done = job
    assert done.stdout.splitlines() == ["loop done"]


@pytest.mark.measured
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


@pytest.mark.measured
def test_actors_that_are_late_are_named_with_their_function(report: api.Report) -> None:
    late: dict[str, tuple[str, str]] = {}
    for finding in report.findings:  # the largest first; start-up apart
        if finding.function != "Trainer.join":
            late.setdefault(report.ppg.run.names.many(finding.ranks), (finding.file, finding.function))
    assert late["Rollout 1"] in [(str(PROGRAM), "Rollout.generate"), (str(PROGRAM), "decode")]
    assert late["Trainer 0"] in [(str(PROGRAM), "Trainer.train"), (str(PROGRAM), "backward")]


@pytest.mark.measured
def test_process_time_of_the_loop_adds_up(report: api.Report) -> None:
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    assert len(account.step_s) == SYNCHRONOUS + AHEAD
    assert account.roles == {"rollout": [0, 1], "trainer": [2, 3]}
    assert sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    # Each half of the loop is idle while the other works, and one trainer is slow at the same tokens.
    assert min(account.shares[key] for key in ("generation", "training", "starvation", "backpressure")) > 0.03
    found = {finding.kind: report.ppg.run.names.many(finding.ranks) for finding in report.findings}
    assert found["rl-slow-hardware"] == "Trainer 0"
    # Rollout 0 and both trainers wait for the long trajectory: a part of that another assignment would mend.
    assert {found["rl-assignment"], found["rl-long-tail"]} == {"Rollout 1"}


CASES = ("awaited", "streamed", "streamed_to_loop", "pooled", "nested", "queued", "full", "far", "failed")
ROUNDS = 4
SLOW_S = 1.4
"""What each of them sleeps at its slow line."""


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return recorded(tmp_path_factory.mktemp("ray") / "run", WAITS, *CASES)


def test_each_way_to_wait_is_walked_back_to_the_slow_line(waits: Job, tmp_path: Path) -> None:
    """Through async actors, items of generators, pools of actors, tasks of tasks, queues, and to a second node."""
    problems: list[str] = []
    for number in attempts(2):
        folder, _ = recorded(tmp_path / "run", WAITS, *CASES) if number else waits
        problems = not_walked_back(folder)
        if not problems:
            break
    assert not problems


def not_walked_back(folder: Path) -> list[str]:
    """Seconds of one recording that are too few: by what is blamed, and by where it is waited."""
    ppg = api.analyze(os.fspath(folder)).ppg
    facts, names = Facts(ppg), ppg.run.names
    activities, rank = facts.timeline.activities, facts.timeline.locations.rank
    blamed: dict[tuple[str, int], float] = defaultdict(float)
    for location, target, seconds in zip(facts.blame.location, facts.blame.target, facts.blame.seconds, strict=True):
        if target < len(activities):
            vertex = ppg.psg[int(activities.vertex[target])]
            here = vertex.place.file == str(WAITS)
            line = int(activities.line[target]) if here else 0
            blamed[names.role_of(int(rank[location])), line] += float(seconds)
    # So many others wait for each: the driver, and who is between, or idles meanwhile.
    expected = [
        (comment, blamed[role, line_of(WAITS, comment)], others * SLOW_S)
        for comment, role, others in (
            ("slow engine", "Engine", 2), ("slow source", "Source", 2), ("slow item", "Pooled", 1),
            ("slow part", "worker", 2), ("slow producer", "Producer", 1),
            # Both wait until there is room again for the last that they put.
            ("slow taker", "Taker", 2 * (ROUNDS - 1) / ROUNDS), ("slow far away", "Far", 1),
        )
    ]  # fmt: skip
    # Of a coroutine that sleeps there is its loop, or the line that awaits the sleep.
    of_loop = sum(seconds for (role, _), seconds in blamed.items() if role == "AsyncSource")
    expected.append(("async source", of_loop, SLOW_S))
    waited: dict[tuple[str, int], float] = defaultdict(float)
    for vertex in ppg.psg.vertices:
        if vertex.place.file == str(WAITS):
            for process, seconds in enumerate(ppg.metrics["wait_s"][vertex.index].tolist()):
                waited[names.role_of(process), vertex.place.line] += seconds
    for comment, role in (
        ("awaits front", "driver"), ("starves", "Consumer"), ("awaits items", "driver"), ("waits for parts", "worker"),
        ("polls", "driver"), ("waits for room", "Filler"),
    ):  # fmt: skip
        expected.append((comment, waited[role, line_of(WAITS, comment)], SLOW_S))
    return [
        f"{comment}: {seconds:.2f} of {whole:.2f} s" for comment, seconds, whole in expected if seconds <= 0.75 * whole
    ]


def test_tracebacks_of_errors_have_no_line_of_ours(waits: Job) -> None:
    lines = waits[1].stdout.splitlines()
    assert [line.split()[0] for line in lines if line.split()[0] in CASES] == list(CASES)
    assert lines.count(str(WAITS)) == 4, "where two errors are raised, and where they are caught"
    assert shows_recorder(waits[1].stdout) == []


@pytest.mark.long
def test_records_that_stayed_on_another_host(tmp_path: Path) -> None:
    """A worker that finds no run folder at its place makes one there: the report says that something is lacking, and is
    whole when the records are copied together."""
    folder, far = tmp_path / "run", tmp_path / "far"
    variables = json.dumps({layout.RUN_VARIABLE: str(far)})
    recorded(folder, WAITS, "elsewhere", FAR_VARIABLES=variables)
    lacking = api.analyze(os.fspath(folder)).ppg.run
    assert "Far" not in "".join(map(lacking.names.one, range(lacking.ranks)))
    assert [text for text in lacking.warnings if "without a record here" in text], lacking.warnings
    shutil.copytree(far / layout.RECORDS, folder / layout.RECORDS, dirs_exist_ok=True)
    whole = api.analyze(os.fspath(folder)).ppg.run
    assert "Far" in "".join(map(whole.names.one, range(whole.ranks)))
    assert not [text for text in whole.warnings if "without a record here" in text], whole.warnings
