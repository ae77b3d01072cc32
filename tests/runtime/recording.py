"""Records small programs through the compiled recorder alone, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from scalana.runtime.record.format import ProcessRecord

ROOT = Path(__file__).resolve().parents[2]

_HEAD = """
import importlib.util, os, sys, threading, time
sys.path.insert(0, {root!r})
if core := {core!r}:
    spec = importlib.util.spec_from_file_location("scalana.runtime._core", core)
    _core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(_core)
    sys.modules["scalana.runtime._core"] = _core
else:
    from scalana.runtime import _core
RECORD = {record!r}
"""


def run(
    program: str,
    record: Path,
    *,
    timeout_s: float = 60.0,
    expect: int | None = 0,
    core: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs ``program``, which finds ``_core`` imported and the name of the record to write in ``RECORD``.

    ``core`` is another build of the extension than the one in place.
    """
    file = record.with_suffix(".py")
    head = _HEAD.format(root=str(ROOT), record=str(record), core=str(core or ""))
    file.write_text(head + textwrap.dedent(program), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=record.parent,
        env={**os.environ, **(environment or {})},
    )
    if expect is not None:
        assert result.returncode == expect, result.stderr
    return result


def recorded(
    program: str,
    folder: Path,
    *,
    timeout_s: float = 60.0,
    core: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessRecord:
    """Runs ``program`` and reads the record that it wrote."""
    record = folder / "program.rec"
    run(program, record, timeout_s=timeout_s, core=core, environment=environment)
    return ProcessRecord.read(record)


def build_core(folder: Path, environment: Mapping[str, str]) -> Path:
    """Builds the extension apart from the one in place, with other options."""
    if not (ROOT / "runtime").exists():
        pytest.skip("no sources of the extension: the package is installed")
    build = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(folder), "--build-temp", f"{folder}/tmp"]
    subprocess.run(build, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True, timeout=300)
    (library,) = folder.glob("scalana/runtime/_core*.so")
    return library


def line_of(folder: Path, mark: str) -> int:
    """Number of the one line of the latest program that holds ``mark``."""
    lines = (folder / "program.py").read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if mark in line]
    return found


def seconds_by_function(record: ProcessRecord, thread: int, depth: int = 1) -> dict[str, float]:
    """Seconds of a thread per name of the frame at ``depth`` (0 outermost).

    A sample stands for the time to the next.
    """
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
