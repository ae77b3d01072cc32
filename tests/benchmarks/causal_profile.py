"""The causal profile against the truth: ten places of three programs, each really made twice as fast.

    python -m tests.benchmarks.causal_profile [--program ranks]

The programs sleep in place of what they would compute, so that cores do not matter; an allreduce moves half the bytes.
Prints a Markdown table: what a step takes by the program's own clock, what the profile of that run predicts with a
place twice as fast, and what a step takes then.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from scalana import api
from scalana.detectors.limits.causal_profile import LIMITS, PlaceProfile

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "jobs" / "programs" / "ten_places.py"
PROGRAMS = {
    "ranks": (2, ("forward", "backward", "allreduce", "optimiser", "serial")),
    "loader": (1, ("loader", "train", "log")),
    "pool": (1, ("pool", "update")),
}
"""Processes and places of each."""


def run(program: str, *arguments: str, folder: Path | None = None) -> float:
    """Run a program, recorded if a folder is given; returns the median seconds of its steps."""
    ranks = PROGRAMS[program][0]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    job = [sys.executable, *launch, str(FILE), program, *arguments]
    record = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--"] if folder else []
    done = subprocess.run([*record, *job], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def line_of(place: str) -> int:
    """The line of the program that a place stands in."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return 1 + next(number for number, text in enumerate(lines) if text.endswith(f"# <- {place}"))


def in_profile(place: str, report: api.Report) -> PlaceProfile | None:
    """The row of the causal profile that is about a place; None where it has none."""
    profile, line = report.analysis.section(LIMITS), line_of(place)
    for one in profile.places if profile is not None else ():
        first, last = one.location.lines(report.ppg.psg[max(one.location.vertex, 0)].place)
        if first <= line <= last:
            return one
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", choices=[*PROGRAMS], action="append", help="only these (default: all)")
    chosen = parser.parse_args().program or [*PROGRAMS]
    print("| place | program | a step, ms | predicted with half, ms | really, ms | error, % |")
    print("|---|---|---|---|---|---|")
    for program in chosen:
        with tempfile.TemporaryDirectory() as folder:
            step_s = run(program, folder=Path(folder) / "run")
            report = api.analyze(str(Path(folder) / "run"))
        for place in PROGRAMS[program][1]:
            found = in_profile(place, report)
            really_s = run(program, place, "0.5")
            predicted = f"{found.half_s * 1e3:.1f}" if found is not None else "no row"
            error = f"{100 * abs(found.half_s / really_s - 1):.1f}" if found is not None else "100"
            print(
                f"| {place} | {program} | {step_s * 1e3:.1f} | {predicted} | {really_s * 1e3:.1f} | {error} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
