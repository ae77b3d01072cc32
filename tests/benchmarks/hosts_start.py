"""Milliseconds until a program begins that `scalana run` starts on each of two emulated hosts.

Run as root: python -m tests.benchmarks.hosts_start [--turns 20]

Both hosts begin at one time, in one folder that they share, and find each other by ``MASTER_ADDR`` as pods do. In turns
with it each host records the program as a job of its own, and a program of Python does nothing but start it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tests" / "tools" / "hosts.py"
HOSTS = 2
_PLAIN = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
_PROGRAM = "import os, time; print(time.monotonic_ns(), file=open(os.environ['STARTED'], 'w'))"


def wait_ms(words: list[str], stamp: Path, environ: dict[str, str]) -> float:
    """Milliseconds from the start of a command to what its program notes."""
    begin = time.monotonic_ns()
    subprocess.run(words, env={**environ, "STARTED": str(stamp)}, check=True, stderr=subprocess.DEVNULL)
    return (int(stamp.read_text()) - begin) * 1e-6


def meet(folder: Path, what: str) -> None:
    """Wait until all hosts are here."""
    (folder / f"{what}-{os.environ['HOST_INDEX']}").touch()
    while len([*folder.glob(f"{what}-*")]) < HOSTS:
        time.sleep(0.005)


def on_a_host(folder: Path, turns: int) -> None:
    """What each host does: a line for each turn, of the three ways."""
    host, program = os.environ["HOST_INDEX"], [sys.executable, "-c", _PROGRAM]
    of_a_job = {"RANK": host, "WORLD_SIZE": str(HOSTS), "MASTER_ADDR": os.environ["HEAD_ADDR"]}
    for turn in range(turns + 1):  # in the first one, files are read
        ways = (
            ([sys.executable, "-c", _PLAIN, *program], {}),
            (_recorded(folder / f"alone-{turn}-{host}", program), {}),
            (_recorded(folder / f"run-{turn}", program), {**of_a_job, "MASTER_PORT": str(29500 + turn)}),
        )
        found = []
        for number, (words, variables) in enumerate(ways):
            meet(folder, f"meeting-{turn}-{number}")
            found.append(wait_ms(words, folder / f"started-{host}", {**os.environ, **variables}))
        if turn:
            print(*found, flush=True)


def _recorded(run: Path, program: list[str]) -> list[str]:
    return [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(run), "--", *program]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20, help="of each (20)")
    parser.add_argument("--on-a-host", metavar="DIR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.on_a_host:
        on_a_host(Path(args.on_a_host), args.turns)
        return
    with tempfile.TemporaryDirectory() as work:
        own = [sys.executable, "-m", "tests.benchmarks.hosts_start", "--turns", str(args.turns), "--on-a-host", work]
        command = [sys.executable, str(TOOL), "--hosts", str(HOSTS), "--raw", "--", *own]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True, text=True)
    turns = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    plain, alone, together = zip(*turns, strict=True)
    for name, values in (("plain", plain), ("each host alone", alone), ("both hosts", together)):
        print(f"{name}: least {min(values):.1f} ms, median {statistics.median(values):.1f} ms")
    more = [both - one for one, both in zip(alone, together, strict=True)]
    print(f"more than alone: median {statistics.median(more):.1f} ms")


if __name__ == "__main__":
    main()
