"""What recording adds to the start and end of a process that does nothing.

Run: ``python tests/benchmarks/startup_cost.py [--repeats N] [--python PATH]``. Processes with and without the recorder
alternate. CPU time is user and system of the whole process (its sampler included); the differences of the minimum and
of the median are shown.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(python: str, code: str, folder: str | None) -> tuple[float, float]:
    """Wall and CPU milliseconds of one process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SCALANA_", "PYTHONPATH"))}
    if folder is not None:
        environment["SCALANA_RUN_DIR"] = folder
        environment["PYTHONPATH"] = str(ROOT / "runtime" / "bootstrap")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([python, "-c", code], env=environment, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, cpu * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--code", default="pass", help="program of the processes")
    options = parser.parse_args()
    plain, recorded = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats + 2):
            plain.append(run(options.python, options.code, None))
            recorded.append(run(options.python, options.code, folder))
        records = len(list(Path(folder, "records").glob("*.rec")))
    if records != options.repeats + 2:
        raise SystemExit(f"{records} processes were recorded, not {options.repeats + 2}")
    print(f"{'ms per process':16} {'plain':>8} {'recorded':>9} {'added':>7} {'added, median':>14}")
    for name, column in (("wall", 0), ("CPU", 1)):
        without, within = [r[column] for r in plain[2:]], [r[column] for r in recorded[2:]]
        median = statistics.median(within) - statistics.median(without)
        print(f"{name:16} {min(without):8.1f} {min(within):9.1f} {min(within) - min(without):7.1f} {median:14.1f}")


if __name__ == "__main__":
    main()
