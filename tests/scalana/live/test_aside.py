"""What follows a job has the lowest priority, but for what is urgent; and leaves nothing behind when it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scalana.live.aside import Aside
from scalana.runtime.record import layout
from tests.graphs.runs import make_ranks

WATCH = """
import sys
from scalana.live import run_tail
run_tail._IN_MEMORY = sys.argv[1]
from scalana.cli import main
sys.exit(main(["watch", "--log", sys.argv[2]]))
"""


def priority() -> int:
    """Of this thread."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_what_runs_aside_has_the_lowest_priority_but_for_what_is_urgent() -> None:
    aside, usual = Aside(), priority()
    assert aside.run(lambda: (priority(), aside.urgently(priority), priority())) == (19, usual, 19)
    assert priority() == usual


def test_failures_are_those_of_the_caller() -> None:
    def fails() -> None:
        raise KeyError("planted")

    with pytest.raises(KeyError):
        Aside().run(fails)
    aside = Aside()
    with pytest.raises(KeyError):
        aside.run(lambda: aside.urgently(fails))


def test_who_is_interrupted_ends_what_runs_aside() -> None:
    aside, ended = Aside(), threading.Event()

    def goes_on() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert aside.is_left(60.0)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        aside.run(goes_on)
    assert ended.wait(60.0)


def test_nothing_is_left_when_it_is_ended(tmp_path: Path) -> None:
    run, memory = tmp_path / "run", tmp_path / "memory"
    for folder in (run, memory):
        folder.mkdir()
    layout.write_info(run, {"command": ["x"]})
    (rank,) = make_ranks(run, 1)
    rank.work("step", 500)
    rank.writer.flush()
    words = [sys.executable, "-c", WATCH, memory, run]
    with subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True) as watch:
        until = time.monotonic() + 60.0
        while not any(memory.iterdir()) and watch.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        assert any(memory.iterdir()), watch.stderr and watch.stderr.read()
        watch.terminate()
        assert watch.wait(60) == 1
    assert not any(memory.iterdir())
