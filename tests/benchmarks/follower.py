"""What the process takes that follows a job: it looks for hangs, and finds verdicts.

Run: python -m tests.benchmarks.follower [--ranks 4] [--seconds 90]

``scalana run --verdict-after 20`` runs a job of torch with marked steps, and starts the follower after a while. CPU
time is the follower's: until it has been there for a while, in which it loads the analysis and looks for the first
time, and from then on for ``--seconds``, as a share of a core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.live.kernel_files import text_of  # noqa: E402
from scalana.live.processes import below  # noqa: E402

PROGRAM = """
import time, sys, scalana, torch, torch.distributed as dist
dist.init_process_group("gloo")
x, end = torch.ones(1000), time.monotonic() + float(sys.argv[1])
while bool(x[0] > 0):
    time.sleep(0.03 if dist.get_rank() else 0.05)
    x[:] = float(time.monotonic() < end)
    dist.all_reduce(x, op=dist.ReduceOp.MIN)
    scalana.step()
"""
AFTER_S, START_S, JOB_STARTS_S = 30.0, 45.0, 30.0
"""When the follower starts, how long it has for its start, and how long the job may take for its own."""


def cpu_s(pid: int) -> float:
    """CPU seconds of a process."""
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def follower_of(pid: int) -> int:
    """The follower below ``scalana run``, as soon as it is there."""
    until = time.monotonic() + AFTER_S + JOB_STARTS_S
    while time.monotonic() < until:
        for child in below(pid):
            if {"watch", "--log"} <= set(text_of(f"/proc/{child}/cmdline").split("\0")):
                return child
        time.sleep(0.5)
    raise SystemExit("the job has no follower")


def measure(folder: Path, ranks: int, seconds: float) -> tuple[float, float]:
    """CPU seconds of the start, and then the share of a core."""
    program = folder / "train.py"
    program.write_text(PROGRAM)
    lasts = AFTER_S + START_S + seconds
    words = [sys.executable, "-m", "scalana", "run", "-o", folder / "run", "--no-report", "--verdict-after", "20", "--"]
    words += [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, program, lasts]
    job = subprocess.Popen([str(word) for word in words])
    try:
        follower = follower_of(job.pid)
        time.sleep(START_S)
        start_s, begin = cpu_s(follower), time.monotonic()
        time.sleep(seconds - 10.0)
        return start_s, (cpu_s(follower) - start_s) / (time.monotonic() - begin)
    finally:
        job.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=90.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start_s, share = measure(Path(folder), args.ranks, args.seconds)
    print(f"{args.ranks} ranks: start {start_s:.2f} s CPU, then {100 * share:.2f} % of a core")


if __name__ == "__main__":
    main()
