"""Runs jobs that something happens to, each with and without scalana, and prints what was different.

    python -m tests.faults 1000 [--folder DIR] [--document FILE] [--at-once 2] [--only WORD] [--seed N]

Nothing may be: the exit status and the standard output are the same, no run hangs, and at most one second of the record
is missing before the fault. A trial that differs is tried twice more: it counts if it differs each time. With a folder,
results are kept there, and the same command goes on where an earlier one was interrupted, as long as the sources are
the same.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from .kept import Kept, split, state_of_sources
from .program import TICKS
from .table import table, write_into
from .trial import ROOT, Judged, Tools, Trial, run_trial, tools_here, trials

_TRIES = 3
_SAID_EVERY = 20


def main(words: Sequence[str]) -> int:
    """Run them; returns 1 if anything was different."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int, nargs="?", default=100)
    parser.add_argument("--folder", type=Path, help="where results are kept, and taken from")
    parser.add_argument("--any-sources", action="store_true", help="count results of other states of the sources too")
    parser.add_argument("--document", type=Path, help="a file whose last part, of what was measured, is written")
    parser.add_argument("--at-once", type=int, default=max(os.cpu_count() or 1, 1))
    parser.add_argument("--only", default="", help="trials whose job or fault contains this word")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(words)
    order = random.Random(asked.seed)
    ticks = [order.randrange(1, TICKS) for _ in range(64)]
    with tempfile.TemporaryDirectory(prefix="scalana-faults-") as work:
        tools = tools_here(ROOT / "build", Path(work))
        chosen = [one for one in trials(asked.runs, tools, ticks) if asked.only in f"{one.job} {one.name}"]
        kept = Kept(asked.folder or Path(work), state_of_sources(), asked.any_sources)
        judged, missing = split(chosen, kept.results())
        if judged:
            say(f"{len(judged)} of {len(chosen)} runs are kept in {asked.folder}")
        for one in judge_all(missing, tools, asked.at_once):
            kept.add(one)
            judged.append(one)
            if len(judged) % _SAID_EVERY == 0:
                say(f"{len(judged)} of {len(chosen)} runs")
    print(table(judged))
    if asked.document:
        write_into(asked.document, judged)
    return int(any(one.wrong for one in judged))


def judge_all(missing: Sequence[Trial], tools: Tools, at_once: int) -> Iterator[Judged]:
    """Run some trials, several at once; each as soon as it is known."""
    with ThreadPoolExecutor(at_once) as pool:
        running = [pool.submit(judge, one, tools) for one in missing]
        try:
            for one in as_completed(running):
                yield one.result()
        finally:
            pool.shutdown(cancel_futures=True)


def judge(trial: Trial, tools: Tools) -> Judged:
    """Run a trial; again if it is different, which a busy machine may do."""
    for attempt in range(1, _TRIES + 1):
        found = run_trial(trial, tools)
        if not found.wrong:
            break
        say(f"{trial.job}, {trial.name}, tick {trial.tick}, try {attempt}: {'; '.join(found.wrong)}")
    return replace(found, tries=attempt)


def say(text: str) -> None:
    """Print how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
