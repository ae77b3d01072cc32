"""The JSON report against its schema, and SARIF against what readers of it need."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from scalana.detectors.evidence import Leaf
from scalana.report import json as json_report
from scalana.report import sarif
from scalana.report.data import document
from scalana.report.values import plain
from tests.scalana.examples import balanced, late_rank

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def test_follows_the_schema(tmp_path: Path, schema: dict[str, Any]) -> None:
    for analysis in (late_rank(tmp_path / "a"), balanced(tmp_path / "b")):
        jsonschema.validate(json.loads(json_report.render(analysis)), schema)


def test_schema_rejects_what_is_no_report(tmp_path: Path, schema: dict[str, Any]) -> None:
    report = document(late_rank(tmp_path))
    for change in ({"schema": "scalana.report/2"}, {"findings": [{"kind": "late-ranks"}]}, {"time": {}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**report, **change}, schema)


def test_keys_stand_in_the_documented_order(tmp_path: Path) -> None:
    report = json.loads(json_report.render(late_rank(tmp_path)))
    assert list(report) == ["schema", "run", "time", "findings", "communication"]
    assert list(report["run"]) == ["command", "ranks", "seconds", "rate_hz", "exit_code", "warnings"]
    assert list(report["time"]) == ["work_s", "stall_s", "wait_s", "transfer_s", "other_s"]
    finding = report["findings"][0]
    assert list(finding) == [
        "kind", "root", "ranks", "lost_s", "lost_share", "saving_s", "path", "evidence", "advice",
    ]  # fmt: skip
    assert list(finding["root"]) == ["file", "line", "end_line", "function", "vertex", "vertex_kind"]


def test_files_are_relative_to_the_job_and_times_add_up(tmp_path: Path) -> None:
    report = document(late_rank(tmp_path))
    assert report["findings"][0]["root"]["file"] == "train.py"
    assert {hop["file"] for hop in report["findings"][0]["path"]} == {"train.py"}
    assert report["findings"][0]["evidence"]["callers"] == ["train.py:17 main", "bench.py:4 warm_up"]
    assert sum(report["time"].values()) == pytest.approx(report["run"]["ranks"] * report["run"]["seconds"])


def test_communication_of_every_rank_that_has_a_record(tmp_path: Path, schema: dict[str, Any]) -> None:
    analysis = late_rank(tmp_path)
    analysis.ppg.run.missing_ranks = [1]
    report = document(analysis)
    jsonschema.validate(report, schema)
    assert report["communication"] == [
        {"rank": 0, "calls": 50, "comm_s": 6.5},
        {"rank": 2, "calls": 52, "comm_s": 0.5},
        {"rank": 3, "calls": 50, "comm_s": 6.5},
    ]
    del report["communication"]
    jsonschema.validate(report, schema)  # one of an older version


def test_largest_loss_first_and_each_warning_once(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    smaller = replace(late_rank(tmp_path).findings[0], lost_s=1.0, kind="serial")
    analysis.findings.insert(0, smaller)
    analysis.warnings.extend(analysis.ppg.run.warnings)
    report = document(analysis)
    assert [finding["kind"] for finding in report["findings"]] == ["late-ranks", "serial"]
    assert len(report["run"]["warnings"]) == len(set(report["run"]["warnings"])) == 2


def test_same_analysis_same_bytes(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    assert json_report.render(analysis) == json_report.render(analysis)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (float("nan"), None),
        (float("inf"), None),
        (1 / 3, 0.333333),
        ({1: (2, np.array([1.5]))}, {"1": [2, [1.5]]}),
        ({3, 1}, [1, 3]),
        (Path("a/b"), "a/b"),
    ],
)
def test_values_become_json(value: object, expected: object) -> None:
    result = plain(value)
    assert result == expected and type(result) is type(expected)
    json.dumps(result, allow_nan=False)


def test_sarif_has_a_result_with_place_and_path(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    run = json.loads(sarif.render(analysis))["runs"][0]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "late-ranks"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "JOB"}
    assert place["region"] == {"startLine": 9, "endLine": 11}
    assert run["originalUriBaseIds"]["JOB"]["uri"] == tmp_path.as_uri() + "/"
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["physicalLocation"]["region"]["startLine"] for step in steps] == [18, 9]
    assert "Rank 2" in result["message"]["text"]


def test_the_leaf_is_relative_evidence_and_a_related_location(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    before = json.loads(sarif.render(analysis))["runs"][0]["results"][0]
    leaf = {"file": str(tmp_path / "clock.py"), "line": 12, "function": "pause", "calls": 3}
    finding = analysis.findings[0]
    inside = Leaf(str(tmp_path / "clock.py"), 12, "pause", 3)
    analysis = replace(analysis, findings=[replace(finding, evidence=replace(finding.evidence, leaf=inside))])
    (finding,) = json.loads(json_report.render(analysis))["findings"]
    assert finding["evidence"]["leaf"] == {**leaf, "file": "clock.py"}
    result = json.loads(sarif.render(analysis))["runs"][0]["results"][0]
    (related,) = result.pop("relatedLocations")
    assert result == before
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "clock.py"
    assert (related["physicalLocation"]["region"]["startLine"], related["message"]["text"]) == (
        12,
        "The time is spent in pause",
    )


def test_sarif_without_findings_or_folder(tmp_path: Path) -> None:
    analysis = balanced(tmp_path)
    analysis.ppg.run.cwd = ""
    run = json.loads(sarif.render(analysis))["runs"][0]
    assert run["results"] == [] and run["invocations"][0]["executionSuccessful"] is True
