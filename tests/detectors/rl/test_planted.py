"""Planted causes: kind, processes and seconds are told, and following the advice gives what was predicted."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from scalana.cli import main
from scalana.detectors.rl.cause_table import CAUSES
from tests.long import in_short
from tests.needs import torch_or_skip

from ...attempts import attempts
from . import jobs
from .jobs import Recorded

pytestmark = pytest.mark.slow

CASES = jobs.cases()
OTHERS = {
    "outside": jobs.plan(outside_s=lambda step, rank: 0.25 if rank == 1 else 0.0),
    "pipeline": jobs.plan(stage_s=0.1),
    "log-prob": jobs.plan(log_prob_s=lambda step, rank: 0.28 if rank == 1 else 0.03),
}
"""Of which this detector has no kind of finding."""
PLANS = {
    **{name: case.plan for name, case in CASES.items()},
    **{f"{name}-mended": case.mended for name, case in CASES.items()},
    "even": jobs.plan(),
    **OTHERS,
}
ATTEMPTS = 3
SHORT = ("assignment", "verifier")
"""One inside of the model, and one outside."""


class Runs:
    """Recordings by attempt, of the plans that a test asks for."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._made: list[dict[str, Recorded]] = []

    def of(self, attempt: int, *names: str) -> list[Recorded]:
        while attempt >= len(self._made):
            self._made.append({})
        made = self._made[attempt]
        if missing := [name for name in names if name not in made]:
            made |= jobs.record({name: PLANS[name] for name in missing}, self._folders.mktemp("rl"))
        return [made[name] for name in names]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    torch_or_skip()
    return Runs(tmp_path_factory)


@pytest.mark.parametrize("name", in_short(CASES, SHORT))
def test_planted_causes_are_found(name: str, runs: Runs) -> None:
    problems: list[str] = []
    for attempt in attempts(ATTEMPTS):
        problems = jobs.problems_of(CASES[name], *runs.of(attempt, name, f"{name}-mended"))
        if not problems:
            return
    raise AssertionError(problems)


def test_an_even_loop_gets_no_blame(runs: Runs) -> None:
    told: list[object] = []
    for attempt in attempts(ATTEMPTS):
        (run,) = runs.of(attempt, "even")
        told = [(each.kind, each.ranks, each.lost_s) for each in run.findings]
        assert abs(sum(run.account.shares.values()) - 1.0) <= 0.01
        if not told:
            return
    raise AssertionError(told)


def test_a_pipeline_in_training(runs: Runs) -> None:
    """Each stage waits for those before it, and then for those behind it."""
    ranks, problems = jobs.RANKS, ""
    idle_s = ranks * (ranks - 1) * OTHERS["pipeline"].stage_s * jobs.STEPS
    for attempt in attempts(ATTEMPTS):
        (run,) = runs.of(attempt, "pipeline")
        shares, told = run.account.shares, run.account.shares["pipeline"] * run.account.total_s
        problems = f"{told} s, planted {idle_s}; {run.findings}"
        waiting = ("long-tail", "assignment", "training-imbalance", "slow-hardware", "starvation", "other")
        if math.isclose(told, idle_s, rel_tol=0.1) and max(map(shares.__getitem__, waiting)) < 0.03:
            assert not [each for each in run.findings if each.kind.startswith("rl-")]
            return
    raise AssertionError(problems)


@pytest.mark.parametrize(("name", "share"), [("outside", "other"), ("log-prob", "log-prob")])
def test_others_have_the_word_where_nothing_of_this_explains_it(name: str, share: str, runs: Runs) -> None:
    lost_s = 3 * jobs.STEPS * 0.25
    told: list[object] = []
    for attempt in attempts(ATTEMPTS):
        (run,) = runs.of(attempt, name)
        told = [(each.kind, each.ranks, each.lost_s) for each in run.findings]
        first = run.findings[0] if run.findings else None
        if first is None or not math.isclose(first.lost_s, lost_s, rel_tol=0.1):
            continue
        assert first.kind in ("late-ranks", "serial") and first.ranks == [1]
        assert run.account.shares[share] * run.account.total_s >= 0.9 * lost_s
        return
    raise AssertionError(told)


def test_the_model_is_fitted(runs: Runs) -> None:
    for attempt in attempts(ATTEMPTS):
        account = runs.of(attempt, "assignment")[0].account
        plan = CASES["assignment"].plan
        if math.isclose(account.floor_s, plan.floor_s, rel_tol=0.1) and math.isclose(
            account.sequence_s, plan.sequence_s, rel_tol=0.1
        ):
            return
    raise AssertionError((account.floor_s, account.sequence_s))


def test_the_reports(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = runs.of(0, "tail")
    schema = json.loads((jobs.ROOT / "docs" / "report.schema.json").read_text())
    report = json.loads(run.report.to_json())
    jsonschema.validate(report, schema)
    assert list(report["rl"]["shares"]) == [cause.key for cause in CAUSES]
    assert sum(report["rl"]["shares"].values()) == pytest.approx(1.0, abs=0.01)
    assert report["findings"][0]["root"]["phase"] == "generation"
    assert report["findings"][0]["root"]["trajectories"]
    text = run.report.to_text(width=80)
    assert "Reinforcement learning" in text and "what if" in text and max(map(len, text.splitlines())) <= 80
    assert main(["rl", "report", str(run.folder)]) == 0
    assert "long tail" in capsys.readouterr().out
    assert ElementTree.parse(run.folder / "rl-step.svg").getroot().tag.endswith("svg")
    picture = run.folder / "other.svg"
    assert main(["rl", "report", "--format", "json", "--svg", str(picture), str(run.folder)]) == 0
    assert json.loads(capsys.readouterr().out) == report["rl"] and picture.exists()
    assert main(["rl", "report", "--svg", str(run.folder / "no" / "folder.svg"), str(run.folder)]) == 1
    assert "folder.svg" in capsys.readouterr().err


def test_a_run_without_phases_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "import sys, scalana\nwith scalana.profile(sys.argv[1]): sum(range(10))"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=jobs.ROOT, check=True, timeout=60)
    assert main(["rl", "report", str(tmp_path)]) == 1
    assert "scalana.rl.phase" in capsys.readouterr().err
