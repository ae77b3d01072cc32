"""What recording costs an MPI program that makes very many calls, and what it costs at the start.

    python tests/benchmarks/mpi_overhead.py [--mpi FOLDER] [--rates CALLS ...] [--starts N]

Compiles ``mpi_calls.c`` with the MPI's own compiler. A rank does a fixed amount of work between its calls, so that it
makes about RATE calls a second of its own CPU time; it talks to itself, so that no waiting hides the cost. At every
rate, several pairs of jobs with and without recording are started, and the two of a pair take turns of a fifth of a
second (the other one is stopped). What is compared are the CPU seconds of the process, its sampler's and writer's
included, in turns that follow each other; the table shows the median of these ratios, over all pairs, with a confidence
interval of the median. ``--check`` puts a second job without recording in place of the recorded one.

A stopped job gains credit for writing calls as if it ran, so the limit of written calls a second is set to half.

For the start, jobs that do nothing but MPI_Init and MPI_Finalize run with and without recording in turns: CPU seconds
of the launcher and the rank, and wall seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scalana.launch import environment, mpi_environment  # noqa: E402
from tests.benchmarks.ratios import interval, ratio_line  # noqa: E402

PROGRAM = Path(__file__).with_name("mpi_calls.c")
CALLS = 4
"""MPI calls in one round of the program."""
ADDRESS = "SCALANA_BENCHMARK_TURNS"
"""Variable with the socket of the benchmark, for its ranks."""
CALLS_HZ = 10_000
"""Calls a second that are written one by one (runtime/mpi/agent.c)."""
TURN_S = 0.2
WARM_TURNS = 6
"""Turns that are not looked at: in them the calls are still written one by one, for the most part."""


def launcher(folder: Path) -> list[str]:
    version = subprocess.run([folder / "mpirun", "--version"], capture_output=True, text=True).stdout
    more = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version or "prrte" in version else []
    return [str(folder / "mpirun"), *more, "-n", "1"]


@dataclass
class Job:
    """A job of one rank that takes turns."""

    started: subprocess.Popen[bytes]
    connection: socket.socket
    pid: int

    @classmethod
    def start(cls, words: list[str], env: dict[str, str], listener: socket.socket) -> Job:
        started = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
        connection = listener.accept()[0]
        job = cls(started, connection, 0)
        job.pid = int(job.line())
        os.kill(job.pid, signal.SIGSTOP)
        return job

    def line(self) -> str:
        text = b""
        while not text.endswith(b"\n"):
            part = self.connection.recv(96)
            if not part:
                raise SystemExit("a job ended before its turn")
            text += part
        return text.decode()

    def turn(self) -> float:
        """CPU seconds of a block."""
        os.kill(self.pid, signal.SIGCONT)
        self.connection.send(b"g")
        _, cpu = self.line().split()
        os.kill(self.pid, signal.SIGSTOP)
        return float(cpu)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.connection.close()
        self.started.wait(60)


class Measurement:
    """Jobs of one MPI, with and without recording."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.plain_env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        self.work = work
        self.program = str(work / "mpi_calls")
        subprocess.run([folder / "mpicc", "-O2", "-g", PROGRAM, "-o", self.program], check=True)
        self.start_words = launcher(folder)
        self.runs = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(work / "turns"))
        self.listener.listen()

    def words(self, *arguments: int) -> list[str]:
        return [*self.start_words, self.program, *map(str, arguments)]

    def recorded_env(self) -> dict[str, str]:
        """As ``scalana run`` makes it."""
        self.runs += 1
        folder = self.work / f"run{self.runs}"
        folder.mkdir()
        env, notes = mpi_environment(self.words(), environment(str(folder), 200.0, self.plain_env))
        if notes:
            raise SystemExit("\n".join(notes))
        return env

    def unit_s(self) -> float:
        """CPU seconds of one unit of work between the calls."""
        done = subprocess.run(
            self.words(10_000, 20_000), capture_output=True, text=True, env=self.plain_env, check=True
        )
        return float(done.stdout.split()[1]) / (10_000 * 20_000)

    def overhead(self, rate: int, unit_s: float, pairs: int, turns: int, check: bool) -> tuple[float, list[float]]:
        """Calls a CPU second without recording, and the ratios of CPU seconds with to without."""
        ratios: list[float] = []
        alone: list[float] = []
        amount, rounds = max(round(CALLS / rate / unit_s), 1), max(round(TURN_S * rate / CALLS), 1)
        words = self.words(rounds, amount)
        address = {ADDRESS: str(self.work / "turns")}
        for _ in range(pairs):
            env = self.plain_env if check else {"SCALANA_CALLS_HZ": str(CALLS_HZ // 2), **self.recorded_env()}
            plain = Job.start(words, {**self.plain_env, **address}, self.listener)
            recorded = Job.start(words, {**env, **address}, self.listener)
            for number in range(WARM_TURNS + turns):
                order = (plain, recorded) if number % 2 else (recorded, plain)
                cpu = {id(job): job.turn() for job in order}
                if number >= WARM_TURNS:
                    ratios.append(cpu[id(recorded)] / cpu[id(plain)])
                    alone.append(cpu[id(plain)])
            plain.end()
            recorded.end()
        return rounds * CALLS / statistics.median(alone), ratios

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
    parser.add_argument("--rates", type=int, nargs="*", default=[10_000, 100_000, 300_000], help="calls a CPU second")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of jobs at every rate")
    parser.add_argument("--turns", type=int, default=25, help="turns of every pair")
    parser.add_argument("--starts", type=int, default=20, help="jobs that do nothing, with and without")
    parser.add_argument("--check", action="store_true", help="compare two jobs without recording")
    options = parser.parse_args()
    found = options.mpi or Path(shutil.which("mpicc") or sys.exit("no mpicc in PATH")).parent
    with tempfile.TemporaryDirectory() as name:
        jobs = Measurement(found, Path(name))
        unit_s = jobs.unit_s()
        for rate in options.rates:
            reached, ratios = jobs.overhead(rate, unit_s, options.pairs, options.turns, options.check)
            extra_ns = (statistics.median(ratios) - 1) / reached * 1e9
            print(
                f"{reached:9,.0f} calls a CPU second, {ratio_line('CPU', ratios)}, {extra_ns:.0f} ns a call", flush=True
            )
        if options.starts:
            for kind, more in zip(("CPU", "wall"), jobs.starts(options.starts), strict=True):
                low, high, confidence = interval(more)
                print(
                    f"start-up, {kind}: {statistics.median(more) * 1e3:.0f} ms more "
                    f"[{low * 1e3:.0f}, {high * 1e3:.0f}] at {confidence:.0%} of {len(more)} pairs"
                )


if __name__ == "__main__":
    main()
