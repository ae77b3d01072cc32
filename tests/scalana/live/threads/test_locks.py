"""Who holds the lock that a thread of another process waits for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalana.live.threads.locks import lock_lines
from scalana.live.threads.native import native_places

HEAD = """\
import os, sys, threading, time
from scalana.runtime import _core
print(_core.supported() and _core.interpreter(), flush=True)
A, B, R, C, ready = threading.Lock(), threading.Lock(), threading.RLock(), threading.Condition(), threading.Event()
class Owner:
    def __init__(self):
        self.other = threading.Lock()
        self.lock = threading.Lock()
owner = Owner()
def start(function):
    threading.Thread(target=function, daemon=True).start()
    ready.wait()
"""
KINDS = {
    "with": (
        """
def hold():
    with A:  # taken
        ready.set()
        time.sleep(1000)  # now
start(hold)
with A:  # asked
    pass
""",
        "the main thread waits at FILE:asked <module> for a lock that thread TID holds, taken at FILE:taken",
        "thread TID is at FILE:now hold, sleeping",
    ),
    "with in two orders": (
        """
def other():
    with B:  # taken
        ready.set()
        with A:  # crossing
            pass
with A:  # first
    start(other)
    with B:  # asked
        pass
""",
        "the main thread waits at FILE:asked <module> for a lock that thread TID holds, taken at FILE:taken",
        "thread TID waits at FILE:crossing other for a lock that the main thread holds, taken at FILE:first",
        "deadlock: the main thread waits for thread TID, thread TID waits for the main thread",
    ),
    "acquire of local names": (
        """
def main():
    first, second = threading.Lock(), threading.Lock()
    def other():
        second.acquire()  # taken
        ready.set()
        first.acquire()  # crossing
    first.acquire()  # first
    start(other)
    second.acquire()  # asked
main()
""",
        "the main thread waits at FILE:asked main for a lock that thread TID holds, taken at FILE:taken",
        "thread TID waits at FILE:crossing main.<locals>.other for a lock that the main thread holds, "
        "taken at FILE:first",
        "deadlock: the main thread waits for thread TID, thread TID waits for the main thread",
    ),
    "one attribute of two": (
        """
def hold():
    owner.other.acquire()
    with owner.lock:  # taken
        ready.set()
        os.read(os.pipe()[0], 1)  # now
start(hold)
owner.lock.acquire()  # asked
""",
        "the main thread waits at FILE:asked <module> for a lock that thread TID holds, taken at FILE:taken",
        "thread TID is at FILE:now hold, reading a pipe",
    ),
    "recursive": (
        """
def hold():
    for lock in [R]:
        lock.acquire()
    ready.set()
    time.sleep(1000)  # now
start(hold)
R.acquire()  # asked
""",
        "the main thread waits at FILE:asked <module> for a lock that thread TID holds",
        "thread TID is at FILE:now hold, sleeping",
    ),
    "itself": (
        """
def again():
    A.acquire()  # asked
A.acquire()  # taken
again()
""",
        "the main thread waits at FILE:asked again for a lock that it holds itself, taken at FILE:taken",
    ),
    "a condition, whose waiter does not hold it": (
        """
lock = threading.Lock()
C = threading.Condition(lock)
def wait():
    with C:
        ready.set()
        C.wait()
def hold():
    with lock:  # taken
        held.set()
        time.sleep(1000)  # now
held = threading.Event()
start(wait)
start(hold)
held.wait()
with C:  # asked
    pass
""",
        "the main thread waits at FILE:asked <module> for a lock that thread TID holds, taken at FILE:taken",
        "thread TID is at FILE:now hold, sleeping",
    ),
    "nobody": (
        """
for lock in [A]:
    lock.acquire()
def ask():
    A.acquire()  # asked
ask()
""",
        "the main thread waits at FILE:asked ask for a lock that no thread of this process is seen to hold",
    ),
    "held at the fork": (
        """
def hold():
    with R:
        ready.set()
        time.sleep(1000)
start(hold)
child = os.fork()
if child == 0:
    R.acquire()  # asked
print(child, flush=True)
time.sleep(1000)
""",
        "the main thread waits at FILE:asked <module> for a lock that a thread holds that is not in this process: it "
        "was held when the process was forked",
    ),
}


@contextmanager
def running(program: str, file: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """A process that hangs, and what its record would say of it."""
    file.write_text(program)
    process = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        meta = {"interpreter": process.stdout.readline(), "lib_dirs": os.path.dirname(threading.__file__)}
        if not meta["interpreter"].strip():
            pytest.skip("nothing is known of where this interpreter has its objects")
        yield int(process.stdout.readline()) if "os.fork()" in program else process.pid, meta
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def with_tid(lines: Sequence[str]) -> list[str]:
    """The same with the number of the only other thread replaced."""
    return [re.sub(r"\bthread \d+", "thread TID", line) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_who_holds_a_lock(kind: str, tmp_path: Path) -> None:
    program, *expected = KINDS[kind]
    program = HEAD + program
    file = tmp_path / "program.py"
    for row, text in enumerate(program.splitlines(), 1):
        expected = [re.sub(f"FILE:{text.partition('# ')[2] or '-'}\\b", f"{file}:{row}", line) for line in expected]
    with running(program, file) as (pid, meta):
        until = time.monotonic() + 60
        while with_tid(lines := lock_lines(pid, meta)) != expected and time.monotonic() < until:
            time.sleep(0.05)
    assert with_tid(lines) == expected


def test_waits_for_no_lock_are_none(tmp_path: Path) -> None:
    program = HEAD + "import queue\nqueue.Queue().get()\n"
    with running(program, tmp_path / "program.py") as (pid, meta):
        until = time.monotonic() + 60
        while not native_places(pid, pid) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.2)
        assert lock_lines(pid, meta) == []
        assert native_places(pid, pid)[0].library.startswith("libc")


NATIVE = {
    "os.read(os.pipe()[0], 1)": ["read"],
    "import ctypes; ctypes.CDLL(None).pause()": ["pause"],
    "import select; select.select([os.pipe()[0]], [], [])": ["select"],
}


@pytest.mark.parametrize("call", NATIVE)
def test_native_functions(call: str, tmp_path: Path) -> None:
    with running(HEAD + call, tmp_path / "program.py") as (pid, _):
        until = time.monotonic() + 60
        wanted = NATIVE[call]
        while (found := [place.function for place in native_places(pid, pid)])[-1:] != wanted[-1:]:
            assert time.monotonic() < until, found
            time.sleep(0.05)
    assert [name for name in found if name in wanted] == wanted


def test_a_process_that_is_gone_or_not_ours_says_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert native_places(ended.pid, ended.pid) == []
    assert lock_lines(ended.pid, {"interpreter": "minor=11"}) == []
