"""What is predicted for the longest calls first, and what really submitting them so saves: pools of
``tests/jobs/programs/remote_calls.py``.

Run: python -m tests.benchmarks.task_tails FOLDER
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import scalana

CASES = {"processes": "executor_long_last", "threads": "threads_long_last"}
TRIES = 3
PROGRAM = Path(__file__).parents[1] / "jobs" / "programs" / "remote_calls.py"


def job(record: Path, *case: str) -> float:
    """Seconds that the pool of a recorded program takes."""
    run = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--", sys.executable]
    return float(subprocess.run([*run, str(PROGRAM), *case], stdout=subprocess.PIPE, text=True, check=True).stdout)


def case(folder: Path, name: str) -> dict[str, object]:
    """What a report says, and what the longest first really saves: medians of some tries."""
    before_s, after_s, predicted_s, last = [], [], [], []
    for number in range(TRIES):
        before_s.append(job(folder / str(number), name))
        after_s.append(job(folder / f"{number}-first", name, "first"))
        tail = scalana.analyze(folder / str(number)).findings[0].evidence.tail
        predicted_s.append(tail.longest_first_s if tail is not None else 0.0)
        last.append(tail.tail_last if tail is not None else "")
    measured_s = statistics.median(before_s) - statistics.median(after_s)
    error = abs(statistics.median(predicted_s) / measured_s - 1.0)
    return {"before_s": before_s, "after_s": after_s, "predicted_s": predicted_s, "last": last, "error": error}


def main() -> None:
    folder = Path(sys.argv[1])
    print(json.dumps({name: case(folder / name, program) for name, program in CASES.items()}, indent=2))


if __name__ == "__main__":
    main()
