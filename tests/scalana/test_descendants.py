"""What a job has started ends with it, where the job is ended and leaves that behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from scalana.job import descendants

STARTS = """
import subprocess, sys
child = "import signal, time; signal.signal(signal.SIGTERM, {}); print(1, flush=True); time.sleep(600)"
for what in ("signal.SIG_DFL", "signal.SIG_IGN"):
    made = subprocess.Popen([sys.executable, "-c", child.format(what)], stdout=subprocess.PIPE)
    made.stdout.readline()
    print(made.pid, flush=True)
input()
"""


def test_what_ignores_the_request_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descendants, "_TO_END_S", 0.2)
    job = subprocess.Popen(
        [sys.executable, "-c", STARTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert job.stdout is not None
    children = [int(job.stdout.readline()) for _ in range(2)]
    with descendants.held(job.pid) as held:
        assert len(held) == 2
        job.kill()
        job.wait()
        assert all(os.path.exists(f"/proc/{child}") for child in children)
        descendants.end(held)
        until_s = time.monotonic() + 10.0
        while any(_runs(child) for child in children):
            assert time.monotonic() < until_s
            time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
