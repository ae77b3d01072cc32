"""Pipelines in reports: text, JSON, and the picture of a step."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from scalana.detectors.pipeline.detector import Pipeline
from scalana.detectors.pipeline.diagnosis.culprits import find_culprits
from scalana.detectors.pipeline.diagnosis.diagnose import diagnose
from scalana.detectors.pipeline.diagnosis.engine_flags import in_words_of
from scalana.detectors.pipeline.measured.recorded import Recorded
from scalana.detectors.pipeline.measured.replayable import Between
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.pictures import pipeline_svg
from scalana.report.text.paint import Paint
from scalana.report.text.sections import section_lines
from scalana.report.topics.pipelines import pipeline as topic
from tests.detectors.pipeline.examples import rows_of, uniform
from tests.scalana.pages import drawn

MS = 1e-3
SVG = "{http://www.w3.org/2000/svg}"


def pipeline(ranks: int = 4, slow: int | None = 3) -> Pipeline:
    costs = uniform(ranks, 20 * MS, 40 * MS, 0, 0)
    if slow is not None:
        costs[:, slow] *= 1.75
    rows = rows_of(BY_NAME["1F1B"].program(ranks, 2 * ranks), costs, "torch-1f1b", steps=2, meet=True)
    diagnosis = diagnose(rows, ENGINES["torch-1f1b"])
    between = Between.nothing(2, ranks)
    world = tuple(range(4, 4 + ranks))
    recorded = Recorded("torch", "1F1B", world, rows, between, np.full((2, ranks, 2), np.nan), -1, None)
    return Pipeline(recorded, diagnosis, tuple(find_culprits(diagnosis)))


def analysis(*pipelines: Pipeline) -> Any:
    run = RunInfo(ranks=8)
    return SimpleNamespace(sections={"pipeline": list(pipelines)}, ppg=SimpleNamespace(run=run))


def text_of(one: Pipeline, width: int) -> list[str]:
    (section,) = topic.sections(analysis(one))
    return section_lines(section, width, Paint(False))


@pytest.mark.parametrize("width", [60, 100])
def test_the_text_says_where_a_step_goes_and_what_helps(width: int) -> None:
    one = pipeline()
    lines = text_of(one, width)
    text = "\n".join(lines)
    assert all(len(line) <= width for line in lines)
    assert "torch 1F1B" in text and "stage 3 on rank 7" in text
    assert "equal load" in text and "as it is" in text


def test_of_a_replay_that_is_far_off_nothing_is_predicted() -> None:
    one = pipeline()
    object.__setattr__(one.diagnosis.attribution, "replay_s", 2 * one.diagnosis.attribution.step_s)
    text = "\n".join(text_of(one, 100))
    assert "Savings not estimated" in text and "what if" not in text


def test_json_has_an_entry_a_pipeline_and_shares_that_add_up() -> None:
    entries = topic.entries(analysis(pipeline(), pipeline(slow=None)))["pipeline"]
    json.dumps(entries, allow_nan=False)
    assert [entry["ranks"] for entry in entries] == [[4, 5, 6, 7]] * 2
    for entry in entries:
        assert sum(entry["shares"].values()) == pytest.approx(1, abs=1e-4)
    assert entries[0]["stage"][3]["root_share"] > 0.9 and entries[1]["shares"]["imbalance"] == 0


@pytest.mark.parametrize("ranks", [4, 16])
def test_the_picture_has_a_box_an_action(ranks: int) -> None:
    one = pipeline(ranks)
    svg = topic.timeline(analysis(one))
    assert svg is not None and svg == topic.timeline(analysis(one))
    titles = [title.text or "" for title in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert sum(title.startswith(("forward", "backward")) for title in titles) == ranks * 2 * ranks * 2
    assert any(title.endswith("for stage 3") for title in titles)
    assert "<script" not in svg


def test_the_page_has_a_bar_that_adds_up_and_the_picture() -> None:
    one = pipeline()
    seen = drawn(topic.sections(analysis(one, pipeline(slow=None))))
    assert sum(seen.widths()) == pytest.approx(200, abs=0.5)
    assert "← stage 3 on rank 7" in seen.text and "forward and backward passes, average rank" in seen.text
    assert [tag for tag, _ in seen.elements].count("svg") == 1
    for share in topic.shares(one, RunInfo(ranks=8).names):
        assert names.seconds(share.seconds) in seen.text


def test_without_a_pipeline_there_is_no_picture() -> None:
    nothing: Any = SimpleNamespace(sections={})
    assert topic.timeline(nothing) is None


def test_names_are_escaped() -> None:
    box = pipeline_svg.Box(0, "F", 0, 0, 0.0, 1.0)
    picture = pipeline_svg.Picture("<b>&'", "a < b", ("<r>",), (box,), (), False)
    root = ElementTree.fromstring(pipeline_svg.render(picture))
    assert {"<b>&'", "a < b", "<r>"} <= {text.text for text in root.iter(f"{SVG}text")}


def test_changes_are_told_in_the_engines_words() -> None:
    best = pipeline().diagnosis.avoidable[1]
    assert best is not None and best.text == "ZB-H1"
    assert "_load_csv" in in_words_of("torch", best, None)
    assert in_words_of("unknown", best, None) == ""
