"""CPU time per function, beside what `perf` counts in the same run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import scalana

from .conftest import Mpi

pytestmark = pytest.mark.slow
FUNCTIONS = ("divide", "multiply", "mix")
RATE_HZ = 997


def perf() -> str:
    """The command; skips where it is not there, or is not allowed to count."""
    found = shutil.which("perf")
    if not found:
        pytest.skip("no perf")
    tried = subprocess.run(
        [found, "record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "true"], capture_output=True, text=True
    )
    if tried.returncode:
        pytest.skip(f"perf: {tried.stderr.strip()}")
    return found


def seconds_by_perf(data: Path, program: str) -> dict[str, float]:
    """CPU seconds in the user's functions, of all processes of a program."""
    words = ["perf", "report", "-i", str(data), "--comms", program, "--no-children", "--stdio", "-q"]
    done = subprocess.run([*words, "-F", "sample,sym", "-t", ","], capture_output=True, text=True, check=True)
    counted: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        number, _, symbol = line.partition(",")
        name = symbol.partition("[.]")[2].partition(",")[0].strip()
        if name in FUNCTIONS:
            counted[name] += int(number)
    return {name: number / RATE_HZ for name, number in counted.items()}


def test_cpu_time_per_function_agrees_with_perf(mpi: Mpi) -> None:
    program = mpi.compile("hot_functions.c", "-lm", name="hot")
    data = mpi.work / "perf.data"
    count = [perf(), "record", "-q", "-e", "cpu-clock", "-F", str(RATE_HZ), "-o", str(data), "--"]
    words = [sys.executable, "-m", "scalana", "run", "-o", "run", "--no-report", "--rate", str(RATE_HZ), "--"]
    words += [*count, "mpirun", *mpi.options, "-n", "2", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=mpi.work, env=mpi.environment())
    assert done.returncode == 0, done.stderr
    frame = scalana.analyze(mpi.work / "run").frame()
    told = frame.groupby("function")["cpu_s"].sum()
    truth = seconds_by_perf(data, "hot")
    assert set(truth) == set(FUNCTIONS)
    for name in FUNCTIONS:
        # Both count samples, of each of which there are as many as seconds times the rate.
        chance = 3 * (2 * truth[name] / RATE_HZ) ** 0.5
        assert told[name] == pytest.approx(truth[name], abs=0.03 * truth[name] + chance), (dict(told), truth)
