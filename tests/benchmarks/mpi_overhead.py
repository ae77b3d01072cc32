"""What recording costs an MPI program that makes very many calls: CPU seconds with and without, in turns.

    python tests/benchmarks/mpi_overhead.py [--mpi FOLDER] [--ranks N] [--pairs N] [--rate CALLS]

Compiles ``mpi_calls.c`` with the MPI's own compiler. Each rank does a fixed amount of work between its calls, chosen
so that it makes about RATE calls a second of its own CPU time. Times are CPU seconds of rank 0, by ``getrusage``: wall
time says little on a machine with other users. Ranks talk to themselves, so that no waiting hides the cost.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("mpi_calls.c")
CALLS = 4
"""MPI calls in one round of the program."""


def launcher(folder: Path) -> list[str]:
    version = subprocess.run([folder / "mpirun", "--version"], capture_output=True, text=True).stdout
    more = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version or "prrte" in version else []
    return [str(folder / "mpirun"), *more]


def cpu_seconds(words: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Of the calls and the work between them; and of the process up to there."""
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
    fields = done.stdout.split()
    return float(fields[0]), float(fields[4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", type=Path, help="folder with mpicc and mpirun (default: of the first mpicc in PATH)")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=7, help="runs with and without, in turns")
    parser.add_argument("--rate", type=int, default=100_000, help="calls a second of CPU time")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds of a run")
    options = parser.parse_args()
    found = options.mpi or Path(shutil.which("mpicc") or sys.exit("no mpicc in PATH")).parent
    env = {**os.environ, "PATH": f"{found}{os.pathsep}{os.environ['PATH']}"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "mpi_calls")
        subprocess.run([found / "mpicc", "-O2", "-g", PROGRAM, "-o", program], check=True)
        start = [*launcher(found), "-n", str(options.ranks), program]

        def run(rounds: int, amount: int, record: bool) -> tuple[float, float]:
            folder = tempfile.mkdtemp(dir=work)
            words = [*start, str(rounds), str(amount)]
            if record:
                words = [sys.executable, "-m", "scalana", "run", "-o", folder, "--no-report", "--", *words]
            return cpu_seconds(words, env)

        run(1000, 1000, record=True)  # compiles the recorder
        unit_s = run(20_000, 20_000, record=False)[0] / (20_000 * 20_000)
        amount = max(round(CALLS / options.rate / unit_s), 1)
        rounds = max(round(options.seconds * options.rate / CALLS), 1)
        runs = [(run(rounds, amount, False), run(rounds, amount, True)) for _ in range(options.pairs)]
        pairs = [(plain[0], recorded[0]) for plain, recorded in runs]
        starts = [recorded[1] - plain[1] for plain, recorded in runs]
    plain, recorded = (statistics.median(column) for column in zip(*pairs, strict=True))
    calls = rounds * CALLS
    shares = sorted(after / before - 1 for before, after in pairs)
    print(f"{calls / plain:,.0f} calls a CPU second a rank, {options.ranks} ranks, {options.pairs} pairs")
    print(f"CPU without {plain:.3f} s, with {recorded:.3f} s: {(recorded - plain) / calls * 1e9:.0f} ns a call")
    print(f"start-up {statistics.median(starts) * 1e3:.0f} ms of CPU more (from {min(starts) * 1e3:.0f} ms)")
    print(f"overhead {100 * statistics.median(shares):.2f} % (from {100 * shares[0]:.2f} to {100 * shares[-1]:.2f} %)")


if __name__ == "__main__":
    main()
