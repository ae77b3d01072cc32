"""Processes that run already begin to record, and end that; only processes of the test itself are attached to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalana.attach import recording
from scalana.attach.processes import Process, sorted_out
from scalana.attach.recording import BEGIN, END, Scripts, Target
from scalana.job import launch
from scalana.runtime.record import layout
from scalana.runtime.remote import pools
from tests.runtime import jobs
from tests.scalana.command import command

RANK = ("RANK", "0", "2", "0")
PROGRAM = """
import os, signal, sys, time
def handler(number, frame):
    raise LookupError("of the program")
signal.signal(signal.SIGUSR1, handler)
def script(name):
    exec(open(name.replace("PID", str(os.getpid()))).read(), {})
def slow():
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        sum(range(1000))
before = dict(os.environ)
open(sys.argv[1], "w").write(str(os.getpid()))
sys.stdin.readline()
script(sys.argv[2])
given = dict(os.environ)
slow()
script(sys.argv[3])
print(sorted(given.keys() - before.keys()), dict(os.environ) == before)
"""


def scripts(folder: Path) -> Scripts:
    layout.make_records(folder)
    return Scripts(str(folder), launch.environment(str(folder), 200.0, {}, "job"))


def test_what_processes_are_to_each_other() -> None:
    def process(pid: int, parent: int, given: tuple[str, ...] = ()) -> Process:
        return Process(pid, parent, given, "/job")

    pool = sorted_out([process(10, 1), process(11, 10), process(12, 10)])
    assert recording.roles_of(pool) == {10: "main process", 11: "worker", 12: "worker"}
    assert recording.roles_of(sorted_out([process(10, 1)])) == {}
    assert recording.roles_of(sorted_out([process(10, 1), process(20, 1)])) == {10: "process", 20: "process"}
    assert recording.roles_of(sorted_out([process(10, 1, RANK), process(11, 10, RANK)])) == {}


def test_what_a_rank_has_started_belongs_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "born", lambda pid: pid * 100)
    job = sorted_out([Process(10, 1, RANK, "/job"), Process(11, 10, RANK, "/job")])
    rank, loader = recording.targets_of(job)
    assert rank == Target(10, 1000) and loader.pid == 11
    assert loader.parent == f"10:{layout.process_name(os.uname().nodename, 10)}-0.rec:1"


def test_an_older_interpreter_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(recording.sys, "remote_exec", raising=False)
    other = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        done = command("attach", "--record", tmp_path / "run", other.pid)
    finally:
        other.communicate(b"\n")
    assert done.returncode == 1 and "needs Python 3.14" in done.stderr and "--seconds 10" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_process_records_between_two_scripts(tmp_path: Path) -> None:
    """The scripts, run by the program itself: its environment is what it was, and nothing is printed."""
    given = scripts(tmp_path / "run")
    names = [given.file(0, function).replace("/0-", "/PID-") for function in (BEGIN, END)]
    pid_file = tmp_path / "pid"
    words = [sys.executable, "-c", PROGRAM, str(pid_file), *names]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=jobs.environment(None)
    )
    target = Target(process.pid, 1)
    for function in (BEGIN, END):
        file = Path(given.file(process.pid, function))
        file.parent.mkdir(exist_ok=True)
        file.write_text(given.text(target, function))
    out, _ = process.communicate(b"\n", timeout=60)
    said = out.decode().splitlines()
    assert len(said) == 1 and "'SCALANA_RUN_DIR'" in said[0] and said[0].endswith("] True"), out
    (record,) = jobs.records(tmp_path / "run")
    assert record.ended and record.number("pid") == process.pid
    assert recording.is_done(given, process.pid, BEGIN) and recording.is_done(given, process.pid, END)
    assert not layout.notes(tmp_path / "run")


def test_what_a_handler_raises_meanwhile_is_raised_in_the_program(tmp_path: Path) -> None:
    code = """
import os, signal, time
from scalana.runtime import attached
def handler(number, frame): raise LookupError("of the program")
signal.signal(signal.SIGUSR1, handler)
attached.begin = lambda: os.kill(os.getpid(), signal.SIGUSR1) or ""
before = attached.held()
attached.run("begin", "/nowhere", {})
attached.release(before)
began = time.monotonic()
try:
    time.sleep(100)
except LookupError as error:
    print("raised:", error, "in time" if time.monotonic() - began < 90 else "late")
"""
    done = jobs.python(code, extra={"PYTHONPATH": str(jobs.SITE)})
    assert (done.stdout, done.stderr) == ("raised: of the program in time\n", "")


@pytest.mark.skipif(not pools._WRITES_THROUGH, reason="the variables of a frame cannot be set before Python 3.13")
def test_a_worker_of_a_pool_is_joined_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_pool_of", lambda queue: 7)

    def worker(inqueue: object, get: object, put: object) -> tuple[object, object]:
        pools._enter_running(worker)
        return get, put

    get, put = worker(object(), max, min)
    assert get is not max and put is not min


@pytest.mark.skipif(not hasattr(sys, "remote_exec"), reason="needs Python 3.14")
def test_a_running_program_is_recorded(tmp_path: Path) -> None:
    code = (
        "import time\nuntil = time.monotonic() + 60\nprint(flush=True)\nwhile time.monotonic() < until: sum(range(99))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=jobs.environment(None), stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    given = scripts(tmp_path / "run")
    target = Target(process.pid, recording.born(process.pid))
    try:
        for function in (BEGIN, END):
            assert recording.tried(given, [target], function) == ([target], [])
            assert not recording.waiting(given, [target], function, 30.0)
        assert process.poll() is None
    except recording.RemoteError as error:
        pytest.skip(str(error))
    finally:
        process.kill()
        process.communicate()
    assert [record.number("pid") for record in jobs.records(tmp_path / "run")] == [process.pid]
