"""The report as a page: well-formed, escaped, self-contained, with the numbers of the JSON report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.time_split import split_by_rank
from scalana.report import finding_text, names
from scalana.report.html import markup, page, ranks
from scalana.report.html.bars import PALETTE
from scalana.report.html.style import STYLE
from tests.scalana.command import command
from tests.scalana.examples import balanced, late_rank
from tests.scalana.recorded import write_run

LARGEST = 2_000_000
"""Characters that a page may have."""


class Page(HTMLParser):
    """What a browser would see: text, elements, attributes, and whether all of it is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in markup.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def well_formed(text: str) -> Page:
    """The page of a text, after what holds for every one was checked."""
    seen = Page(text)
    assert (seen.open, seen.faults) == ([], [])
    assert text.startswith("<!DOCTYPE html>") and len(text) < LARGEST
    tags = [tag for tag, _ in seen.elements]
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(tags)
    assert tags.count("h1") == 1
    for _, attributes in seen.elements:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    outside = re.findall(r"(?:https?:)?//[\w.]+", text.replace("http://www.w3.org/2000/svg", ""))
    assert outside == [] and "url(" not in STYLE and "@import" not in STYLE
    ids = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    return seen


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    base = tmp_path_factory.mktemp("recorded")
    write_run(base / "run", base / "job", (10, 50, 10, 15))
    return scalana.analyze(base / "run").analysis


def test_the_verdict_comes_first_and_says_what_the_text_says(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    text = well_formed(page.render(analysis)).text
    finding = analysis.findings[0]
    said = finding_text.sentences(finding, analysis.ppg.run)
    assert [
        sentence
        for sentence in [*said, finding.advice, "for image in batch:", "train.py:17 main"]
        if sentence not in text
    ] == []
    at = [text.index(words) for words in ("train.py:9", said[0], "18.0 rank-seconds", "Where the time of the ranks")]
    assert at == sorted(at)
    assert "rank 0 and 2 more wait in allreduce: 18.0 s" in text and "damaged" in text


def test_without_a_finding_it_says_so(tmp_path: Path) -> None:
    text = well_formed(page.render(balanced(tmp_path))).text
    assert "Nothing stands out:" in text and "Root cause" not in text


def test_without_any_time(tmp_path: Path) -> None:
    analysis = balanced(tmp_path)
    analysis.time = TimeSplit()
    assert "No time was recorded." in well_formed(page.render(analysis)).text


def test_nothing_of_a_run_becomes_markup(tmp_path: Path) -> None:
    hostile = '<script>alert("1")</script>&amp;\''
    analysis = late_rank(tmp_path)
    run, finding = analysis.ppg.run, analysis.findings[0]
    run.command, run.warnings, run.host_of_rank = ["run", hostile], [hostile], [hostile] * 4
    finding.function = finding.advice = hostile
    finding.file = f"/{hostile}.py"
    finding.path[0].function = finding.path[0].operation = hostile
    finding.evidence |= {
        "callers": [hostile],
        hostile: hostile,
        "leaf": {"file": hostile, "line": 1, "function": hostile, "calls": 2},
    }
    for vertex in analysis.ppg.psg.vertices:
        vertex.place = replace(vertex.place, name=hostile)
    text = page.render(analysis)
    assert hostile in well_formed(text).text.replace("\n", " ")
    assert "<script" not in text


def test_the_same_analysis_gives_the_same_page(recorded: Analysis) -> None:
    assert page.render(recorded) == page.render(recorded)


def test_numbers_are_those_of_the_json_report(recorded: Analysis) -> None:
    report = json.loads(scalana.api.Report(recorded).to_json())
    seen = well_formed(page.render(recorded))
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
    widths = [
        float(re.sub(r"width:|%", "", attributes["style"] or ""))
        for _, attributes in seen.elements
        if "part" in (attributes.get("class") or "")
    ]
    bars = sum((attributes.get("class") or "") == "bar" for _, attributes in seen.elements)
    assert bars == 5 and sum(widths) == pytest.approx(100 * bars, abs=0.1)
    assert all(f".{style}{{background:" in STYLE for style in PALETTE)


def test_of_many_ranks_neighbours_are_put_together(tmp_path: Path) -> None:
    groups = ranks.binned(1024, [700])
    assert [rank for group in groups for rank in group] == list(range(1024))
    assert [700] in groups and len(groups) <= ranks.MOST_ROWS
    worst = ranks.binned(1 << 14, range(5, 1 << 14, 1500))
    assert len(worst) <= ranks.MOST_ROWS


def test_a_long_list_of_evidence_is_cut(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    analysis.findings[0].evidence["by_rank"] = np.arange(1024.0)
    text = well_formed(page.render(analysis)).text
    assert "10.0, 11.0 ... 1012 more" in text and "12.0" not in text


def test_command_writes_a_page(tmp_path: Path) -> None:
    write_run(tmp_path / "run", tmp_path / "job")
    target = tmp_path / "report.html"
    result = command("report", "--format", "html", "-o", str(target), str(tmp_path / "run"))
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert "job.py:5" in well_formed(target.read_text(encoding="utf-8")).text


def test_elements() -> None:
    made = markup.element("p", "a & b", markup.element("br"), None, class_="x", aria_label='"q"', title=None)
    assert made == '<p class="x" aria-label="&quot;q&quot;">a &amp; b<br></p>'
