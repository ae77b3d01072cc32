"""Predicted savings of parts in zigzag under a causal mask, and what they really save: ``ring_job.py``.

Ranks share cores here, so attention is emulated by a sleep in proportion to the pairs that the mask lets through.

Run: python -m tests.benchmarks.rings FOLDER
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import scalana
from scalana.detectors.lengths.exchange_costs import HEAD_EXCHANGES

RANKS, STEPS, TRIES = 4, 6, 3
CASES = {
    "ring": ("--how=ring",),
    "gather": ("--how=gather",),
    "ring, zigzag": ("--how=ring", "--layout=zigzag"),
    "gather, zigzag": ("--how=gather", "--layout=zigzag"),
    "ulysses": ("--how=ulysses",),
    "ring, no mask": ("--how=ring", "--mask=full"),
}
"""The first two are uneven; zigzag is their remedy."""
REMEDY = {"ring": "ring, zigzag", "gather": "gather, zigzag"}
JOB = Path(__file__).parent / "ring_job.py"


def job(record: Path, *options: str) -> float:
    """Seconds of a step of a recorded job, on average without the first."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    job = [str(JOB), f"--steps={1 + STEPS}", *options]
    done = subprocess.run([*run, *launch, *job], stdout=subprocess.PIPE, text=True, check=True)
    (seconds,) = re.findall(r"^([\d.]+) s,", done.stdout, re.MULTILINE)
    return float(seconds) / STEPS


def found_in(record: Path) -> tuple[str | None, list[int], float, float | None]:
    """Kind and ranks of the first finding, the seconds by which a step would be shorter, and those of a step with a
    ring instead of all-to-alls."""
    found = scalana.analyze(record)
    exchanges = found.analysis.section(HEAD_EXCHANGES)
    ring_s = exchanges.ring_step_s if exchanges is not None else None
    if not found.findings:
        return None, [], 0.0, ring_s
    first = found.findings[0]
    steps = first.evidence.in_steps
    return first.kind, list(first.ranks), steps.step_s - steps.without_s, ring_s


def case(folder: Path, name: str) -> dict[str, list[object]]:
    """Some tries of one kind of job: seconds of its steps, and what its report says."""
    tries = []
    for number in range(TRIES):
        record = folder / f"{name}-{number}".replace(" ", "-")
        tries.append((job(record, *CASES[name]), *found_in(record)))
    columns = ("step_s", "kind", "ranks", "saving_s", "ring_s")
    return {column: list(values) for column, values in zip(columns, zip(*tries, strict=True), strict=True)}


def error(before: dict[str, list[object]], after: dict[str, list[object]]) -> float:
    """How far what was predicted to be saved in a step is from what the remedy really saves; by medians."""
    before_s, after_s, saving_s = map(statistics.median, (before["step_s"], after["step_s"], before["saving_s"]))
    return abs(saving_s / (before_s - after_s) - 1.0)


def ring_error(found: dict[str, dict[str, list[object]]]) -> float:
    """How far a step that was predicted with a ring instead of all-to-alls is from one really so; by medians."""
    predicted = [one for one in found["ulysses"]["ring_s"] if one is not None]
    return abs(statistics.median(predicted) / statistics.median(found["ring, zigzag"]["step_s"]) - 1.0)


def main() -> None:
    folder = Path(sys.argv[1])
    found = {name: case(folder, name) for name in CASES}
    errors = {name: error(found[name], found[remedy]) for name, remedy in REMEDY.items()}
    print(json.dumps({"cases": found, "errors": errors, "ring_error": ring_error(found)}, indent=2))


if __name__ == "__main__":
    main()
