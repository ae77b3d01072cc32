"""What a process is blocked in, as the kernel says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scalana.live.blocked import blocked_in

PROGRAMS = {
    "import time; time.sleep(1000)": "sleeping",
    "import threading; l = threading.Lock(); l.acquire(); l.acquire()": "waiting for a lock or another thread",
    "import os; os.read(os.pipe()[0], 1)": "reading a pipe",
    "import os; os.mkfifo(FILE); open(FILE)": "opening a file",
    "import subprocess; subprocess.run(['sleep', '1000'])": "waiting for process ",
    "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()).recv(1)": (
        "receiving from 127.0.0.1:"
    ),
    "import fcntl; a = open(FILE, 'w'); b = open(FILE); fcntl.flock(a, 2); fcntl.flock(b, 2)": (
        "waiting for the lock of FILE, which process PID holds"
    ),
}


def awaited(pid: int, words: str) -> str:
    """What a process is blocked in, as soon as that begins so; else what it is in the end."""
    until = time.monotonic() + 60
    while not (found := blocked_in(pid, pid).words).startswith(words) and time.monotonic() < until:
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_words(program: str, tmp_path: Path) -> None:
    file = str(tmp_path / "file")
    running = subprocess.Popen([sys.executable, "-c", program.replace("FILE", repr(file))], start_new_session=True)
    words = PROGRAMS[program].replace("FILE", file).replace("PID", str(running.pid))
    try:
        assert awaited(running.pid, words).startswith(words)
        os.kill(running.pid, signal.SIGSTOP)
        assert awaited(running.pid, "stopped") == "stopped by a signal"
        assert blocked_in(running.pid, running.pid).is_stopped
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def test_what_runs_or_is_gone_is_blocked_in_nothing() -> None:
    assert blocked_in(os.getpid(), os.getpid()).words == ""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert blocked_in(ended.pid, ended.pid).words == ""
