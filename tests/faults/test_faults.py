"""The matrix of faults: a few of its runs, and that it sees what differs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scalana.runtime.record import layout
from scalana.runtime.record.writer import RecordWriter

from . import trial as trials_of
from .__main__ import table
from .program import FAULTS
from .trial import Ended, Judged, Tools, Trial, run_trial, trials

TOOLS = Tools("mpirun", "ray", "shim.so", "gdb", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "fault"),
    [("plain", "SIGKILL"), ("plain", "SIGSTOP, SIGCONT"), ("plain", "files closed"), ("threads", "run folder removed"),
     ("executor", "abort"), ("plain", "exec")],
)  # fmt: skip
def test_a_job_is_as_it_is_without(job: str, fault: str) -> None:
    assert run_trial(Trial(job, fault, 2), Tools()).wrong == ()


def test_a_difference_is_seen(tmp_path: Path) -> None:
    plain = Ended(3, ["tick 0", "end"], 1.0, "")
    assert trials_of._differences(plain, plain) == []
    assert trials_of._differences(plain, Ended(None, [], 120.0, "")) == ["hangs"]
    code, out = trials_of._differences(plain, Ended(1, ["tick 0"], 1.0, "why"))
    assert code.startswith("exit code 1, not 3") and "end" in out


def test_what_is_missing_of_a_record_is_measured(tmp_path: Path) -> None:
    layout.make_records(tmp_path)
    second = 10**9
    with RecordWriter(layout.new_record(tmp_path, "a", 7)) as record:
        for key, value in (("pid", "7"), ("start_ns", str(second))):
            record.meta(key, value)
        record.thread(0, 7)
        record.time(3 * second)
        record.end(3 * second)
    moment = tmp_path / "moment"
    moment.write_text(f"7 {8 * second}")
    assert trials_of._lost_s(Trial("plain", "SIGKILL", 1), tmp_path, moment) == pytest.approx(5.0)
    moment.write_text(f"7 {2 * second}")
    assert trials_of._lost_s(Trial("plain", "SIGKILL", 1), tmp_path, moment) == 0.0
    assert trials_of._lost_s(Trial("plain", "full disk", 1), tmp_path, moment) is None


def test_a_thousand_runs_are_of_all_kinds() -> None:
    chosen = trials(1000, TOOLS, range(1, 8))
    assert len(chosen) == 1000 and {one.fault for one in chosen} == set(FAULTS)
    assert {one.job for one in chosen} == {"plain", "threads", "pool", "executor", "mpi", "torch", "ray"}
    assert {one.around for one in chosen} == {"", "clock", "sitecustomize", "pdb", "gdb"}
    assert {one.job for one in trials(200, Tools(), range(1, 8))} == {"plain", "threads", "pool", "executor"}


def test_the_table_counts() -> None:
    judged = [
        Judged(Trial("plain", "SIGKILL", 1), (), 0.4, 1.0),
        Judged(Trial("mpi", "SIGKILL", 1), ("hangs",), None, 1.0),
    ]
    text = table(judged)
    assert "2 runs, each with and without scalana: 1 different" in text and "1 (1 !)" in text and "0.40 s" in text


def test_all_words_of_the_command_are_understood() -> None:
    done = subprocess.run(["make", "-n", "faults", "RUNS=7"], cwd=trials_of.ROOT, capture_output=True, text=True)
    assert "-m tests.faults 7" in done.stdout


def test_nothing_is_left_of_a_trial() -> None:
    """Neither in a session of its own."""
    environment = {**os.environ, "FAULT_TRIAL": "left-behind"}
    with subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True) as process:
        trials_of.end_all_of("another")
        assert process.poll() is None
        end = time.monotonic() + 30.0
        while process.poll() is None and time.monotonic() < end:  # what has just begun may have no environment yet
            trials_of.end_all_of("left-behind")
            time.sleep(0.05)
        assert process.wait(timeout=1) == -signal.SIGKILL
