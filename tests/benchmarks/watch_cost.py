"""What it costs a job that is recorded when it is also looked at: by ``scalana watch``, and for verdicts and hangs.

Run: python -m tests.benchmarks.watch_cost [--ranks 2] [--turns 20] [--seconds 20]

A job of torch does equal work in each step, and notes what CPU time that takes. It is started with ``--verdict-after``,
and ``scalana watch`` draws its view in a terminal; both are stopped in every other turn (SIGSTOP), and go on in the
next one (SIGCONT). The figure is the ratio of the CPU time of a step in turns that follow each other, so that drifts of
the machine cancel out: its median, with a confidence interval. The CPU time of the looking processes themselves is that
of the rows on the process that follows a job.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.follower import follower_of  # noqa: E402
from tests.benchmarks.ratios import interval  # noqa: E402

PROGRAM = """
import sys, time, scalana, torch, torch.distributed as dist
dist.init_process_group("gloo")
x, end = torch.ones(1000), time.monotonic() + float(sys.argv[1])
with open(f"{sys.argv[2]}-{dist.get_rank()}", "w") as steps:
    while bool(x[0] > 0):
        begin = time.process_time()
        for _ in range(40):
            sum(number * number for number in range(5000))
        took = time.process_time() - begin
        steps.write(f"{time.monotonic()} {took}\\n")
        x[:] = float(time.monotonic() < end)
        dist.all_reduce(x, op=dist.ReduceOp.MIN)
        scalana.step()
"""
WARM_S = 60.0
"""Until the first verdict and the first view are there: the analysis is loaded once."""
SETTLE_S = 1.0
"""At the begin of a turn: what goes on has to read what was written meanwhile."""


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[int]:
    """``scalana watch`` in a terminal of 80 columns; gives its process."""
    ours, theirs = pty.openpty()
    view = subprocess.Popen(
        [sys.executable, "-m", "scalana", "watch", folder],
        stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "80", "TERM": "xterm"},
    )  # fmt: skip
    threading.Thread(target=lambda: _drain(ours), daemon=True).start()
    try:
        yield view.pid
    finally:
        for number in (signal.SIGCONT, signal.SIGKILL):
            view.send_signal(number)
        view.wait()


def _drain(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def turns_of(looking: Sequence[int], turns: int, seconds: float) -> list[tuple[float, float]]:
    """Stop processes and let them go on, in turns; when each turn began, after it had settled, and ended."""
    found = []
    for turn in range(turns):
        for pid in looking:
            os.kill(pid, signal.SIGCONT if turn % 2 else signal.SIGSTOP)
        time.sleep(SETTLE_S)
        begin = time.monotonic()
        time.sleep(seconds)
        found.append((begin, time.monotonic()))
    for pid in looking:
        os.kill(pid, signal.SIGCONT)
    return found


def measure(folder: Path, ranks: int, turns: int, seconds: float) -> list[float]:
    """The ratio of each turn with looking to the one before it without."""
    program, steps = folder / "train.py", folder / "steps"
    program.write_text(PROGRAM)
    lasts = WARM_S + turns * (seconds + SETTLE_S) + 30.0
    own = [sys.executable, "-m", "scalana", "run", "-o", folder / "run", "--no-report", "--verdict-after", "20", "--"]
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, program]
    process = subprocess.Popen([str(word) for word in (*own, *job, lasts, steps)])
    try:
        follower = follower_of(process.pid)
        with watched(folder / "run") as view:
            time.sleep(WARM_S)
            found = turns_of((follower, view), turns, seconds)
    finally:
        process.wait()
    rows = [tuple(map(float, line.split())) for rank in range(ranks) for line in Path(f"{steps}-{rank}").open()]
    cost = [statistics.median(took for at, took in rows if begin <= at < end) for begin, end in found]
    return [later / earlier for number, (earlier, later) in enumerate(pairwise(cost)) if number % 2 == 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ratios = measure(Path(folder), args.ranks, args.turns, args.seconds)
    low, high, sure = interval(ratios)
    middle, low, high = (f"{100 * (one - 1):+.2f}" for one in (statistics.median(ratios), low, high))
    print(f"{len(ratios)} pairs of turns: {middle} % CPU a step ({low} to {high}, {sure:.0%})")


if __name__ == "__main__":
    main()
