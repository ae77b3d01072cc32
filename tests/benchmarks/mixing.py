"""Predicted steps of other ways to load an expensive source, and what these really bring: ``mixed_job.py``.

Run: python -m tests.benchmarks.mixing FOLDER [--mixture KIND] [--python PROGRAM]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import scalana
from scalana.detectors.when.step_marks import steps_of

RANKS, TRIES = 4, 3
WAYS = {"dealt-evenly": ("--fix",), "more-workers": ("--workers", "2")}
JOB = Path(__file__).parent / "mixed_job.py"


def recorded(record: Path, python: str, *options: str) -> scalana.Report:
    """The report of a job with these options."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--"]
    launch = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    subprocess.run([*run, *launch, str(JOB), *options], stdout=subprocess.DEVNULL, check=True)
    return scalana.analyze(record)


def step_s(report: scalana.Report) -> float:
    """What a step of the steady state takes, the mean."""
    steps = steps_of(report.ppg)
    assert steps is not None
    start, end = (times[steps.steady()] for times in steps.on_all_ranks())
    return float((end[-1] - start[0]).mean()) / len(start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mixture", default="concatenated")
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    folder, how = arguments.folder, (arguments.python, "--mixture", arguments.mixture)
    sources, lost_s, predicted = [], [], {way: [] for way in WAYS}
    for number in range(TRIES):
        first = recorded(folder / f"now-{number}", *how).findings[0]
        known = first.evidence.source
        sources.append((first.kind, known.source if known is not None else ""))
        lost_s.append(first.lost_s)
        for one in known.other_loading if known is not None else ():
            predicted.get(one.change, []).append(one.step_s)
    found = {"sources": sources, "lost_s": lost_s, "ways": {}}
    for way, options in WAYS.items():
        measured = [step_s(recorded(folder / f"{way}-{number}", *how, *options)) for number in range(TRIES)]
        error = statistics.median(predicted[way]) / statistics.median(measured) - 1.0 if predicted[way] else 1.0
        found["ways"][way] = {"predicted_s": predicted[way], "measured_s": measured, "error": abs(error)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
