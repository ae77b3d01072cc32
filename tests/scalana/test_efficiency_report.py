"""Efficiencies and the error of the replay in reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import scalana
from scalana.detectors.annotate.replayed import REPLAY_ERROR
from scalana.detectors.efficiency.over_steps import Fall, LowStep, OverSteps
from scalana.detectors.efficiency.run_efficiency import EFFICIENCY
from scalana.report import head, names, text
from scalana.report import json as json_report
from scalana.report.html import page
from tests.scalana.pages import well_formed
from tests.scalana.recorded import STEPS, write_run

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "report.schema.json"
LATE = "Savings are predicted by a replay, which is less than 0.1 % off for the unchanged run."


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> scalana.api.Report:
    """Rank 1 works 50 ms in each step, rank 0 works 10 ms; a call takes 1 ms by itself."""
    folder = tmp_path_factory.mktemp("late")
    write_run(folder / "run", folder / "job")
    return scalana.analyze(folder / "run")


def test_json_has_the_factors_of_the_run_and_of_each_step(report: scalana.api.Report) -> None:
    document = json.loads(report.to_json())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    found = document["efficiency"]
    assert found["load_balance"] == pytest.approx(0.6, abs=0.02)
    assert found["serialisation"] == pytest.approx(1.0, abs=0.02)
    assert found["transfer"] == pytest.approx(50 / 51, abs=0.02)
    assert found["parallel"] == pytest.approx(found["load_balance"] * found["communication"], abs=1e-5)
    assert found["useful"] == pytest.approx(found["parallel"] * found["stall"] * found["core"], abs=1e-5)
    assert len(found["steps"]) >= STEPS - 2
    assert all(step["parallel"] == pytest.approx(30 / 51, abs=0.05) for step in found["steps"][1:-1])
    assert found["fall"] is None and found["low_steps"] == []
    assert document["run"]["replay_error"] == pytest.approx(0.0, abs=1e-3)


def test_text_has_a_row_and_how_to_read_it(report: scalana.api.Report) -> None:
    shown = report.to_text()
    assert "parallel = balance x serialisation x transfer; useful = parallel x runnable x on a core" in shown
    assert LATE in shown


@pytest.mark.parametrize(("others_s", "said"), [(0.0, ""), (10.0, "; other threads and children compute for 10.0 s")])
def test_of_one_process_it_says_who_computes(report: scalana.api.Report, others_s: float, said: str) -> None:
    ppg = report.analysis.ppg
    helpers_s = np.zeros((len(ppg.psg), 1))
    helpers_s[0] = others_s
    run, metrics = replace(ppg.run, ranks=1), {**ppg.metrics, "helper_cpu_s": helpers_s}
    analysis = replace(report.analysis, ppg=replace(ppg, run=run, metrics=metrics))
    useful = report.analysis.section(EFFICIENCY).whole.useful
    assert head.efficiency(analysis) == f" The main thread computes {names.percent(useful)} of its time{said}."


def test_page_has_the_curve(report: scalana.api.Report) -> None:
    shown = well_formed(report.to_html()).text
    assert "parallel efficiency of every step" in report.to_html()
    assert LATE in shown


def test_a_table_that_predicts_has_the_error_of_the_replay(tmp_path: Path) -> None:
    write_run(tmp_path / "run", tmp_path / "job", (20, 20))
    report = scalana.analyze(tmp_path / "run")
    assert not report.findings
    assert "What limits a step" in report.to_text() and "Savings are predicted by a replay" in report.to_text()
    assert json.loads(report.to_json())["run"]["replay_error"] < 1e-3


def test_one_process_has_no_factors_of_communication(tmp_path: Path) -> None:
    write_run(tmp_path / "run", tmp_path / "job", (20,))
    shown = scalana.analyze(tmp_path / "run").to_text()
    assert "useful = runnable x on a core" in shown
    assert "parallel" not in shown[shown.index("Efficiency") :].split("\n\n")[0]


def test_falls_and_low_steps_are_sentences(report: scalana.api.Report) -> None:
    found = report.analysis.section(EFFICIENCY)
    assert found is not None
    low = LowStep(7, replace(found.whole, parallel=0.2, load_balance=0.9, serialisation=0.25, transfer=0.95))
    over = OverSteps(Fall(12, 0.9, 0.45, "transfer", 0.95, 0.5), (low,))
    sections = {**report.analysis.sections, EFFICIENCY.name: replace(found, over_steps=over), REPLAY_ERROR.name: 0.034}
    analysis = replace(report.analysis, sections=sections)
    shown = " ".join(text.render(analysis).split())
    assert "falls from step 12 on, from 90 % to 45 %: transfer falls from 95 % to 50 %." in shown
    assert "low in step 7 (20 %, serialisation 25 %)." in shown
    assert "which is 3.4 % off for the unchanged run" in shown
    assert "▼ low" in page.render(analysis)
    document = json.loads(json_report.render(analysis))
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["efficiency"]["fall"] == {"at": 12, "before": 0.9, "after": 0.45, "factor": "transfer"}
    assert document["run"]["replay_error"] == 0.034
