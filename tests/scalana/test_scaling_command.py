"""``scalana scaling`` and ``scalana diff`` over run folders, from the records to the page."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import scalana
from scalana.errors import RunDataError
from tests.scalana.command import command
from tests.scalana.recorded import PREPARE_LINE, REDUCE_LINE, STEPS, write_run

ROOT = Path(__file__).resolve().parents[2]

ROOT_MS = {2: 20, 4: 40, 8: 80}
"""What rank 0 takes in a step; the other ranks take 160 ms divided by their number."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Rank 0 goes over all ranks, 10 ms each, and does its share of 160 ms a step."""
    base = tmp_path_factory.mktemp("sizes")
    for ranks, own in ROOT_MS.items():
        share = 160 // ranks
        write_run(base / f"run-{ranks}", base / "job", (share + own, *[share] * (ranks - 1)))
    return [str(base / f"run-{ranks}") for ranks in ROOT_MS]


def test_scaling_json_has_sizes_models_and_a_prediction(folders: list[str]) -> None:
    result = command("scaling", *folders, "--format", "json", "--at", "64", "--scaling", "strong")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["schema"] == "scalana.scaling/1"
    assert found["scaling"] == {"kind": "strong", "stated": True, "work_exponent": found["scaling"]["work_exponent"]}
    assert [size["ranks"] for size in found["sizes"]] == [2, 4, 8]
    for size in found["sizes"]:
        assert size["seconds"] == pytest.approx(size["work_s"] + size["wait_s"] + size["transfer_s"], abs=1e-5)
        assert size["efficiency"] == pytest.approx(size["ideal_s"] / size["seconds"], abs=1e-5)
    for size, own in zip(found["efficiencies"], ROOT_MS.values(), strict=True):
        ranks = size["ranks"]
        share = 160 // ranks
        work_ms = 160 + own
        assert size["load_balance"] == pytest.approx(work_ms / ranks / (share + own), abs=0.02)
        assert size["computation_scalability"] == pytest.approx((160 + ROOT_MS[2]) / work_ms, abs=0.02)
        assert size["global"] == pytest.approx(size["parallel"] * size["computation_scalability"], abs=1e-5)
    top = found["findings"][0]
    assert (top["root"]["file"], top["root"]["line"]) == ("job.py", PREPARE_LINE)
    assert top["ranks"] == [0]
    assert [hop["line"] for hop in top["path"]] == [REDUCE_LINE, PREPARE_LINE]
    # All of it is one line: 160 / p + 10 p milliseconds a step, and all ranks wait for that.
    seconds = [STEPS * (160 / p + 10 * p) / 1000 for p in (2, 4, 8)]
    assert top["evidence"]["seconds"] == pytest.approx(seconds, rel=0.02)
    assert top["lost_s"] == pytest.approx(8 * (seconds[2] - seconds[0] / 4), rel=0.05)
    assert top["evidence"]["predicted"]["ranks"] == found["prediction"]["ranks"] == 64
    assert found["prediction"]["low"] <= found["prediction"]["seconds"] <= found["prediction"]["high"]


def test_scaling_text_has_global_efficiency(folders: list[str]) -> None:
    lines = command("scaling", *folders, "--scaling", "strong").stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if "global" in line.split())
    assert lines[head].split()[:4] == ["ranks", "global", "computation", "parallel"]
    assert [line.split()[0] for line in lines[head + 1 : head + 4]] == ["2", "4", "8"]
    assert lines[head + 1].split()[3:5] == ["100", "%"]


def test_scaling_text_names_the_line(folders: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    result = command("scaling", *folders, "-o", str(page))
    assert result.returncode == 0 and result.stdout == "", result.stderr
    text = page.read_text(encoding="utf-8")
    assert f"1  job.py:{PREPARE_LINE}" in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [60, 100])
def test_colour_changes_nothing_else(folders: list[str], pair: tuple[str, str], width: int) -> None:
    for report in (scalana.scaling(folders, at=64), scalana.diff(*pair)):
        plain, colored = (report.to_text(width=width, color=color) for color in (False, True))
        assert "\x1b[" in colored and re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
        assert max(map(len, plain.splitlines())) <= width


def test_one_size_is_data_that_cannot_be_used(tmp_path: Path, folders: list[str]) -> None:
    result = command("scaling", folders[0], shutil.copytree(folders[0], tmp_path / "again"))
    assert result.returncode == 1
    assert result.stderr == "scalana: all runs have 2 ranks: at least two sizes are needed\n"


