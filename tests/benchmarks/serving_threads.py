"""What is predicted for the faster number of threads of a loop that generates, or for weights on the node of its
threads, and what it really saves: ``generating_job.py``.

Run: python -m tests.benchmarks.serving_threads FOLDER [--weights]
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
from scalana.detectors.evidence import Evidence

TRIES = 3
MANY = 8 * (os.cpu_count() or 1)
JOB = Path(__file__).parent / "generating_job.py"


def job(record: Path, options: list[str]) -> float:
    """Seconds that a recorded job takes after its first requests."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--", sys.executable, str(JOB)]
    done = subprocess.run([*run, *options], stdout=subprocess.PIPE, text=True, check=True)
    (seconds,) = re.findall(r"^([\d.]+) s$", done.stdout, re.MULTILINE)
    return float(seconds)


def named_by(evidence: Evidence) -> list[object]:
    """What a finding says: the phase, and both ways."""
    if far := evidence.far_weights:
        return [far.far_phase, far.threads_node, far.weights_node]
    plan = evidence.thread_plan
    return [plan.serving_phase, plan.plan_threads, plan.faster_threads] if plan else []


def main() -> None:
    folder, is_weights = Path(sys.argv[1]), "--weights" in sys.argv
    before = ["--nodes", "0,1"] if is_weights else ["--threads", f"1,{MANY}"]
    after = ["--nodes", "0"] if is_weights else ["--threads", "1"]
    kind = "serving-weights" if is_weights else "serving-threads"
    before_s, after_s, predicted_s, named = [], [], [], []
    for number in range(TRIES):
        before_s.append(job(folder / str(number), before))
        after_s.append(job(folder / f"{number}-one", after))
        findings = [one for one in scalana.analyze(folder / str(number)).findings if one.kind == kind]
        predicted_s.append(sum(one.saving_s for one in findings))
        named.append([named_by(one.evidence) for one in findings])
    measured_s = statistics.median(before_s) - statistics.median(after_s)
    error = abs(statistics.median(predicted_s) / measured_s - 1.0)
    found = {"named": named, "many": MANY, "before_s": before_s, "after_s": after_s, "predicted_s": predicted_s}
    print(json.dumps({**found, "measured_s": measured_s, "error": error}, indent=2))


if __name__ == "__main__":
    main()
