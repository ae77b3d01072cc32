"""Whether a rank that becomes slow is named while the job runs, and what starting an actor of Ray again costs.

Run: python -m tests.benchmarks.changes_live [slow-rank] [ray]

Of a job of three ranks with marked steps of equal work, rank 1 takes 1.6 times as long for everything from a step on.
``scalana run --verdict-after 20`` prints lines meanwhile; the report after the end is read as well. Of a driver with an
actor of Ray, which ends in the middle and is started again, the program measures how long that takes until the next
step is made.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FACTOR, SINCE, STEPS = 1.6, 1000, 2500

PLACES = 8
SLOW = "\n".join(
    [
        "import sys, time, scalana, torch, torch.distributed as dist",
        "dist.init_process_group('gloo')",
        "rank, x = dist.get_rank(), torch.ones(1000)",
        *(f"def place{number}(ms):\n    time.sleep(ms * 1e-3)\n" for number in range(PLACES)),
        "for step in range(int(sys.argv[1])):",
        "    ms = float(sys.argv[3]) if rank == 1 and step >= int(sys.argv[2]) else 1.0",
        *(f"    place{number}(5 * ms)" for number in range(PLACES)),
        "    dist.all_reduce(x)",
        "    scalana.step()",
    ]
)

RAY = """
import os, sys, time, ray, scalana
FILE = os.path.join(os.getcwd(), "ended")
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
@ray.remote(max_restarts=1, max_task_retries=-1)
class Trainer:
    def step(self, number):
        if number == 20 and not os.path.exists(FILE):
            open(FILE, "w").write(str(time.monotonic()))
            os._exit(1)
        time.sleep(0.1)
        return number

trainer = Trainer.remote()
ends = []
for number in range(40):
    ray.get(trainer.step.remote(number))
    ends.append(time.monotonic())
    scalana.step()
ended = float(open(FILE).read())
open("lost", "w").write(str(min(end for end in ends if end > ended) - ended))
"""


def run(folder: Path, options: list[str], command: list[str], environment: dict[str, str]) -> tuple[str, Any]:
    """What ``scalana run`` prints on the standard error, and the report as JSON."""
    words = [sys.executable, "-m", "scalana", "run", "-o", "run", *options, "--", *command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}:\n{done.stderr[-4000:]}")
    words = [sys.executable, "-m", "scalana", "report", "--format", "json", "run"]
    report = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stderr, json.loads(report.stdout)


def slow_rank(folder: Path) -> None:
    (folder / "train.py").write_text(SLOW)
    torch = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=3"]
    torch += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "train.py", str(STEPS), str(SINCE), str(FACTOR)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    said, report = run(folder, ["--verdict-after", "20", "--no-report"], torch, environment)
    lines = [line for line in said.splitlines() if line.startswith("scalana: step")]
    print("\n".join(lines), file=sys.stderr)
    early = [line for line in lines if int(line.split()[2].strip(",")) < SINCE and "nothing stands out" not in line]
    words = r"step (\d+), .*since step (\d+)(?: to (\d+))?.*rank 1 takes ([\d.]+) times as long as the others"
    found = next((match for line in lines if (match := re.search(words, line))), None)
    if found is None:
        print("slow rank: 0 named")
        return
    at, since, until, times = (float(text or 0) for text in found.groups())
    off = max(since - SINCE, SINCE - max(since, until), 0.0)  # steps between two looks are not seen
    print(
        f"slow rank: {int(not early)} named, {at - SINCE:.0f} steps later, "
        f"factor {abs(times / FACTOR - 1) * 100:.1f} % off, since {off:.0f} steps off"
    )
    (one,) = (entry for entry in report["findings"] if entry["kind"] == "slow-rank")
    print(f"after the end: ranks {one['ranks']}, since {abs(one['evidence']['slow_since'] - SINCE)} steps off")


def ray_restart(folder: Path) -> None:
    (folder / "loop.py").write_text(RAY)
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(ROOT / "build" / "ray" / "site-packages")
    _, report = run(folder, ["--no-report"], [sys.executable, "loop.py"], environment)
    known = report["productive_time"]
    attempts, parts = known["attempts"], known["parts_s"]
    needed_s = float((folder / "lost").read_text())
    lost_s = parts["between"] + sum(one["start_up_s"] for one in attempts[1:])
    print(json.dumps({"attempts": attempts, "parts_s": parts}), file=sys.stderr)
    print(
        f"ray: {len(attempts)} attempts, parts {abs(sum(parts.values()) - known['seconds']):.3f} s off, "
        f"lost {lost_s:.2f} s of {needed_s:.2f} s, {abs(lost_s - needed_s):.2f} s off"
    )


def main() -> None:
    wanted = sys.argv[1:] or ["slow-rank", "ray"]
    for name, function in (("slow-rank", slow_rank), ("ray", ray_restart)):
        if name in wanted:
            with tempfile.TemporaryDirectory(prefix="scalana-changes-") as folder:
                function(Path(folder))


if __name__ == "__main__":
    main()
