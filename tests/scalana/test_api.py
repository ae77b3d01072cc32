"""The library: what a report offers, and how it says that a folder cannot be used."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import scalana
from scalana.api import Report
from scalana.errors import RunDataError
from scalana.graphs.readers.folder.moved_sources import NOT_MOVED
from scalana.kept_frames import KeptFrames, symbols
from tests.scalana.examples import late_rank


def test_a_report_offers_findings_graph_times_and_warnings(tmp_path: Path) -> None:
    report = Report(late_rank(tmp_path))
    assert [finding.line for finding in report.findings] == [9]
    assert report.ppg.run.ranks == 4 and report.time.wait_s == 18.0
    assert len(report.warnings) == 2
    assert json.loads(report.to_json())["schema"] == "scalana.report/1"
    assert "train.py:9" in str(report) and json.loads(report.to_sarif())["version"] == "2.1.0"


def test_frames(tmp_path: Path) -> None:
    report = Report(late_rank(tmp_path))
    frame = report.frame()
    assert frame.groupby("line").time_s.sum().to_dict() == {9: 18.0, 18: 20.0}
    assert frame[(frame.line == 9) & (frame["rank"] == 2)].stall_s.tolist() == [1.0]
    findings = report.findings_frame()
    assert findings.ranks.tolist() == [[2]] and findings.saving_s.tolist() == [6.0]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunDataError, match="no such folder"):
        scalana.analyze(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(RunDataError, match="not a folder"):
        scalana.analyze(tmp_path / "file")


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunDataError, match=str(tmp_path)):
        scalana.analyze(tmp_path)


def test_programs_that_are_not_what_they_were_are_told(tmp_path: Path) -> None:
    changed: list[str] = []
    lookup = partial(symbols, changed, KeptFrames(str(tmp_path)), NOT_MOVED)
    program = str(tmp_path / "app")
    assert lookup(program, "ab12", [16]) == {}
    assert lookup("/usr/lib/libgone.so.1", "ab12", [16]) == {}  # an update of the system is no news
    assert lookup("[vdso]", "ab12", [16]) == {}
    assert changed == [program]
