"""A slow link between two of three emulated hosts: whether it is named, and what the same job takes with a sound one.

Run as root: python -m tests.benchmarks.slow_link [--slow 40mbit] [--sound 400mbit] [--steps 60]

Hosts are namespaces of this machine (``tests/tools/hosts.py``); the rate of what a host sends to another one is limited
by the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tests" / "tools" / "hosts.py"
PROGRAM = ROOT / "tests" / "jobs" / "programs" / "halos.py"
ENDS = (0, 2)
"""The hosts at the ends of the slow link."""
SHAPED = """
tc qdisc add dev eth0 root handle 1: htb default 10 2>/dev/null
tc class add dev eth0 parent 1: classid 1:10 htb rate {sound} burst 256kb cburst 256kb
tc class add dev eth0 parent 1: classid 1:20 htb rate {link} burst 64kb cburst 64kb
test $HOST_INDEX = 0 && tc filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.77.0.3 flowid 1:20
test $HOST_INDEX = 2 && tc filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.77.0.1 flowid 1:20
"""
START = (
    "exec {python} -m scalana run --no-report -o {folder} -- {python} -m torch.distributed.run --nnodes 3 --node-rank "
    "$HOST_INDEX --nproc-per-node 1 --master-addr $HEAD_ADDR --master-port 29500 {program}"
)


def recorded(folder: Path, link: str, sound: str, steps: int) -> dict[str, object]:
    """The report of a run whose link between two hosts has a rate, and all others another one."""
    line = SHAPED.format(link=link, sound=sound) + START.format(python=sys.executable, folder=folder, program=PROGRAM)
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "STEPS": str(steps),
    }
    command = [sys.executable, str(TOOL), "--hosts", "3", "--limit", "400", "--", "sh", "-c", line]
    subprocess.run(command, env=environ, check=True, capture_output=True)
    report = [sys.executable, "-m", "scalana", "report", "--format", "json", str(folder)]
    document: dict[str, object] = json.loads(
        subprocess.run(report, check=True, capture_output=True, env=environ).stdout
    )
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", default="40mbit", help="rate of the slow link, as tc writes it (40mbit)")
    parser.add_argument("--sound", default="400mbit", help="rate of the others (400mbit)")
    parser.add_argument("--steps", type=int, default=60, help="steps of each run (60)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        slow = recorded(Path(work) / "slow", args.slow, args.sound, args.steps)
        sound = recorded(Path(work) / "sound", args.sound, args.sound, args.steps)
    findings = slow["findings"]
    assert isinstance(findings, list)
    first = findings[0] if findings else {"kind": "none", "evidence": {}}
    known = first["evidence"]
    is_named = first["kind"] == "slow-link" and known["link_hosts"] == [f"host{index}" for index in ENDS]
    took_s = sound["steps"]["median_s"]  # type: ignore[index,call-overload]
    predicted_s = known.get("link_mended_step_s") or float("nan")
    print(f"first finding: {known.get('slow_link', first['kind'])}, named: {int(is_named)}")
    print(f"a step with the slow link: {1e3 * slow['steps']['median_s']:.0f} ms")  # type: ignore[index,call-overload]
    print(f"predicted with a sound one: {1e3 * predicted_s:.0f} ms, measured: {1e3 * took_s:.0f} ms")
    print(f"off: {100 * abs(predicted_s / took_s - 1):.1f} %")


if __name__ == "__main__":
    main()