def test_a_run_given_twice_is_no_repetition(folders: list[str]) -> None:
    result = command("scaling", *folders, folders[0] + "/")
    assert result.returncode == 1 and f"{folders[0]}/: given twice" in result.stderr


def test_mistakes_in_the_command_are_usage_errors(folders: list[str]) -> None:
    assert command("scaling", folders[0]).returncode == 2
    assert command("scaling", *folders, "--at", "many").returncode == 2
    assert command("diff", folders[0]).returncode == 2


def test_a_missing_folder_is_named(tmp_path: Path, folders: list[str]) -> None:
    for arguments in (("scaling", folders[0], str(tmp_path / "none")), ("diff", str(tmp_path / "none"), folders[0])):
        result = command(*arguments)
        assert result.returncode == 1
        assert result.stderr == f"scalana: {tmp_path / 'none'}: no such folder\n"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    base = tmp_path_factory.mktemp("pair")
    write_run(base / "before", base / "job", (10, 50))
    write_run(base / "after", base / "job", (10, 10))
    return str(base / "before"), str(base / "after")


def test_diff_json_has_changes_and_causes(pair: tuple[str, str]) -> None:
    found = json.loads(command("diff", *pair, "--format", "json").stdout)
    assert found["schema"] == "scalana.diff/1"
    change = found["changes"][0]
    assert (change["file"], change["line"], change["only"]) == ("job.py", PREPARE_LINE, None)
    assert change["work_s"] == pytest.approx(-STEPS * 0.040 / 2, rel=0.05)
    assert change["waiting_s"] == pytest.approx(-STEPS * 0.040 / 2, rel=0.05)
    assert [finding["root"]["line"] for finding in found["causes"]["vanished"]] == [PREPARE_LINE]
    # The reduction takes 1 ms of a step before and after, which is 2 % of it, and then 9 %.
    appeared = [(finding["kind"], finding["root"]["line"]) for finding in found["causes"]["appeared"]]
    assert appeared == [("communication-bound", REDUCE_LINE)]
    whole = sum(change["change_s"] for change in found["changes"]) + found["rest_s"] + found["setup_s"]
    assert whole + found["core_wait_s"] == pytest.approx(found["after"]["rank_s"] - found["before"]["rank_s"], abs=1e-4)


def test_diff_text_says_gone(pair: tuple[str, str]) -> None:
    text = command("diff", *pair).stdout
    assert f"job.py:{PREPARE_LINE} prepare" in text
    assert "gone" in text and "shorter" in text
    assert max(len(line) for line in text.splitlines()) <= 100
    reverse = command("diff", *reversed(pair)).stdout
    assert "new" in reverse and "longer" in reverse


def test_the_library_gives_the_same(folders: list[str], pair: tuple[str, str]) -> None:
    report = scalana.scaling(folders, at=64)
    assert report.findings[0].line == PREPARE_LINE
    assert json.loads(report.to_json())["prediction"]["ranks"] == 64
    assert str(scalana.diff(*pair)) == command("diff", *pair).stdout
    with pytest.raises(RunDataError, match="no run folders"):
        scalana.scaling([])


def test_the_same_runs_give_the_same_bytes(folders: list[str]) -> None:
    first, second = (command("scaling", *folders, "--format", "json").stdout for _ in range(2))
    assert first == second


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def test_scaling_json_follows_its_schema(folders: list[str]) -> None:
    for runs, at in ((folders, 64), (folders[:2], None), (folders, None)):
        found = json.loads(scalana.scaling(runs, at=at).to_json())
        jsonschema.validate(found, schema("scaling"))
        assert list(found) == list(schema("scaling")["properties"])
    for change in ({"schema": "scalana.scaling/2"}, {"sizes": []}, {"prediction": {}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**found, **change}, schema("scaling"))


@pytest.mark.slow
def test_diff_json_follows_its_schema(pair: tuple[str, str]) -> None:
    for runs in (pair, pair[::-1], (pair[1], pair[1])):
        found = json.loads(scalana.diff(*runs).to_json())
        jsonschema.validate(found, schema("diff"))
        assert list(found) == list(schema("diff")["properties"])
    for change in ({"schema": "scalana.diff/2"}, {"before": {}}, {"changes": [{}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**found, **change}, schema("diff"))


@pytest.mark.slow
def test_findings_are_the_same_in_all_schemas() -> None:
    for name in ("scaling", "diff"):
        for definition in ("finding", "root", "hop"):
            assert schema(name)["$defs"][definition] == schema("report")["$defs"][definition]
