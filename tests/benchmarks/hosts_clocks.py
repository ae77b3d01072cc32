"""How exact the clocks of emulated hosts are aligned after they exchanged a little, of which the truth is known.

Run as root: python -m tests.benchmarks.hosts_clocks [--hosts 3] [--steps 5] [--exchange all|root|one-way]

Hosts are namespaces of this machine (``tests/tools/hosts.py``), whose clocks are exactly 1000 s apart. The time of day
is taken away from the records: it is 20 ms, 60 s and more off before they are read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from scalana.graphs.readers.columns.gather import gather
from scalana.graphs.readers.folder.reading import read_records
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.chains import choose_of_chain

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tests" / "tools" / "hosts.py"
PROGRAMS = ROOT / "tests" / "jobs" / "programs"
EXCHANGES = {
    "all": ("reductions.py", ""),
    "root": ("handing_out.py", "1"),
    "one-way": ("handing_out.py", ""),
}
"""What ranks do in each step: a program, and its ``BACK``."""
STEP_S = 1000
OFF_S = (0.0, 0.02, 60.0)
"""How far the time of day of the second host, the third and so on is off."""
START = (
    "exec {python} -m scalana run --no-report -o {folder} -- {python} -m torch.distributed.run --nnodes {hosts} "
    "--node-rank $HOST_INDEX --nproc-per-node 1 --master-addr $HEAD_ADDR --master-port 29500 {program}"
)


def recorded(folder: Path, hosts: int, steps: int, exchange: str) -> RunFolder:
    """A job on some hosts."""
    program, back = EXCHANGES[exchange]
    line = START.format(python=sys.executable, folder=folder, hosts=hosts, program=PROGRAMS / program)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "eth0", "STEPS": str(steps), "BACK": back}
    command = [sys.executable, str(TOOL), "--hosts", str(hosts), "--clock-step", str(STEP_S), "--", "sh", "-c", line]
    subprocess.run(command, env={**environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
    return RunFolder(os.fspath(folder))


def errors_ms(folder: RunFolder, off_s: float) -> list[float]:
    """How far each host's clock is off once it is aligned, if the time of day of host ``n`` is ``n`` times off."""
    chosen = choose_of_chain(read_records(folder), folder.chain, folder.launch)
    entries = [
        replace(entry, record=replace(entry.record, meta=_off(entry.record.meta, off_s))) for entry in chosen.ranks
    ]
    data = gather(replace(chosen, ranks=entries))
    numbers = np.array([int(name.removeprefix("host")) for name in data.hosts])
    true_ns = -STEP_S * 1_000_000_000 * (numbers - numbers[0])
    middle_ns = np.array([int(entries[0].record.last_ns) + STEP_S * 1_000_000_000 * number for number in numbers])
    aligned = data.clocks.align(np.arange(len(numbers)), middle_ns)
    return [
        abs(int(at) - int(own) - int(true)) * 1e-6 for at, own, true in zip(aligned, middle_ns, true_ns, strict=True)
    ]


def _off(meta: dict[str, str], off_s: float) -> dict[str, str]:
    number = int(meta["host"].removeprefix("host"))
    return {**meta, "unix_ns": str(int(meta["unix_ns"]) + round(number * off_s * 1e9))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=3, help="how many (3)")
    parser.add_argument("--steps", type=int, default=5, help="exchanges of each rank (5)")
    parser.add_argument(
        "--exchange", choices=EXCHANGES, default="all", help="an allreduce, a broadcast and a reduce, a send"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = recorded(Path(work) / "run", args.hosts, args.steps, args.exchange)
        for off_s in OFF_S:
            print(f"time of day off by {off_s:g} s: clocks off by {max(errors_ms(folder, off_s)):.3f} ms at most")


if __name__ == "__main__":
    main()
