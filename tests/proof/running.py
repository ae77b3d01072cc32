"""Measures rows: chooses them, runs each command once, and reads the values of its rows."""

from __future__ import annotations

import fnmatch
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import results
from .results import ROOT, Machine, Result
from .rows import Command, Row

LIMIT_S = 3600.0
"""Of one command."""
QUIET = 0.5
"""Load for each core up to which a machine counts as quiet."""
PATIENCE_S = 180.0
"""For which a quiet machine is waited for: what was measured before stays in the load average for minutes."""
LOOK_S = 5.0
"""Between two looks at the load."""
Say = Callable[[str], None]


class Failed(Exception):
    """A command did not give a value."""


@dataclass(frozen=True)
class Asked:
    """Which rows to measure."""

    names: tuple[str, ...] = ()
    """Names or patterns; none: all."""
    gpu: bool = False
    """Those that need a GPU, and no others."""
    anyway: bool = False
    """Also those that need a quiet machine, on one that is not."""


def chosen(rows: Sequence[Row], asked: Asked) -> list[Row]:
    """The rows that are asked for and have a command, and those that the same commands measure.

    Raises:
        ValueError: a name or pattern matches no row.
    """
    for pattern in asked.names:
        if not fnmatch.filter([row.name for row in rows], pattern):
            raise ValueError(f"no row is called {pattern!r}: tests/proof/table has the names")
    named = [row for row in rows if not asked.names or any(fnmatch.fnmatch(row.name, name) for name in asked.names)]
    commands = {row.measured_by for row in named if isinstance(row.measured_by, Command)}
    return [row for row in rows if row.measured_by in commands and row.measured_by.gpu == asked.gpu]


def by_command(rows: Sequence[Row]) -> dict[Command, list[Row]]:
    """Rows that one command measures stand together."""
    groups: dict[Command, list[Row]] = {}
    for row in rows:
        if isinstance(row.measured_by, Command):
            groups.setdefault(row.measured_by, []).append(row)
    return groups


def load_average() -> float:
    """Processes that ran or wanted to, in the last minute."""
    return round(os.getloadavg()[0], 1)


def obstacle(command: Command, anyway: bool) -> str:
    """Why a command cannot be run here; empty where it can."""
    for need in command.needs:
        if not os.environ.get(need.variable):
            return f"needs {need.what}: set {need.variable} to its folder"
    cores = len(os.sched_getaffinity(0))
    if command.quiet and not anyway and not gets_quiet(QUIET * cores):
        return f"needs a quiet machine: the load is {load_average()} on {cores} cores (ANYWAY=1 measures all the same)"
    return ""


def gets_quiet(most: float) -> bool:
    """Whether the load average is, or within :data:`PATIENCE_S` gets, at most so high."""
    end = time.monotonic() + PATIENCE_S
    while load_average() > most:
        if time.monotonic() >= end:
            return False
        time.sleep(LOOK_S)
    return True


def gpu_name() -> str:
    """The first GPU that torch can use; empty without one."""
    try:
        import torch
    except ImportError:
        return ""
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else ""


def environment(work: str) -> dict[str, str]:
    """What the steps of a command find."""
    here = str(Path(sys.executable).parent)
    found = {**os.environ, "WORK": work, "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)])}
    found.setdefault("SCALANA_CACHE", str(ROOT / "build" / "cache"))
    found.setdefault("MPI", str(ROOT / "build" / "mpi" / "openmpi" / "bin"))
    return found


def run(command: Command, limit_s: float = LIMIT_S) -> str:
    """What the last step prints.

    Raises:
        Failed: a step ends with an error, or all of them take too long.
    """
    end, output = time.monotonic() + limit_s, ""
    with tempfile.TemporaryDirectory(prefix="scalana-proof-") as work:
        for step in command.steps:
            process = subprocess.Popen(
                ["bash", "-eo", "pipefail", "-c", step],
                cwd=ROOT,
                env=environment(work),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            try:
                output, errors = process.communicate(timeout=max(end - time.monotonic(), 1.0))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise Failed(f"`{step}` did not end within {limit_s:.0f} s") from None
            if process.returncode:
                last = (errors.strip() or output.strip()).splitlines()[-1:]
                raise Failed(f"`{step}` ended with {process.returncode}: {''.join(last)[:200]}")
    return output


def read(row: Row, output: str) -> tuple[float | None, str]:
    """The value of a row, or what is wrong with the output."""
    assert row.read is not None, f"{row.name} has a command and no reader"
    try:
        return row.read(output), ""
    except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError) as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:200]


def measure(command: Command, rows: Sequence[Row], gpu: str) -> Iterator[tuple[Row, Result]]:
    """Run a command once, and give the result of each of its rows."""
    before, begin, output, failed = load_average(), time.monotonic(), "", ""
    try:
        output = run(command)
    except Failed as error:
        failed = str(error)
    seconds, after = round(time.monotonic() - begin, 1), load_average()
    for row in rows:
        value, error_text = (None, failed) if failed else read(row, output)
        yield (
            row,
            Result(value, error_text, Machine.here(gpu), before, after, results.commit(), results.today(), seconds),
        )


def measure_all(rows: Sequence[Row], asked: Asked, say: Say) -> Iterator[tuple[Row, Result]]:
    """Measure the rows that are asked for, one command after the other, and say what is left out."""
    wanted = chosen(rows, asked)
    gpu = gpu_name() if asked.gpu else ""
    if asked.gpu and not gpu:
        say(f"torch.cuda is not available here: {len(wanted)} rows that need a GPU are left as they are")
        return
    for command, group in by_command(wanted).items():
        names = ", ".join(row.name for row in group)
        reason = obstacle(command, asked.anyway)
        if reason:
            say(f"left: {names}: {reason}")
            continue
        say(f"measuring {names}")
        yield from measure(command, group, gpu)
