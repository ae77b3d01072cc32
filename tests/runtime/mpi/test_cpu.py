"""CPU time per function, beside what `perf` counts in the same run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME

from .conftest import Mpi, under_one_mpi

pytestmark = [pytest.mark.slow, pytest.mark.measured]
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


@pytest.mark.long
@under_one_mpi
def test_cpu_time_per_function_agrees_with_perf(mpi: Mpi) -> None:
    program = mpi.compile("hot_functions.c", "-lm", name="hot")
    data = mpi.work / "perf.data"
    count = [perf(), "record", "-q", "-e", "cpu-clock", "-F", str(RATE_HZ), "-o", str(data), "--"]
    words = [sys.executable, "-m", "scalana", "run", "-o", "run", "--no-report", "--rate", str(RATE_HZ), "--"]
    words += [*count, f"{mpi.folder}/mpirun", *mpi.options, "-n", "2", str(program)]
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


def test_cpu_time_beside_calls_is_not_taken_for_theirs(mpi: Mpi) -> None:
    # Of calls that follow each other at once, and of ranks that lose their cores in them.
    records = RunFolder(mpi.record(6, mpi.compile("wait_bursts.c"))).processes()
    truth = {int(rank): float(computing) for rank, computing in map(str.split, mpi.output.splitlines())}
    for record in records:
        events = record.events
        order = np.argsort(np.asarray(events.enter_ns), kind="stable")
        enter, inside = (np.asarray(c, dtype=np.int64)[order] for c in (events.cpu_enter_ns, events.cpu_ns))
        posts = np.asarray(events.operation)[order] == BY_NAME["recv"].code
        first = np.flatnonzero(posts[1:] & ~posts[:-1]) + 1
        assert len(first) == 150
        told = 1e-9 * (enter[first] - (enter + inside)[first - 1]).sum()
        expected = truth[int(record.meta["rank"])]
        assert told == pytest.approx(expected, rel=0.03), (record.meta["rank"], told, expected)
