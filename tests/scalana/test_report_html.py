"""The report as a page: well-formed, escaped, self-contained, with the numbers of the JSON report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.time_split import split_by_rank
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.evidence import Evidence, Leaf, OpenOperation, OverSteps
from scalana.graphs.run_info import RunInfo
from scalana.graphs.timeline import Locations, OwnWork
from scalana.report import names
from scalana.report.findings import sentences
from scalana.report.html import markup, page
from scalana.report.html.bars import PALETTE
from scalana.report.html.page import STYLE
from scalana.report.topics import ranks
from tests.scalana.command import command
from tests.scalana.examples import balanced, late_rank
from tests.scalana.pages import Page, well_formed
from tests.scalana.recorded import write_run


def whole(text: str) -> Page:
    """A page that is not a part of one."""
    seen = well_formed(text)
    assert text.startswith("<!DOCTYPE html>")
    tags = [tag for tag, _ in seen.elements]
    assert all(tags.count(tag) == 1 for tag in ("html", "head", "body", "main", "h1"))
    return seen


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    base = tmp_path_factory.mktemp("recorded")
    write_run(base / "run", base / "job", (10, 50, 10, 15))
    return scalana.analyze(base / "run").analysis


def test_the_verdict_comes_first_and_says_what_the_text_says(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    text = whole(page.render(analysis)).text
    finding = analysis.findings[0]
    said = sentences.sentences(finding, analysis.ppg.run)
    assert [
        sentence
        for sentence in [*said, finding.advice, "for image in batch:", "train.py:17 main"]
        if sentence not in text
    ] == []
    at = [text.index(words) for words in ("train.py:9", said[0], "18.0 rank-seconds", "Where the time of the ranks")]
    assert at == sorted(at)
    assert "rank 0 and 2 more wait in allreduce: 18.0 s" in text and "damaged" in text


def test_a_cost_that_grows_is_drawn(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    known = OverSteps(
        shape="line", cost="work", before_s=0.001, after_s=0.004, first_step=7, last_step=10, steps=4, of=5,
        per_step_s=0.001, so_far_s=0.01, next_s=0.02, series_s=[0.001, 0.002, 0.004], series_steps=[7, 9, 11],
    )  # fmt: skip
    analysis = replace(analysis, findings=[replace(analysis.findings[0], evidence=Evidence(over_steps=known))])
    seen = whole(page.render(analysis))
    assert "from step 7 on, on average: 1.0 ms" in seen.text and "from step 11 on, on average: 4.0 ms" in seen.text
    assert "step 11 on" in seen.text.replace("from step 11 on", "")  # the axis ends with the last column
    said = [attributes["aria-label"] for tag, attributes in seen.elements if tag == "svg"]
    assert [one for one in said if one.startswith("Its cost grows with the steps, from 1.0 ms in step 7")]


def test_without_a_finding_it_says_so(tmp_path: Path) -> None:
    text = whole(page.render(balanced(tmp_path))).text
    assert "Nothing stands out:" in text and "Root cause" not in text


def test_without_any_time(tmp_path: Path) -> None:
    analysis = balanced(tmp_path)
    analysis = replace(analysis, time=TimeSplit())
    assert "No time was recorded." in whole(page.render(analysis)).text


def test_nothing_of_a_run_becomes_markup(tmp_path: Path) -> None:
    hostile = '<script>alert("1")</script>&amp;\''
    analysis = late_rank(tmp_path)
    run, finding = analysis.ppg.run, analysis.findings[0]
    run.command, run.warnings, run.host_of_rank = ["run", hostile], [hostile], [hostile] * 4
    found = [
        replace(
            finding,
            function=hostile,
            advice=hostile,
            file=f"/{hostile}.py",
            path=[replace(finding.path[0], function=hostile, operation=hostile), *finding.path[1:]],
            evidence=Evidence(callers=[hostile], region=hostile, leaf=Leaf(hostile, 1, hostile, 2)),
        )
    ]
    analysis = replace(analysis, findings=found)
    for vertex in analysis.ppg.psg.vertices:
        vertex.place = replace(vertex.place, name=hostile)
    text = page.render(analysis)
    assert hostile in whole(text).text.replace("\n", " ")
    assert "<script" not in text


def test_the_same_analysis_gives_the_same_page(recorded: Analysis) -> None:
    assert page.render(recorded) == page.render(recorded)


def test_numbers_are_those_of_the_json_report(recorded: Analysis) -> None:
    report = json.loads(scalana.api.Report(recorded).to_json())
    seen = whole(page.render(recorded))
    (finding,) = report["findings"]
    assert names.rank_seconds(finding["lost_s"]) in seen.text and names.seconds(finding["saving_s"]) in seen.text
    for part, word in (("work_s", "work"), ("wait_s", "waiting"), ("transfer_s", "transfer")):
        seconds = report["time_steady"][part]
        share = seconds / sum(report["time_steady"].values())
        assert f"{word} {names.percent(share)} {names.seconds(seconds)}" in seen.text
    for name in ("seconds_here", "ratio"):
        assert str(finding["evidence"][name]) in seen.text


def test_times_of_ranks_add_up_to_those_of_the_run(recorded: Analysis) -> None:
    run, time = recorded.ppg.run, recorded.time
    split = split_by_rank(recorded.ppg.timeline, recorded.waits, run.ranks, run.seconds)
    assert split.shape == (5, 4)
    assert split.sum(axis=1) == pytest.approx([time.work_s, time.stall_s, time.wait_s, time.transfer_s, time.other_s])
    assert split.sum(axis=0) == pytest.approx(run.seconds)
    assert split[2] == pytest.approx([1.6, 0.0, 1.6, 1.4], abs=1e-6)


def test_bars_are_as_wide_as_their_shares(recorded: Analysis) -> None:
    seen = Page(page.render(recorded))
    bars = sum((attributes.get("class") or "") == "bar" for _, attributes in seen.elements)
    assert bars == 5 and sum(seen.widths()) == pytest.approx(100 * bars, abs=0.1)
    assert all(f".{style}{{background:" in STYLE for style in PALETTE)


def test_hosts_have_a_bar_each() -> None:
    split = np.arange(20.0).reshape(5, 4)
    run = RunInfo(ranks=4, host_of_rank=["a", "a", "b", ""])
    rows = ranks.host_rows(run, split)
    assert [(row.name, row.seconds[0]) for row in rows] == [("a (ranks 0, 1)", 0.5), ("b (rank 2)", 2.0)]
    assert ranks.host_rows(RunInfo(ranks=2, host_of_rank=["a", "a"]), split) == ()


def test_of_many_ranks_neighbours_are_put_together(tmp_path: Path) -> None:
    groups = ranks.binned(1024, [700])
    assert [rank for group in groups for rank in group] == list(range(1024))
    assert [700] in groups and len(groups) <= ranks.MOST_ROWS
    worst = ranks.binned(1 << 14, range(5, 1 << 14, 1500))
    assert len(worst) <= ranks.MOST_ROWS


def test_of_many_ranks_and_findings_the_page_stays_small(tmp_path: Path) -> None:
    many = 1024
    analysis = late_rank(tmp_path)
    ppg, finding = analysis.ppg, analysis.findings[0]
    seconds = np.linspace(5.0, 9.0, many)
    ppg.metrics = {name: np.broadcast_to(values[:, :1], (len(values), many)) for name, values in ppg.metrics.items()}
    ppg.run.ranks = many
    nothing, numbers = np.zeros(0), np.arange(many)
    ppg.timeline = replace(
        ppg.timeline,
        ranks=many,
        locations=Locations(numbers, np.ones(many, np.bool_), np.zeros(many), np.full(many, 10.0)),
        own=OwnWork(numbers, np.zeros(many, np.int64), seconds, seconds, np.zeros(many), numbers),
    )
    analysis = replace(analysis, waits=WaitStates(nothing, nothing, nothing))
    analysis = replace(
        analysis, findings=[replace(finding, ranks=[5 * number], lost_s=200.0 - number) for number in range(200)]
    )
    seen = whole(page.render(analysis))
    assert "160 smaller causes, with" in seen.text and "rank 55 " in seen.text
    bars = sum((attributes.get("class") or "") == "rank" for _, attributes in seen.elements)
    assert ranks.MOST_ROWS // 2 <= bars <= ranks.MOST_ROWS


def test_a_long_list_of_evidence_is_cut(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    call = OpenOperation(list(range(1024)), "allreduce", 3)
    analysis = replace(analysis, findings=[replace(analysis.findings[0], evidence=Evidence(hang=call))])
    text = whole(page.render(analysis)).text
    assert "10, 11 ... 1012 more" in text and "11, 12" not in text


def test_command_writes_a_page(tmp_path: Path) -> None:
    write_run(tmp_path / "run", tmp_path / "job")
    target = tmp_path / "report.html"
    result = command("report", "--format", "html", "-o", str(target), str(tmp_path / "run"))
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert "job.py:5" in whole(target.read_text(encoding="utf-8")).text


def test_elements() -> None:
    made = markup.element("p", "a & b", markup.element("br"), None, class_="x", aria_label='"q"', title=None)
    assert made == '<p class="x" aria-label="&quot;q&quot;">a &amp; b<br></p>'
