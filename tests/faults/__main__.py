"""Runs jobs that something happens to, each with and without scalana, and prints what was different.

    python -m tests.faults 1000 [--at-once 2] [--only WORD] [--seed N]

Nothing may be: the exit status and the standard output are the same, no run hangs, and at most one second of the record
is missing before the fault. A trial that differs is tried twice more: it counts if it differs each time.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .program import TICKS
from .trial import ROOT, Judged, Tools, Trial, run_trial, tools_here, trials

_TRIES = 3
_SAID_EVERY = 20


def main(words: Sequence[str]) -> int:
    """Run them; returns 1 if anything was different."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int, nargs="?", default=100)
    parser.add_argument("--at-once", type=int, default=max(os.cpu_count() or 1, 1))
    parser.add_argument("--only", default="", help="trials whose job or fault contains this word")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(words)
    order = random.Random(asked.seed)
    ticks = [order.randrange(1, TICKS) for _ in range(64)]
    with tempfile.TemporaryDirectory(prefix="scalana-faults-") as work:
        tools = tools_here(ROOT / "build", Path(work))
        chosen = [one for one in trials(asked.runs, tools, ticks) if asked.only in f"{one.job} {one.name}"]
        with ThreadPoolExecutor(asked.at_once) as pool:
            judged = []
            for one in pool.map(lambda trial: judge(trial, tools), chosen):
                judged.append(one)
                if len(judged) % _SAID_EVERY == 0:
                    print(f"{len(judged)} of {len(chosen)} runs", file=sys.stderr, flush=True)
    print(table(judged))
    return int(any(one.wrong for one in judged))


def judge(trial: Trial, tools: Tools) -> Judged:
    """Run a trial; again if it is different, which a busy machine may do."""
    for attempt in range(_TRIES):
        found = run_trial(trial, tools)
        if not found.wrong:
            break
        print(f"{trial.job}, {trial.name}, tick {trial.tick}, try {attempt + 1}: {'; '.join(found.wrong)}",
              file=sys.stderr, flush=True)  # fmt: skip
    return found


def table(judged: Sequence[Judged]) -> str:
    """A row a fault, a column a job: how many runs, and how many of them were different."""
    jobs = list(dict.fromkeys(one.trial.job for one in judged))
    runs: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for one in judged:
        runs[one.trial.name][one.trial.job] += 1
        wrong[one.trial.name][one.trial.job] += bool(one.wrong)
    lines = [f"{'fault':<40}" + "".join(f"{job:>10}" for job in jobs)]
    for name in sorted(runs):
        cells = (f"{runs[name][job]}{f' ({wrong[name][job]} !)' if wrong[name][job] else ''}" for job in jobs)
        lines.append(f"{name:<40}" + "".join(f"{cell if cell != '0' else '·':>10}" for cell in cells))
    lost = [one.lost_s for one in judged if one.lost_s is not None]
    different = sum(bool(one.wrong) for one in judged)
    lines.append(f"{len(judged)} runs, each with and without scalana: {different} different")
    if lost:
        lines.append(f"of the record before the fault, at most {max(lost):.2f} s are missing, in {len(lost)} runs")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
