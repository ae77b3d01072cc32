"""What recording costs an MPI program of any kind, measured within its own processes.

    python tests/benchmarks/program_overhead.py --marker MPI_Allreduce --calls N -- mpirun -n 2 PROGRAM ...

The program is recorded as ever, but in turns: in some, recording is taken out of the process (``mpi_turns.c``), so that
calls go straight to the library and no thread is sampled. A turn is some windows of as many calls of one function of
MPI (the marker, best one that all ranks call in every iteration), so that all windows hold the same work. Compared are
the CPU seconds of windows, user and system, of all threads of a rank, the sampler's and the writer's included. So
neither start-up, nor the place of memory of one process or another, can be mistaken for a cost.

The table shows the ratio of what an undisturbed window takes, the lower quartile of all, with a 95 % interval by
resampling of turns: whatever else the machine does only makes windows longer, while the sampler comes by several times
in each. A window should take a tenth of a second.

States to compare, one digit each: 0 nothing is recorded, 1 calls, 2 samples, 3 both. The first one is what the others
are compared to; ``--states 003`` has a check of the method, two turns without.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scalana.launch import environment, mpi_environment  # noqa: E402
from scalana.runtime.mpi import build  # noqa: E402

TURNS = Path(__file__).with_name("mpi_turns.c")
NAMES = {"0": "without", "1": "calls only", "2": "samples only", "3": "recorded"}
RESAMPLES = 1000
QUANTILE = 0.25
WARM_WINDOWS, WINDOWS = 5, 15
"""Of each turn: those that are not looked at, in which the sampler settles, and all."""


@dataclass(frozen=True)
class Options:
    """What windows are, and what happens in them."""

    marker: str
    """Function of MPI that windows are counted by."""
    calls: int
    """Of the marker in a window."""
    states: str
    rate: float = 200.0
    """Samples a second."""


def job_environment(command: list[str], work: Path, cache: Path, rate: float) -> dict[str, str]:
    """As ``scalana run`` makes it, with a recorder that has the turns in it."""
    compile_sources = build._compile

    def with_turns(compiler: str, sources: list[str], target: str, folder: str, more: list[str]) -> None:
        if target.endswith("-preload.so"):
            sources = [*sources, str(TURNS)]
        compile_sources(compiler, sources, target, folder, more)

    env = {**environment(str(work / "run"), rate, os.environ), "SCALANA_CACHE": str(cache)}
    env["SCALANA_BUDGET_BYTES"] = str(1 << 30)
    Path(work, "run").mkdir()
    with mock.patch.object(build, "_compile", with_turns):
        env, notes = mpi_environment(command, env)
    if notes:
        raise SystemExit("\n".join(notes))
    return env


def read_turns(work: Path, states: int) -> np.ndarray:
    """``[ranks, rounds, states, windows, CPU or wall]`` seconds.

    Raises:
        SystemExit: there is no turn of every state.
    """
    ranks = []
    for path in sorted(work.glob("turns-*")):
        rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        rounds = np.full((len(rows) // states, states, WINDOWS - WARM_WINDOWS, 2), np.nan)
        for number, (state, *seconds) in enumerate(rows[: len(rounds) * states]):
            rounds[number // states, int(state)] = np.array(seconds, dtype=float).reshape(-1, 2)
        ranks.append(rounds)
    shortest = min((len(rounds) for rounds in ranks), default=0)
    if shortest == 0:
        raise SystemExit("no turn was ended: make windows shorter, or the run longer")
    return np.array([rounds[:shortest] for rounds in ranks])


def ratio(some: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Ratio of what an undisturbed window takes (``[ranks, rounds, windows]``), summed over ranks, and its interval."""

    def undisturbed(windows: np.ndarray) -> float:
        return float(np.quantile(windows.reshape(len(windows), -1), QUANTILE, axis=1).sum())

    choose = np.random.default_rng(0)
    rounds = some.shape[1]
    picked = [choose.integers(0, rounds, rounds) for _ in range(RESAMPLES)]
    ratios = [undisturbed(some[:, these]) / undisturbed(others[:, these]) for these in picked]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return undisturbed(some) / undisturbed(others), float(low), float(high)


def measure(command: list[str], options: Options, cache: Path | None = None) -> np.ndarray:
    """Seconds of windows of a job, ``[ranks, rounds, states, windows, CPU or wall]``.

    Raises:
        SystemExit: the job failed, or was too short for a single turn.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        env = job_environment(command, work, cache or work / "cache", options.rate)
        env["SCALANA_TURNS"] = f"{options.marker} {options.calls} {WARM_WINDOWS} {WINDOWS} {options.states}"
        env["SCALANA_TURNS_FILE"] = str(work / "turns")
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return read_turns(work, len(options.states))


def show(seconds: np.ndarray, states: str) -> None:
    """Print the table."""
    ranks, rounds = seconds.shape[:2]
    alone = np.quantile(seconds[:, :, 0, :, 0], [0.05, 0.25, 0.5, 0.95]) * 1e3
    print(
        f"{ranks} ranks, {rounds} turns of {WINDOWS - WARM_WINDOWS} windows; one without recording takes "
        f"{alone[1]:.1f} ms of CPU (median {alone[2]:.1f}, {alone[0]:.1f} to {alone[3]:.1f}); "
        f"load {os.getloadavg()[0]:.1f}"
    )
    for index, letter in enumerate(states[1:], start=1):
        for part, what in enumerate(("CPU", "wall")):
            middle, low, high = ratio(seconds[:, :, index, :, part], seconds[:, :, 0, :, part])
            print(f"{NAMES[letter]:>12}, {what:4}: {middle:.4f} [{low:.4f}, {high:.4f}]", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--marker", default="MPI_Allreduce", help="function of MPI that windows are counted by")
    parser.add_argument("--calls", type=int, required=True, help="its calls in a window")
    parser.add_argument("--states", default="03", help="what to compare (default: 03)")
    parser.add_argument("--rate", type=float, default=200, help="samples a second (default: 200)")
    parser.add_argument("--cache", type=Path, help="folder to keep the compiled recorder in (default: it is not kept)")
    parser.add_argument("command", nargs="+", help="the job, after --")
    given = parser.parse_args()
    options = Options(given.marker, given.calls, given.states, given.rate)
    show(measure(given.command, options, given.cache), options.states)


if __name__ == "__main__":
    main()
