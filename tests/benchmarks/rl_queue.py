"""What a report predicts of an asynchronous loop, and the same really applied: order, caps, more processes.

    python tests/benchmarks/rl_queue.py

Records `tests/detectors/rl/programs/queue_loop.py` once, and runs it with each change three times. All sleep in place
of what they would compute. Prints a Markdown table.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scalana import api
from scalana.detectors.rl.account import RLAccount

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "detectors" / "rl" / "programs" / "queue_loop.py"
STEPS, WORKERS, ANY = 16, 3, 100_000
TIMES = 3


def step_s(workers: int, cap: int, order: str, *before: str) -> float:
    """Run the loop; what it says of its steps."""
    words = [*before, sys.executable, os.fspath(PROGRAM), str(STEPS), str(workers), str(cap), order]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        step_s(WORKERS, ANY, "fifo", sys.executable, "-m", "scalana", "run", "--no-report", "-o", run, "--")
        account = api.analyze(run).analysis.sections["rl"]
        assert isinstance(account, RLAccount)
    known = {each.change: each for each in account.what_if}
    cap = int(next(iter(re.findall(r"at most (\d+) tokens", known["cap"].text))))
    applied = {
        "balance": (WORKERS, ANY, "longest"),
        "cap": (WORKERS, cap, "fifo"),
        "more-rollouts": (2 * WORKERS, ANY, "fifo"),
    }
    print(f"recorded: {float(account.step_s.mean()):.3f} s a step\n")
    print("| change | predicted, ms | error of the model, % | really, ms | off, % |\n|---|---|---|---|---|")
    for change, setting in applied.items():
        each = known[change]
        really_s = statistics.median(step_s(*setting) for _ in range(TIMES))
        cells = f"{1e3 * each.step_s:.0f}", f"{100 * each.error:.1f}", f"{1e3 * really_s:.0f}"
        print(f"| {change} | {' | '.join(cells)} | {100 * abs(each.step_s / really_s - 1):.1f} |", flush=True)


if __name__ == "__main__":
    main()
