"""Steps and regions on the page, in JSON and at the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import scalana
from scalana.detectors.evidence import Evidence, InSteps, LostByPhase
from scalana.detectors.when.region_times import REGIONS, RegionTime
from scalana.detectors.when.slow_steps import SLOW_STEPS, SlowStep
from scalana.graphs.steps.periods import Periods
from scalana.report import names, text
from scalana.report.findings import over_steps
from scalana.report.topics import steps
from tests.known import with_section
from tests.needs import torch_or_skip
from tests.runtime import jobs
from tests.scalana.command import command
from tests.scalana.examples import balanced, late_rank
from tests.scalana.recorded import PREPARE_LINE, STEPS, write_run

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
STEP_S = 0.051


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("recorded")
    write_run(base / "run", base / "job")
    return base / "run"


def told(report: scalana.Report) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.to_json())
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.slow
def test_the_head_says_start_up_steps_and_end(folder: Path) -> None:
    report = scalana.analyze(folder)
    page = " ".join(report.to_text().split())
    # Nobody knows when the first step begins: its beginning is that of the program.
    assert f"start-up 51 ms with the first step · {STEPS - 1} more steps of 51 ms · end 0.0 ms" in page
    assert "from repeated communication" in page and "in the steps: █ work" in page
    assert "in the steps, seconds of an average rank" in page and "outside the steps: 51 ms" in page
    assert "It happens in nearly every step. " in page
    assert "without it a step would take 11 ms instead of 51 ms, and the run would be " in page
    found = told(report)
    assert found["steps"]["count"] == STEPS and found["steps"]["warm_up"] == 1 and "regions" not in found
    phases = [found["steps"][name] for name in ("startup_s", "steady_s", "between_s", "end_s")]
    assert sum(phases) == pytest.approx(found["run"]["seconds"], abs=1e-5)
    assert sum(found["time_steady"].values()) == pytest.approx(2 * found["steps"]["steady_s"], abs=1e-5)
    assert sum(found["time"].values()) == pytest.approx(2 * found["run"]["seconds"], abs=1e-5)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_fits_the_width(folder: Path, width: int) -> None:
    page = scalana.analyze(folder).to_text(width=width)
    assert max(map(len, page.splitlines())) <= width


@pytest.mark.parametrize(("option", "count"), [("--step=3", 1), ("--steps=10:19", 10)])
def test_some_steps_alone(folder: Path, option: str, count: int) -> None:
    result = command("report", folder, option, "--format", "json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    jsonschema.validate(found, SCHEMA)
    assert found["run"]["seconds"] == pytest.approx(count * STEP_S, rel=0.02)
    assert sum(found["time"].values()) == pytest.approx(2 * found["run"]["seconds"], abs=1e-5)
    (finding,) = found["findings"]
    assert (finding["root"]["line"], finding["ranks"]) == (PREPARE_LINE, [1])
    assert finding["lost_s"] == pytest.approx(count * 0.04, rel=0.05)
    assert found["steps"]["count"] == count and len(found["steps"]["window"]) == 2
    page = command("report", folder, option).stdout
    assert ("only step 3" if count == 1 else "only steps 10 to 19") in page and "start-up" not in page


@pytest.mark.parametrize(
    ("option", "code", "message"),
    [
        ("--step=40", 1, "this run has no step 40: it has steps 0 to 39"),
        ("--step=0", 1, "the begin of step 0 is unknown: choose later steps, it has steps 0 to 39"),
        ("--steps=20:10", 2, "'20:10' is not a range of steps"),
        ("--steps=some", 2, "give the first and the last, such as 20:29"),
    ],
)
def test_steps_that_are_not_there(folder: Path, option: str, code: int, message: str) -> None:
    result = command("report", folder, option)
    assert result.returncode == code and message in result.stderr, result.stderr


def test_a_run_without_steps_is_shown_as_ever(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    page = text.render(analysis)
    for word in ("start-up", "step", "Regions", "It happens"):
        assert word not in page.replace("for batch in loader", "")
    assert steps.summary(analysis) is None and steps.sections(analysis) == []
    assert steps.in_words(analysis) == steps.slow_in_words(analysis) == ""


def test_regions_are_a_table(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    none = Periods.of(np.zeros((0, 4)), np.zeros((0, 4)))
    seconds = np.array([1.0, 2.0, 8.0, 3.0])
    analysis.ppg.timeline.locations.rank = np.arange(4)
    regions = [
        RegionTime(("input",), 40, seconds, np.array([0.0, 1.0, 0.0, 1.0]), none),
        RegionTime(("input", "augment"), 400, seconds / 2, np.zeros(4), none),
    ]
    finding = replace(analysis.findings[0], evidence=Evidence(region="input/augment"))
    analysis = replace(with_section(analysis, REGIONS, regions), findings=[finding])
    page = text.render(analysis)
    rows = [" ".join(line.split()) for line in page.splitlines()]
    assert "1.00 2.50 8.00 0.50 40 input" in rows and "0.50 1.25 4.00 · 400 augment" in rows
    assert "It happens in region input/augment." in page
    entries = told(scalana.Report(analysis))["regions"]
    assert entries[0] == {
        "name": "input", "path": ["input"], "count": 40, "least_s": 1.0, "median_s": 2.5, "most_s": 8.0, "wait_s": 2.0,
    }  # fmt: skip
    assert entries[1]["path"] == ["input", "augment"]


def test_when(tmp_path: Path) -> None:
    (finding,) = late_rank(tmp_path).findings
    assert over_steps.when(finding) == ""

    def when(numbers: InSteps, *phases: float) -> str:
        return over_steps.when(
            replace(finding, evidence=Evidence(lost_by_phase=LostByPhase(*phases), in_steps=numbers))
        )

    assert when(InSteps(2, 90, [41, 77]), 1.0, 8.0, 0.0) == "It happens in steps 41, 77."
    assert when(InSteps(20, 90), 1.0, 8.0, 0.0) == "It happens mostly in 20 of 90 steps."
    assert when(InSteps(20, 90, counted=True), 1.0, 8.0, 0.0) == "It happens in 20 of 90 steps."
    assert when(InSteps(90, 90, counted=True), 1.0, 8.0, 0.0).startswith("It happens in every step")
    assert when(InSteps(20, 90), 9.0, 8.0, 0.0) == "It happens in start-up."
    assert when(InSteps(20, 90), 1.0, 8.0, 9.0) == "It happens after the last step."


def test_slow_steps_with_a_cause_are_not_nothing(tmp_path: Path) -> None:
    (finding,) = late_rank(tmp_path).findings
    analysis = balanced(tmp_path)
    assert "Nothing stands out over the whole run" not in text.render(analysis)
    slow = [SlowStep(7, 0.4, finding), SlowStep(9, 0.3, finding), SlowStep(11, 0.3, None)]
    page = " ".join(text.render(with_section(analysis, SLOW_STEPS, slow)).split())
    assert "Nothing stands out over the whole run, but single steps do: steps 7, 9 (cause: rank 2, train.py:9" in page
    assert "no rank waits for another one" not in page


@pytest.mark.slow
@pytest.mark.parametrize("marked", [True, False], ids=["marked", "plain"])
def test_a_program_that_marks_steps_and_regions_and_the_same_without(tmp_path: Path, marked: bool) -> None:
    torch_or_skip()
    arguments = [] if marked else ["plain"]
    done = jobs.forked(2, "steps_and_regions.py", *arguments, record=tmp_path / "run", extra={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    report = scalana.analyze(tmp_path / "run")
    found = told(report)
    assert found["steps"]["source"] == ("scalana.step" if marked else "communication")
    assert found["steps"]["count"] == 24
    (slow,) = [entry for entry in found["steps"]["slow"] if entry["step"] == 17]
    assert slow["root"]["function"] == "fetch" and slow["ranks"] == [1]
    page = " ".join(report.to_text().split())
    first = found["findings"][0]
    assert first["root"]["function"] == "fetch" and first["ranks"] == [1]
    if marked:
        paths = {tuple(region["path"]): region for region in found["regions"]}
        assert set(paths) == {("input",), ("input", "fetch"), ("exchange",)}
        assert paths["input", "fetch"]["count"] == 48
        assert first["evidence"]["region"] == "input/fetch" and "It happens in region input/fetch" in page
    else:
        assert "regions" not in found and "Regions" not in page and "from repeated communication" in page
    assert f"{names.place(names.near(slow['root']['file'], str(ROOT)), slow['root']['line'])} fetch" in page
