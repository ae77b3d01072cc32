"""Jobs of a chain are one run with several attempts; a folder that is of something else is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.chains import Chain, choose_of_chain
from scalana.job import resuming
from scalana.runtime.record import layout
from tests.graphs.progress.restarted import Started
from tests.graphs.runs import build

from .test_run import run


def job(folder: Path, script: Path, *options: str) -> tuple[int, str, str]:
    done = run(["run", "--no-report", *options, "--", "python", str(script)], folder)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def info(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(layout.info_file(folder)).read_text())
    return found


def test_a_chain_of_real_jobs(tmp_path: Path) -> None:
    script, other = tmp_path / "train.py", tmp_path / "other.py"
    script.write_text("import sys, time; time.sleep(0.05); print('out'); sys.exit(3)\n")
    other.write_text("print('other')\n")
    for number in (1, 2):
        code, out, err = job(tmp_path, script, "--resume", "run")
        assert (code, out) == (3, "out\n")
        assert ("continuing the run in run: job 2 of its chain" in err) == (number == 2)
    found = info(tmp_path / "run")
    assert [one["exit_code"] for one in found["before"]] == [3] and found["exit_code"] == 3
    records = RunFolder(str(tmp_path / "run")).processes()
    assert {record.meta["job_id"] for record in records} == set(Chain.of(found).jobs)
    code, out, err = job(tmp_path, other, "--resume", "run")
    assert (code, out) == (0, "other\n")
    assert "it is of another program (train.py, not other.py)" in err and "recording into run-2" in err
    assert info(tmp_path / "run") == found and "before" not in info(tmp_path / "run-2")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    code, out, err = job(tmp_path, other, "--resume", "mine")
    assert (code, out) == (0, "other\n") and "it is no run folder" in err
    assert sorted(file.name for file in (tmp_path / "mine").iterdir()) == ["notes.txt"]
    code, out, err = job(tmp_path, other, "--resume", "run", "-o", "run")
    assert code == 2 and "leave out one of them" in err


def test_a_run_that_grows_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout.make_records(tmp_path)
    record = Path(layout.new_record(tmp_path, "a", 1))
    record.write_bytes(b"x")
    layout.write_info(tmp_path, {"command": ["python", "train.py"]})
    monkeypatch.setattr(resuming.time, "sleep", lambda seconds: None)
    killed = resuming.resume(str(tmp_path), ["torchrun", "train.py"])
    assert isinstance(killed, resuming.Resumed) and killed.before == ({"command": ["python", "train.py"]},)
    monkeypatch.setattr(resuming.time, "sleep", lambda seconds: record.write_bytes(b"more"))
    assert resuming.resume(str(tmp_path), ["train.py"]) == "belongs to a run that is going on"


def test_what_slurm_starts_again_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, number in (("scalana-1", "7"), ("scalana-2", "7"), ("scalana-3", "8"), ("own", "7")):
        (tmp_path / name).mkdir()
        layout.write_info(tmp_path / name, {"command": ["x"], "slurm_job": number})
    again = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
    assert resuming.requeued(None, again) == "scalana-2"
    assert resuming.requeued("own", again) == "own"
    assert resuming.requeued("scalana-3", again) is None
    assert resuming.requeued(None, {**again, "SLURM_RESTART_COUNT": "0"}) is None
    assert resuming.requeued(None, {"SLURM_RESTART_COUNT": "1"}) is None


def test_attempts_of_all_jobs_are_one_course(tmp_path: Path) -> None:
    first = Started(tmp_path, 1, 1000, meta={"job_id": "one", "ppid": "7"}).steps(10).file("save", "/ckpt", 5, 300)
    ended = first.steps(4).end(killed=1)
    second = Started(tmp_path, 2, ended + 60_000, meta={"job_id": "two", "ppid": "9"}).file("load", "/ckpt", 5, 200)
    last = second.steps(8).end() / 1000
    begin = 10**9
    before = [{"start_unix_s": begin + 0.9, "seconds": 3.0, "exit_code": 1, "job_id": "one"}]
    now = {"command": ["x"], "start_unix_s": begin + last - 5, "seconds": 5.5, "exit_code": 0, "job_id": "two"}
    ppg = build(tmp_path, **now, before=before)
    course = ppg.run.course
    assert course is not None
    assert [(one.steps, at.again) for one, at in zip(course.attempts, course.resumed, strict=True)] == [(14, 0), (8, 4)]
    assert course.parts_s()["between"] == pytest.approx(60.0)
    assert course.seconds == pytest.approx(last + 0.5 - 0.9)
    assert any("2 jobs, one after the other: job 2 is analysed" in warning for warning in ppg.run.warnings)


def test_the_job_that_goes_on_is_looked_at(tmp_path: Path) -> None:
    ended = Started(tmp_path, 1, 1000, meta={"job_id": "one"}).steps(10).end()
    Started(tmp_path, 2, ended + 1000, meta={"job_id": "two"}).steps(1).end()
    layout.write_info(tmp_path, {"command": ["x"], "job_id": "two", "before": [{"job_id": "one"}], "exit_code": 0})
    folder = RunFolder(str(tmp_path))
    chosen = {}
    for going_on in (False, True):
        chain = Chain(folder.chain.jobs, None, going_on)
        chosen[going_on] = choose_of_chain(folder.processes(), chain).ranks[0].record.meta["job_id"]
    assert chosen == {False: "one", True: "two"}
