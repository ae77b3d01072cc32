"""Milliseconds from a command to the start of its launcher, and to the end of ``MPI_Init``: what a job waits for.

Run: ``python tests/benchmarks/launch_cost.py MPICC [--repeats N] [--scalana PATH]``. The launcher is a stand-in that
notes the time and ends; what ``scalana run -- mpirun -n 2 PROGRAM`` looks at before it starts it is all there, the
program being one of MPICC's. In turns with it the same command alone, and a program of Python that does nothing but
start the launcher. Then the ``mpirun`` beside MPICC starts the program, of which rank 0 notes the time, and a pair is a
run without and one with ``scalana run``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.mpi_overhead import mpirun  # noqa: E402

_NOTE = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static int note(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    FILE *file = fopen(getenv("STARTED"), "w");
    return !file || fprintf(file, "%lld", now.tv_sec * 1000000000LL + now.tv_nsec) < 0 || fclose(file);
}
"""
_LAUNCHER = f"{_NOTE}int main(void) {{ return note(); }}\n"
_PROGRAM = f"""\
#include <mpi.h>
{_NOTE}int main(int count, char **words) {{
    int rank = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return (rank == 0 && note()) || MPI_Finalize();
}}
"""
_PLAIN = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"


def wait_ms(words: list[str], folder: Path) -> float:
    """Milliseconds from the start of a command to what is noted."""
    stamp = folder / "started"
    stamp.unlink(missing_ok=True)
    begin = time.monotonic_ns()
    subprocess.run(words, env={**os.environ, "STARTED": str(stamp)}, check=True, stderr=subprocess.DEVNULL)
    return (int(stamp.read_text()) - begin) * 1e-6


def in_turns(commands: dict[str, list[str]], folder: Path, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each command, several times."""
    waits: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(repeats + 2):
        for name, words in commands.items():
            found = wait_ms(words, folder)
            if number >= 2:  # before that, files are read and the recorder is compiled
                waits[name].append(found)
    return waits


def show(name: str, values: list[float]) -> None:
    """A line of the table."""
    print(f"{name:34} {min(values):7.1f} {statistics.median(values):7.1f} {max(values):7.1f}")


def compile_c(compiler: str, source: str, program: Path) -> str:
    """Compile a program; returns its path."""
    program.with_suffix(".c").write_text(source)
    subprocess.run([compiler, "-O1", "-o", str(program), str(program.with_suffix(".c"))], check=True)
    return str(program)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mpicc", help="the compiler of an MPI")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--scalana", default=str(Path(sys.executable).with_name("scalana")), help="program to time")
    options = parser.parse_args()
    compiler, scalana = os.path.abspath(options.mpicc), os.path.abspath(options.scalana)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        os.chdir(folder)
        launcher = compile_c("cc", _LAUNCHER, folder / "mpirun")
        program = compile_c(compiler, _PROGRAM, folder / "program")
        job = [launcher, "-n", "2", program]
        commands = {
            "the launcher alone": job,
            "from an empty program of Python": [sys.executable, "-c", _PLAIN, *job],
            "from scalana run": [scalana, "run", "--no-report", "--", *job],
        }
        begins = in_turns(commands, folder, options.repeats)
        job = [*mpirun(Path(compiler).parent, ranks=2), program]
        pair = {"alone": job, "with": [scalana, "run", "--no-report", "--", *job]}
        inits = in_turns(pair, folder, options.repeats)
    print(f"{'ms to the start of the launcher':34} {'least':>7} {'median':>7} {'most':>7}")
    for name, values in begins.items():
        show(name, values)
    show("more to the end of MPI_Init", [with_ - alone for alone, with_ in zip(*inits.values(), strict=True)])


if __name__ == "__main__":
    main()
