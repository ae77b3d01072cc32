"""What gives way has a session and a niceness of its own, and ends with what has started it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

TOOL = Path(__file__).parent / "tools" / "give_way.py"
ENDS_S = 60


def test_a_command_has_a_session_of_its_own_and_comes_last() -> None:
    shown = "import os; print(os.getsid(0) == os.getpid(), os.nice(0))"
    words = [sys.executable, TOOL, sys.executable, "-c", shown]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=ENDS_S)
    assert done.stdout.split() == ["True", "19"]


def test_it_ends_with_the_process_that_has_started_it() -> None:
    begun = f"{sys.executable} {TOOL} sh -c 'echo $$; exec sleep 600' & read line"
    shell = subprocess.Popen(["sh", "-c", begun], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    sleeping = int(shell.stdout.readline())
    shell.communicate("\n", timeout=ENDS_S)
    until = time.monotonic() + ENDS_S
    while runs(sleeping) and time.monotonic() < until:
        time.sleep(0.05)
    assert not runs(sleeping)


def runs(process: int) -> bool:
    """Whether a process is there that has not ended; one that nobody has waited for has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
