"""Predicted savings of packing sequences by cost, and what really packing them saves: ``packed_job.py``.

Run: python -m tests.benchmarks.packing FOLDER
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import scalana

RANKS, TRIES = 4, 3
CASES = {"one rank": "--heavy=3", "another rank in each step": "--heavy=-1"}
JOB = Path(__file__).parent / "packed_job.py"


def job(record: Path, *options: str) -> float:
    """Seconds that a recorded job takes after its first step."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    done = subprocess.run([*run, *launch, str(JOB), *options], stdout=subprocess.PIPE, text=True, check=True)
    (seconds,) = re.findall(r"^([\d.]+) s$", done.stdout, re.MULTILINE)
    return float(seconds)


def case(folder: Path, *options: str) -> dict[str, object]:
    """What a report says of jobs with these options, and what packing really saves: medians of some tries."""
    before_s, after_s, predicted_s, kinds = [], [], [], []
    for number in range(TRIES):
        before_s.append(job(folder / str(number), *options))
        after_s.append(job(folder / f"{number}-packed", *options, "--pack=cost"))
        first = scalana.analyze(folder / str(number)).findings[0]
        kinds.append(first.kind)
        predicted_s.append(first.saving_s)
    measured_s = statistics.median(before_s) - statistics.median(after_s)
    return {
        "kinds": kinds,
        "before_s": before_s,
        "after_s": after_s,
        "predicted_s": predicted_s,
        "measured_s": measured_s,
        "error": abs(statistics.median(predicted_s) / measured_s - 1.0),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    print(json.dumps({name: case(folder / name.replace(" ", "-"), option) for name, option in CASES.items()}, indent=2))


if __name__ == "__main__":
    main()
