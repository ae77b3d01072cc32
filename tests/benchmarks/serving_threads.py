"""What is predicted for the faster number of threads of a loop that generates, and what it really saves:
``generating_job.py``.

Run: python -m tests.benchmarks.serving_threads FOLDER
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import scalana

TRIES = 3
MANY = 8 * (os.cpu_count() or 1)
JOB = Path(__file__).parent / "generating_job.py"


def job(record: Path, threads: str) -> float:
    """Seconds that a recorded job takes after its first requests."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--", sys.executable, str(JOB)]
    done = subprocess.run([*run, "--threads", threads], stdout=subprocess.PIPE, text=True, check=True)
    (seconds,) = re.findall(r"^([\d.]+) s$", done.stdout, re.MULTILINE)
    return float(seconds)


def main() -> None:
    folder = Path(sys.argv[1])
    before_s, after_s, predicted_s, named = [], [], [], []
    for number in range(TRIES):
        before_s.append(job(folder / str(number), f"1,{MANY}"))
        after_s.append(job(folder / f"{number}-one", "1"))
        findings = [one for one in scalana.analyze(folder / str(number)).findings if one.kind == "serving-threads"]
        predicted_s.append(sum(one.saving_s for one in findings))
        plans = [one.evidence.thread_plan for one in findings]
        named.append([[plan.serving_phase, plan.plan_threads, plan.faster_threads] for plan in plans if plan])
    measured_s = statistics.median(before_s) - statistics.median(after_s)
    error = abs(statistics.median(predicted_s) / measured_s - 1.0)
    found = {"named": named, "many": MANY, "before_s": before_s, "after_s": after_s, "predicted_s": predicted_s}
    print(json.dumps({**found, "measured_s": measured_s, "error": error}, indent=2))


if __name__ == "__main__":
    main()
