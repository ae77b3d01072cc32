"""What recording adds to one collective: CPU time of the calling thread, with torch's fake backend.

Run: ``python tests/benchmarks/collective_cost.py [--calls N] [--repeats N]``. Processes with and without the recorder
alternate; each prints the least CPU time per call of its blocks, and the table shows the least and the median of
those. The fake backend does nothing, so what is left is torch's own path and ours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALLS = ("all_reduce", "all_reduce async", "all_gather_into_tensor", "broadcast", "send", "functional all_reduce")


def child(calls: int) -> None:
    """Time every kind of call in this process, and print microseconds per call as JSON."""
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    small, large = torch.ones(256), torch.ones(1024)
    bodies = {
        "all_reduce": lambda: dist.all_reduce(small),
        "all_reduce async": lambda: dist.all_reduce(small, async_op=True).wait(),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(large, small),
        "broadcast": lambda: dist.broadcast(small, 1),
        "send": lambda: dist.send(small, 1),
        "functional all_reduce": lambda: functional.all_reduce(small, "sum", dist.group.WORLD).wait(),
    }
    result = {}
    for name in CALLS:
        body = bodies[name]
        for _ in range(200):
            body()
        best = float("inf")
        for _ in range(10):
            start = time.thread_time_ns()
            for _ in range(calls // 10):
                body()
            best = min(best, (time.thread_time_ns() - start) / (calls // 10))
        result[name] = best / 1000
    print(json.dumps(result))


def run(calls: int, recorded: bool) -> dict[str, float]:
    """One process; microseconds per call."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if recorded:
            environment["SCALANA_RUN_DIR"] = folder
            environment["PYTHONPATH"] = str(ROOT / "runtime" / "bootstrap")
        command = [sys.executable, __file__, "--child", "--calls", str(calls)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        if recorded and not list(Path(folder, "records").glob("*.rec")):
            raise SystemExit("nothing was recorded")
        return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.calls)
        return
    plain, recorded = [], []
    for _ in range(options.repeats):
        plain.append(run(options.calls, recorded=False))
        recorded.append(run(options.calls, recorded=True))
    print(f"{'us of CPU per call':24} {'plain':>8} {'recorded':>9} {'added':>7} {'added, median':>14}")
    for name in CALLS:
        without, within = [r[name] for r in plain], [r[name] for r in recorded]
        median = statistics.median(within) - statistics.median(without)
        print(f"{name:24} {min(without):8.2f} {min(within):9.2f} {min(within) - min(without):7.2f} {median:14.2f}")


if __name__ == "__main__":
    main()
