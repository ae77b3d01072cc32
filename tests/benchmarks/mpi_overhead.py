"""What recording costs an MPI program that makes very many calls, and what it costs at the start.

    python tests/benchmarks/mpi_overhead.py [--mpi FOLDER] [--rates CALLS ...] [--starts N]

Compiles ``mpi_calls.c`` with the MPI's own compiler. A rank does a fixed amount of work between its calls, so that it
makes about RATE calls a second of its own CPU time; it talks to itself, so that no waiting hides the cost. At every
rate, recording is taken out of its process and put back in turns of a third of a second, as ``program_overhead.py``
does with any program; ``--states`` says what is compared, ``--processes`` in how many of them.

While it is out, credit for writing calls is gained as ever, so the limit of written calls a second is set to half.

Then single calls, in a loop and with caches that are full of other things (``mpi_call_cost.c``): what the wrapped ones
take longer than the library's own, which take turns with them, written or only counted.

For the start, jobs that do nothing but MPI_Init and MPI_Finalize run with and without recording in turns: CPU seconds
of the launcher and the rank, and wall seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scalana.job.launch import environment, mpi_environment  # noqa: E402
from tests.benchmarks.program_overhead import WINDOWS, Options, measure, show  # noqa: E402
from tests.benchmarks.ratios import interval  # noqa: E402

PROGRAM = Path(__file__).with_name("mpi_calls.c")
CALL_COST = Path(__file__).with_name("mpi_call_cost.c")
CALLS = 4
"""MPI calls in one round of the program."""
WINDOW_S = 0.05
WARM_ROUNDS = 6
"""Rounds that are not looked at: in them the calls are still written one by one, for the most part."""


def mpirun(folder: Path, ranks: int = 1) -> list[str]:
    """The command before a program's name, as root too."""
    version = subprocess.run([folder / "mpirun", "--version"], capture_output=True, text=True).stdout
    more = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version or "prrte" in version else []
    return [str(folder / "mpirun"), *more, "-n", str(ranks)]


class Measurement:
    """Jobs of one MPI, with and without recording."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.plain_env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        self.work = work
        self.program = str(work / "mpi_calls")
        self.compiler = [str(folder / "mpicc"), "-O2", "-g"]
        subprocess.run([*self.compiler, PROGRAM, "-o", self.program], check=True)
        self.start_words = mpirun(folder)
        self.runs = 0

    def words(self, *arguments: int) -> list[str]:
        return [*self.start_words, self.program, *map(str, arguments)]

    def recorded_env(self) -> dict[str, str]:
        """As ``scalana run`` makes it."""
        self.runs += 1
        folder = self.work / f"run{self.runs}"
        folder.mkdir()
        _, env, notes = mpi_environment(self.words(), environment(str(folder), 200.0, self.plain_env))
        if notes:
            raise SystemExit("\n".join(notes))
        return env

    def unit_s(self) -> float:
        """CPU seconds of one unit of work between the calls."""
        done = subprocess.run(
            self.words(10_000, 20_000), capture_output=True, text=True, env=self.plain_env, check=True
        )
        return float(done.stdout) / (10_000 * 20_000)

    def overhead(self, rate: int, unit_s: float, rounds: int, processes: int, states: str) -> None:
        """Print what recording costs at about so many calls a CPU second."""
        amount, calls = max(round(CALLS / rate / unit_s), 1), max(round(WINDOW_S * rate / CALLS), 1)
        iterations = calls * WINDOWS * (len(states) * (rounds + WARM_ROUNDS) + 1)
        with mock.patch.dict(os.environ, self.plain_env):
            options = Options("MPI_Allreduce", calls, states)
            words, cache = self.words(iterations, amount), self.work / "cache"
            seconds = [measure(words, options, cache)[:, WARM_ROUNDS:] for _ in range(processes)]
        print(f"{calls * CALLS / np.median(seconds[0][:, :, 0, :, 0]):,.0f} calls a CPU second:")
        show(seconds, states)

    def single_calls(self) -> None:
        """Print what recording adds to single calls."""
        program = str(self.work / "mpi_call_cost")
        subprocess.run([*self.compiler, CALL_COST, "-o", program], check=True)
        for megabytes in (0, 4):
            for what, limit in (("counted", "1"), ("written", "1e9")):
                env = {**self.recorded_env(), "SCALANA_CALLS_HZ": limit, "SCALANA_BUDGET_BYTES": str(1 << 30)}
                print(f"calls that are {what}, {megabytes} MiB read before each:", flush=True)
                subprocess.run([*self.start_words, program, "1000", str(megabytes)], env=env, check=True)

    def starts(self, count: int) -> tuple[list[float], list[float]]:
        """CPU and wall seconds that recording adds to jobs that do nothing."""

        def once(env: dict[str, str]) -> tuple[float, float]:
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(self.words(0, 0), env=env, check=True, stdout=subprocess.DEVNULL)
            wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall

        cpu, wall = [], []
        for number in range(count):
            envs = [self.plain_env, self.recorded_env()]
            times = [once(env) for env in (envs if number % 2 else envs[::-1])]
            plain, recorded = times if number % 2 else times[::-1]
            cpu.append(recorded[0] - plain[0])
            wall.append(recorded[1] - plain[1])
        return cpu, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", type=Path, help="folder with mpicc and mpirun (default: of the first mpicc in PATH)")
    parser.add_argument(
        "--rates", type=int, nargs="*", default=[1_000, 10_000, 100_000, 300_000], help="calls a CPU second"
    )
    parser.add_argument("--rounds", type=int, default=40, help="turns with and without at every rate, in a process")
    parser.add_argument("--processes", type=int, default=3, help="processes at every rate (default: 3)")
    parser.add_argument("--starts", type=int, default=20, help="jobs that do nothing, with and without")
    parser.add_argument("--single", action=argparse.BooleanOptionalAction, default=True, help="measure single calls")
    parser.add_argument("--states", default="03", help="what to compare, see program_overhead.py (default: 03)")
    options = parser.parse_args()
    found = options.mpi or Path(shutil.which("mpicc") or sys.exit("no mpicc in PATH")).parent
    with tempfile.TemporaryDirectory() as name:
        jobs = Measurement(found, Path(name))
        unit_s = jobs.unit_s()
        for rate in options.rates:
            jobs.overhead(rate, unit_s, options.rounds, options.processes, options.states)
        if options.single:
            jobs.single_calls()
        if options.starts:
            for kind, more in zip(("CPU", "wall"), jobs.starts(options.starts), strict=True):
                low, high, confidence = interval(more)
                print(
                    f"start-up, {kind}: {statistics.median(more) * 1e3:.0f} ms more "
                    f"[{low * 1e3:.0f}, {high * 1e3:.0f}] at {confidence:.0%} of {len(more)} pairs"
                )


if __name__ == "__main__":
    main()
