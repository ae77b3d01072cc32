"""Records small programs through the compiled recorder alone, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

from scalana.runtime.record_format import ProcessRecord

ROOT = Path(__file__).resolve().parents[2]

_HEAD = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
from scalana.runtime import _core
RECORD = {record!r}
"""


def run(
    program: str, record: Path, *, timeout_s: float = 60.0, expect: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Runs ``program``, which finds ``_core`` imported and the name of the record to write in ``RECORD``."""
    file = record.with_suffix(".py")
    file.write_text(_HEAD.format(root=str(ROOT), record=str(record)) + textwrap.dedent(program))
    result = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=timeout_s, cwd=record.parent
    )
    if expect is not None:
        assert result.returncode == expect, result.stderr
    return result


def recorded(program: str, folder: Path, **options: float) -> ProcessRecord:
    """Runs ``program`` and reads the record that it wrote."""
    record = folder / "program.rec"
    run(program, record, **options)  # type: ignore[arg-type]
    return ProcessRecord.read(record)


def line_of(folder: Path, mark: str) -> int:
    """Number of the one line of the latest program that holds ``mark``."""
    lines = (folder / "program.py").read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if mark in line]
    return found


def seconds_by_function(record: ProcessRecord, thread: int, depth: int = 1) -> dict[str, float]:
    """Seconds of a thread per name of the frame at ``depth`` (0 outermost): a sample stands for the time to the next."""
    samples = record.samples
    rows = [row for row in range(len(samples)) if samples.thread[row] == thread]
    seconds: dict[str, float] = defaultdict(float)
    for row, following in zip(rows, rows[1:]):  # noqa: B905  pairs
        frames = record.frames(samples.path[row])
        name = frames[depth].code.name if len(frames) > depth else "-"
        seconds[name] += (samples.time_ns[following] - samples.time_ns[row]) / 1e9
    return seconds


def main_thread(record: ProcessRecord) -> int:
    (index,) = [thread.index for thread in record.threads.values() if thread.is_main]
    return index
