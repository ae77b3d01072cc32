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
from tests.long import also_rows

from . import trial as trials_of
from .kept import Kept, split, state_of_sources
from .program import FAULTS
from .table import table, write_into
from .trial import Ended, Judged, Tools, Trial, run_trial, trials

TOOLS = Tools("mpirun", "ray", "shim.so", "gdb", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ("plain", "SIGKILL"),
        ("threads", "run folder removed"),
        ("executor", "abort"),
        *also_rows(("plain", "SIGSTOP, SIGCONT"), ("plain", "files closed"), ("plain", "exec")),
    ],
)
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
    assert all(
        len({one.fault for one in chosen if one.job == job}) > 0.9 * len(FAULTS) for job in ("mpi", "torch", "ray")
    )
    assert {one.around for one in chosen} == {"", "clock", "sitecustomize", "pdb", "gdb"}
    assert {one.job for one in trials(200, Tools(), range(1, 8))} == {"plain", "threads", "pool", "executor"}


def test_the_table_counts() -> None:
    judged = [
        Judged(Trial("plain", "SIGKILL", 1), (), 0.4, 1.0),
        Judged(Trial("mpi", "SIGKILL", 1), ("hangs",), None, 1.0),
    ]
    text = table(judged)
    assert "2 runs, each with and without scalana: 1 different" in text and "1 (1 !)" in text and "0.40 s" in text


def test_a_later_sitting_goes_on(tmp_path: Path) -> None:
    """Also where an earlier one was killed while it wrote; and not with results of other sources."""
    often, once = Trial("plain", "none", 1), Trial("mpi", "SIGKILL", 2, "clock")
    kept = Kept(tmp_path / "kept", "a")
    assert kept.results() == []
    kept.add(Judged(often, (), 0.4, 1.0))
    kept.add(Judged(once, ("hangs",), None, 2.0, tries=3))
    with (tmp_path / "kept" / "results.jsonl").open("a") as file:
        file.write('{"state": "a", "tri')
    found, missing = split([often, often, once], Kept(tmp_path / "kept", "a").results())
    assert found == [Judged(often, (), 0.4, 1.0), Judged(once, ("hangs",), None, 2.0, tries=3)] and missing == [often]
    kept.add(Judged(often, (), None, 1.0, hangs_alone=True))
    assert [one.hangs_alone for one in kept.results()] == [False, False, True]
    assert Kept(tmp_path / "kept", "b").results() == []
    assert len(Kept(tmp_path / "kept", "b", of_any_state=True).results()) == 3


def test_other_sources_are_another_state(tmp_path: Path) -> None:
    source = tmp_path / "runtime" / "recorder.c"
    source.parent.mkdir()
    states = set()
    for text in ("int x;", "int y;"):
        source.write_text(text)
        states.add(state_of_sources(tmp_path))
    (source.parent / "recorder.so").write_text("built")
    assert len(states) == 2 and state_of_sources(tmp_path) in states


def test_the_document_gets_what_was_measured(tmp_path: Path) -> None:
    document = tmp_path / "faults.md"
    document.write_text("# Faults\n\nText.\n\n## What was measured\n\nlast year\n")
    judged = [Judged(Trial("plain", "SIGKILL", 1, "gdb"), (), 0.4, 1.0), Judged(Trial("mpi", "exec", 1), (), None, 1.0)]
    write_into(document, judged)
    text = document.read_text()
    assert text.startswith("# Faults\n\nText.\n\n## What was measured\n") and "last year" not in text
    assert "- 2 runs, each with and without scalana: 0 different" in text
    assert "| SIGKILL | 1 | · |" in text and "| gdb | 1 | · |" in text and "| exec | · | 1 |" in text


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
