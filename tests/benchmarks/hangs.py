"""Whether jobs that hang are explained while they do, and jobs that are slow raise no alarm.

Run: python -m tests.benchmarks.hangs [--at-once 2] [--only WORD]

Twelve kinds of hangs (torch, MPI, Ray, pools, the workers of loaders, threads) and ten kinds of slow jobs, each
followed by ``scalana run --hang-after 5``. A hang is right if the first line that is printed names the ranks and the
line at fault. Seconds are those from the limit until the explanation was written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.scalana.live.hanging import SLOW, Watched, watched, wrong_with

KINDS = (
    "other-call", "circle", "endless", "holds-gil", "loader", "pool", "threads", "mpi-absent", "mpi-circle",
    "ray-circle", "ray-stands", "ray-unscheduled",
)  # fmt: skip


def tried(kind: str) -> Watched:
    """One job, to its end."""
    with tempfile.TemporaryDirectory(prefix="scalana-hangs-") as folder:
        done = watched(kind, Path(folder))
    wrong = wrong_with(kind, done) if kind in KINDS else "\n".join(done.said[:4])
    seconds = f", {done.after_s:.1f} s after the limit" if done.said else ""
    print(f"{kind}: {'wrong' if wrong else 'right'}{seconds}", file=sys.stderr, flush=True)
    if wrong:
        print(wrong, file=sys.stderr, flush=True)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=max(os.cpu_count() or 1, 1))
    parser.add_argument("--only", default="", help="kinds with this word in their name")
    args = parser.parse_args()
    kinds = [kind for kind in (*KINDS, *SLOW) if args.only in kind]
    with ThreadPoolExecutor(args.at_once) as pool:
        done = dict(zip(kinds, pool.map(tried, kinds), strict=True))
    hung = [(kind, one) for kind, one in done.items() if kind in KINDS]
    slow = [one for kind, one in done.items() if kind in SLOW]
    right = sum(not wrong_with(kind, one) for kind, one in hung)
    longest_s = max((one.after_s for _, one in hung), default=0.0)
    print(f"{len(hung)} hangs: {right} right, explained at most {longest_s:.1f} s after the limit")
    alarms, failed = sum(bool(one.said) for one in slow), sum(one.code != 0 for one in slow)
    print(f"{len(slow)} slow jobs: {alarms} alarms, {failed} failed")


if __name__ == "__main__":
    main()
