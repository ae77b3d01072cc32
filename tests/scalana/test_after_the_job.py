"""What follows the job never changes how it ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalana import api, cli
from tests.scalana.recorded import write_run


def fail(error: BaseException) -> object:
    """An analysis that ends in ``error``."""

    def analyze(*_: object, **__: object) -> object:
        raise error

    return analyze


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyboardInterrupt(), "report interrupted; the records are in job"),
        (ValueError("odd record"), "could not analyse the run: odd record (records are in job)"),
        (MemoryError(), "could not analyse the run: MemoryError (records are in job)"),
    ],
)
def test_exit_code_stays(
    error: BaseException,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "analyze", fail(error))
    assert cli.main(["run", "-o", "job", "--", sys.executable, "-c", "raise SystemExit(3)"]) == 3
    captured = capfd.readouterr().err
    assert captured.startswith(f"scalana: {expected}") and captured.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_reports_are_kept_in_the_run_folder(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "other", tmp_path / "src")
    analyze = api.analyze
    monkeypatch.setattr(api, "analyze", lambda _folder, **options: analyze(tmp_path / "other", **options))
    assert cli.main(["run", "-o", "job", "--format", form, "--", sys.executable, "-c", "print('mine')"]) == 0
    captured = capfd.readouterr()
    text, data = (tmp_path / "job" / "report.txt").read_text(), (tmp_path / "job" / "report.json").read_text()
    if form == "json":
        assert captured.out == "mine\n" + data and captured.err == ""
    else:
        assert captured.out == "mine\n" and text.splitlines()[-1] in captured.err


def test_the_report_is_shown_where_it_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "other", tmp_path / "src")
    analyze = api.analyze
    monkeypatch.setattr(api, "analyze", lambda _folder, **options: analyze(tmp_path / "other", **options))
    program = "import os; os.mkdir('job/report.txt')"
    assert cli.main(["run", "-o", "job", "--", sys.executable, "-c", program]) == 0
    error = capfd.readouterr().err
    assert "scalana: cannot write job/report.txt: Is a directory" in error and "Where the time goes" in error


def test_a_run_folder_that_the_job_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = "import shutil; shutil.rmtree('job'); raise SystemExit(3)"
    assert cli.main(["run", "-o", "job", "--", sys.executable, "-S", "-c", program]) == 3
    assert "the run folder job was removed while the job ran" in capfd.readouterr().err
