"""What recording costs an MPI program of any kind, measured within its own processes.

    python tests/benchmarks/program_overhead.py --marker MPI_Allreduce --calls N -- mpirun -n 2 PROGRAM ...

The program is recorded as ever, but in turns: in some, recording is taken out of the process (``mpi_turns.c``), so that
calls go straight to the library and no thread is sampled. A turn is some windows of as many calls of one function of
MPI (the marker, best one that all ranks call in every iteration), so that all windows hold the same work. Compared are
the CPU seconds of turns, user and system, of all threads of a rank, the sampler's and the writer's included. So
neither start-up, nor the place of memory of one process or another, can be mistaken for a cost.

Turns are short, a third of a second if a window takes 50 ms: a machine that is shared changes its speed from second to
second. The table shows the ratio of a turn with to the turn without in the same round, the mean of all but the lowest
and highest fifth, with a 95 % interval by resampling of rounds. ``--processes`` runs the program several times, for one
process differs from the next: then the interval is by resampling of processes and rounds, and each process is shown.

Of very many calls as many are written in a second of the turns with recording as if these were the whole run.

States to compare, one digit each: 0 nothing is recorded, 1 calls, 2 samples, 3 both. The first one is what the others
are compared to; ``--states 003`` has a check of the method, two turns without.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scalana.job.launch import environment, mpi_environment  # noqa: E402
from scalana.runtime.mpi import build  # noqa: E402

TURNS = Path(__file__).with_name("mpi_turns.c")
NAMES = {"0": "without", "1": "calls only", "2": "samples only", "3": "recorded"}
RESAMPLES = 1000
TRIMMED = 0.2
"""Part of the ratios that is left out on either side: in them something else disturbed one of the turns."""
WARM_WINDOWS, WINDOWS = 1, 6
"""Of each turn: those that are not looked at, and all."""


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


def calls_hz(states: str) -> int:
    """Calls a second that a process may write one by one, so that as many are written in turns that record calls as in
    a run that does so all the time: what may be written adds up in other turns, too."""
    found = re.search(
        r"#define CALLS_HZ (\d+)", (ROOT / "runtime" / "mpi" / "agent" / "agent.c").read_text(encoding="utf-8")
    )
    assert found
    return max(int(found[1]) * sum(state in "13" for state in states) // len(states), 1)


def job_environment(command: list[str], work: Path, cache: Path, options: Options) -> dict[str, str]:
    """As ``scalana run`` makes it, with a recorder that has the turns in it."""
    compile_sources = build._compile

    def with_turns(compiler: str, sources: list[str], target: str, *more: Any) -> None:
        if target.endswith("-preload.so"):
            sources = [*sources, str(TURNS)]
        compile_sources(compiler, sources, target, *more)

    env = {**environment(str(work / "run"), options.rate, os.environ), "SCALANA_CACHE": str(cache)}
    env["SCALANA_BUDGET_BYTES"] = str(1 << 30)
    env["SCALANA_CALLS_HZ"] = str(calls_hz(options.states))
    Path(work, "run").mkdir()
    with mock.patch.object(build, "_compile", with_turns):
        _, env, notes = mpi_environment(command, env)
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


def ratios(seconds: np.ndarray, state: int) -> np.ndarray:
    """Of turns in a state to those in the first one, all ranks together (``[rounds, CPU or wall]``)."""
    turns = seconds.sum(axis=(0, 3))
    return np.asarray(turns[:, state] / turns[:, 0])


def middle(values: np.ndarray) -> np.ndarray:
    """Mean along the first axis of all but the lowest and highest ones."""
    cut = int(len(values) * TRIMMED)
    return np.asarray(np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0))


def interval(processes: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratio over all rounds (``[rounds, ...]`` of each process), and its interval."""
    choose = np.random.default_rng(0)
    resampled = []
    for _ in range(RESAMPLES):
        some = choose.integers(0, len(processes), len(processes))
        rounds = [processes[i][choose.integers(0, len(processes[i]), len(processes[i]))] for i in some]
        resampled.append(middle(np.concatenate(rounds)))
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return middle(np.concatenate(processes)), low, high


def measure(command: list[str], options: Options, cache: Path | None = None) -> np.ndarray:
    """Seconds of windows of a job, ``[ranks, rounds, states, windows, CPU or wall]``.

    Raises:
        SystemExit: the job failed, or was too short for a single turn.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        env = job_environment(command, work, cache or work / "cache", options)
        env["SCALANA_TURNS"] = f"{options.marker} {options.calls} {WARM_WINDOWS} {WINDOWS} {options.states}"
        env["SCALANA_TURNS_FILE"] = str(work / "turns")
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return read_turns(work, len(options.states))


def show(processes: list[np.ndarray], states: str) -> None:
    """Print the table of the seconds that were measured in each process."""
    ranks, rounds = processes[0].shape[0], sum(seconds.shape[1] for seconds in processes)
    alone = np.concatenate([seconds[:, :, 0, :, 0].sum(axis=2).ravel() for seconds in processes])
    low, median, high = np.quantile(alone, [0.05, 0.5, 0.95]) * 1e3
    print(
        f"{len(processes)} x {ranks} ranks, {rounds} rounds; a turn without recording takes {median:.0f} ms of CPU "
        f"({low:.0f} to {high:.0f}); load {os.getloadavg()[0]:.1f}"
    )
    for index, letter in enumerate(states[1:], start=1):
        each = [ratios(seconds, index) for seconds in processes]
        all_of_them, low, high = interval(each)
        for part, what in enumerate(("CPU", "wall")):
            single = " ".join(f"{middle(of)[part]:.3f}" for of in each) if len(each) > 1 else ""
            print(
                f"{NAMES[letter]:>12}, {what:4}: {all_of_them[part]:.4f} [{low[part]:.4f}, {high[part]:.4f}] {single}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--marker", default="MPI_Allreduce", help="function of MPI that windows are counted by")
    parser.add_argument("--calls", type=int, required=True, help="its calls in a window")
    parser.add_argument("--states", default="03", help="what to compare (default: 03)")
    parser.add_argument("--rate", type=float, default=200, help="samples a second (default: 200)")
    parser.add_argument("--processes", type=int, default=1, help="how often to run the job (default: 1)")
    parser.add_argument("--cache", type=Path, help="folder to keep the compiled recorder in (default: it is not kept)")
    parser.add_argument("command", nargs="+", help="the job, after --")
    given = parser.parse_args()
    options = Options(given.marker, given.calls, given.states, given.rate)
    show([measure(given.command, options, given.cache) for _ in range(given.processes)], options.states)


if __name__ == "__main__":
    main()
