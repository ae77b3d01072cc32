"""``scalana report`` over a run folder, from the records to the page."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import scalana
from tests.scalana.command import command
from tests.scalana.recorded import PREPARE_LINE, REDUCE_LINE, STEPS, write_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("recorded")
    write_run(base / "run", base / "job")
    return base / "run"


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``scalana report`` to its end, in this process."""
    return command("report", *arguments)


def test_json_names_the_planted_fault_and_follows_the_schema(folder: Path) -> None:
    result = report(str(folder), "--format", "json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    jsonschema.validate(found, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    (finding,) = found["findings"]
    assert finding["kind"] == "late-ranks" and finding["ranks"] == [1]
    assert (finding["root"]["file"], finding["root"]["line"], finding["root"]["function"]) == (
        "job.py", PREPARE_LINE, "prepare",
    )  # fmt: skip
    assert finding["lost_s"] == pytest.approx(STEPS * 0.040, rel=0.02)
    assert finding["saving_s"] == pytest.approx(STEPS * 0.040, rel=0.1)
    first, *_, last = finding["path"]
    assert (first["rank"], first["line"], first["operation"]) == (0, REDUCE_LINE, "allreduce")
    assert (last["rank"], last["line"]) == (1, PREPARE_LINE)


def test_times_add_up_to_ranks_times_seconds(folder: Path) -> None:
    found = json.loads(report(str(folder), "--format", "json").stdout)
    assert sum(found["time"].values()) == pytest.approx(2 * found["run"]["seconds"], rel=1e-5)
    assert found["time"]["wait_s"] == pytest.approx(STEPS * 0.040, rel=0.02)


def test_text_is_plain_in_a_pipe(folder: Path) -> None:
    words = [sys.executable, "-m", "scalana", "report", str(folder)]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert f"job.py:{PREPARE_LINE}" in result.stdout and "rank 1" in result.stdout.lower()
    assert "\x1b" not in result.stdout and result.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colour_on_a_terminal(folder: Path, variables: dict[str, str], colored: bool) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **variables}
    if "NO_COLOR" not in variables:
        env.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "scalana", "report", str(folder)], cwd=ROOT, env=env, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # the other side is closed
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert b"job.py" in shown and (b"\x1b[1m" in shown) is colored


def test_into_a_file(folder: Path, tmp_path: Path) -> None:
    for form, begin in (("text", "scalana"), ("json", "{"), ("html", "<!DOCTYPE"), ("sarif", "{")):
        target = tmp_path / form
        result = report("--format", form, "-o", str(target), str(folder))
        assert (result.returncode, result.stdout) == (0, "")
        assert target.read_text().startswith(begin)
    assert report(str(folder), "-o", str(tmp_path / "no" / "where")).returncode == 1


@pytest.mark.slow
def test_reader_that_goes_away(folder: Path) -> None:
    line = f"{sys.executable} -m scalana report {folder} | true"
    result = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.stderr == ""


@pytest.mark.slow
def test_terminals_that_cannot_show_it_get_ascii(folder: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "scalana", "report", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=120,
    )
    assert result.returncode == 0 and result.stdout.isascii() and b"job.py" in result.stdout


def test_usage_errors(folder: Path) -> None:
    for arguments in ([], [str(folder), "--format", "pdf"], [str(folder), "--step"]):
        assert report(*arguments).returncode == 2


def test_data_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = report(str(tmp_path / "none"))
    assert missing.returncode == 1 and f"{tmp_path}/none: no such folder" in missing.stderr
    write_run(tmp_path / "run", tmp_path / "job")
    for file in (tmp_path / "run" / "records").iterdir():
        file.write_bytes(b"no record")
    broken = report(str(tmp_path / "run"))
    assert broken.returncode == 1
    assert "host-100-0.rec" in broken.stderr and broken.stderr.count("\n") == 1


def test_one_damaged_record_is_a_warning(tmp_path: Path) -> None:
    write_run(tmp_path / "run", tmp_path / "job")
    damaged = tmp_path / "run" / "records" / "host-101-0.rec"
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    result = report(str(tmp_path / "run"))
    assert result.returncode == 0, result.stderr
    assert "warning:" in result.stdout


def test_library_gives_the_same(folder: Path) -> None:
    result = scalana.analyze(folder)
    assert result.to_json() == report(str(folder), "--format", "json").stdout
    frame = result.frame()
    assert frame[frame["rank"] == 1].time_s.sum() == pytest.approx(STEPS * 0.051, rel=0.01)
