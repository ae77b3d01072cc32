"""Stacks of running Python processes, read by py-spy: which reads their memory, and stops each for some milliseconds at
every look."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from scalana.errors import CommandError

Frame = tuple[str, int, str]
"""File, line and function."""
Path = tuple[Frame, ...]
"""Frames, the outermost first."""

_NAME = "py-spy"
_MISSING = "py-spy is not installed: pip install 'scalana[attach]', in the environment of scalana or on PATH"
FORBIDDEN = (
    "scalana may not read it: run as the same user where sysctl kernel.yama.ptrace_scope is 0, or as root (sudo); in a "
    "container, start that with --cap-add SYS_PTRACE"
)
_DENIED = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)
_TIMEOUT_S = 60.0
_TRIES = 3
"""A process that is starting, or that changes its stack meanwhile, is read in the second attempt."""
_AT_ONCE = 16
_MAIN = "MainThread"
_FRAME = re.compile(r"(.*) \((.*?)(?::(\d+))?\)")
_THREAD = re.compile(r"thread \(\w+\)(?:: (.*))?")
_Result = TypeVar("_Result")


class SpyError(Exception):
    """A process that cannot be read; says which and why."""


@dataclass(frozen=True, slots=True)
class Look:
    """The main thread of a process at one moment."""

    path: Path
    is_active: bool
    """Whether it is on a CPU."""
    tid: int


def program() -> str:
    """Path of py-spy: beside this Python, or on PATH.

    Raises:
        CommandError: there is none.
    """
    own = os.path.join(os.path.dirname(sys.executable), _NAME)
    found = own if os.access(own, os.X_OK) else shutil.which(_NAME)
    if found is None:
        raise CommandError(_MISSING)
    return found


def look(spy: str, pid: int) -> Look:
    """Where the main thread of a process is.

    Raises:
        SpyError: it cannot be read.
    """
    for attempt in range(_TRIES):
        try:
            return main_thread(_run([spy, "dump", "--json", "--pid", str(pid)], pid), pid)
        except SpyError:
            if attempt == _TRIES - 1 or not os.path.exists(f"/proc/{pid}"):
                raise
    raise AssertionError("not reached")


def sampled(spy: str, pid: int, seconds: float, rate_hz: int) -> Mapping[Path, int]:
    """How often the main thread of a process was on each path, running or not.

    Raises:
        SpyError: it cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="scalana-attach-") as folder:
        file = os.path.join(folder, "raw")
        words = [spy, "record", "--pid", str(pid), "--duration", str(max(round(seconds), 1)), "--rate", str(rate_hz)]
        words += ["--format", "raw", "--full-filenames", "--idle", "--threads", "--output", file]
        _run(words, pid, seconds)
        try:
            with open(file, encoding="utf-8", errors="replace") as opened:
                return main_paths(opened.read())
        except OSError as error:
            raise SpyError(f"process {pid}: nothing was sampled") from error


def of_each(pids: Sequence[int], read: Callable[[int], _Result], all_at_once: bool) -> dict[int, _Result | SpyError]:
    """What is read of each process, or why it cannot be."""

    def tried(pid: int) -> _Result | SpyError:
        try:
            return read(pid)
        except SpyError as error:
            return error

    if not pids:
        return {}
    with ThreadPoolExecutor(len(pids) if all_at_once else min(len(pids), _AT_ONCE)) as pool:
        return dict(zip(pids, pool.map(tried, pids), strict=True))


def main_thread(text: str, pid: int) -> Look:
    """The main thread of what ``py-spy dump --json`` prints.

    Raises:
        SpyError: it is something else, or there is no thread.
    """
    try:
        threads = json.loads(text)
        main = next((one for one in threads if one["os_thread_id"] == pid), None)
        main = main or next((one for one in threads if one["thread_name"] == _MAIN), threads[0])
        frames = [(str(one["filename"]), int(one["line"]), str(one["name"])) for one in main["frames"]]
        return Look(tuple(reversed(frames)), bool(main["active"]), int(main["os_thread_id"] or pid))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise SpyError(f"process {pid}: py-spy prints something unknown: {text[:100]!r}") from error


def main_paths(text: str) -> Mapping[Path, int]:
    """The samples of the main thread in what ``py-spy record --format raw --threads`` writes; of all threads where none
    has its name."""
    found: dict[bool, Counter[Path]] = {True: Counter(), False: Counter()}
    for line in text.splitlines():
        path, _, count = line.rpartition(" ")
        thread, *frames = path.split(";")
        named = _THREAD.fullmatch(thread)
        if named is None or not count.isdecimal():
            continue
        parts = [matched for frame in frames if (matched := _FRAME.fullmatch(frame))]
        found[named[1] == _MAIN][tuple((part[2], int(part[3] or 0), part[1]) for part in parts)] += int(count)
    return found[True] or found[False]


def _run(words: Sequence[str], pid: int, seconds: float = 0.0) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + _TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SpyError(f"process {pid}: {error}") from error
    if done.returncode == 0:
        return done.stdout
    if _DENIED.search(done.stderr):
        raise SpyError(f"process {pid}: {FORBIDDEN}")
    said = next((line for line in done.stderr.splitlines() if line.strip()), f"exit code {done.returncode}")
    raise SpyError(f"process {pid}: {said.removeprefix('Error: ')}")
