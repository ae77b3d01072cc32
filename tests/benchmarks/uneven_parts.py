"""What is predicted for parts of equal edges, and what really cutting a graph so saves: ``power_law_graph.py``.

Run: python -m tests.benchmarks.uneven_parts FOLDER
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
SAMPLE = Path(__file__).parents[2] / "samples" / "power_law_graph.py"


def job(record: Path, *options: str) -> float:
    """Seconds that the loop of a recorded job takes."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    done = subprocess.run([*run, *launch, str(SAMPLE), *options], stdout=subprocess.PIPE, text=True, check=True)
    (seconds,) = re.findall(r"^loop seconds: ([\d.]+)$", done.stdout, re.MULTILINE)
    return float(seconds)


def main() -> None:
    folder = Path(sys.argv[1])
    before_s, after_s, predicted_s, kinds = [], [], [], []
    for number in range(TRIES):
        before_s.append(job(folder / str(number)))
        after_s.append(job(folder / f"{number}-fixed", "--fix"))
        first = scalana.analyze(folder / str(number)).findings[0]
        kinds.append([first.kind, first.ranks])
        predicted_s.append(first.saving_s)
    measured_s = statistics.median(before_s) - statistics.median(after_s)
    error = abs(statistics.median(predicted_s) / measured_s - 1.0)
    found = {"kinds": kinds, "before_s": before_s, "after_s": after_s, "predicted_s": predicted_s}
    print(json.dumps({**found, "measured_s": measured_s, "error": error}, indent=2))


if __name__ == "__main__":
    main()
