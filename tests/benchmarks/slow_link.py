"""A slow link between two emulated hosts: whether it is named, and what the same job takes with a sound one.

Run as root: python -m tests.benchmarks.slow_link [--job messages|collective] [--slow 40mbit] [--sound 400mbit]
             [--steps 60]

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
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tests" / "tools" / "hosts.py"
PROGRAMS = ROOT / "tests" / "jobs" / "programs"


@dataclass(frozen=True)
class Job:
    """What runs on the hosts, and between which the link is slow."""

    program: Path
    hosts: int
    ends: tuple[int, int]
    burst: str
    """What a sound link sends at once: less than a message is, or no message shows its rate."""


JOBS = {
    "messages": Job(PROGRAMS / "halos.py", 3, (0, 2), "256kb"),
    "collective": Job(PROGRAMS / "reductions.py", 4, (1, 2), "32kb"),
}
SHAPED = """
tc qdisc add dev eth0 root handle 1: htb default 10 2>/dev/null
tc class add dev eth0 parent 1: classid 1:10 htb rate {sound} burst {burst} cburst {burst}
tc class add dev eth0 parent 1: classid 1:20 htb rate {link} burst 32kb cburst 32kb
test $HOST_INDEX = {a} && tc filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.77.0.$(({b}+1)) flowid 1:20
test $HOST_INDEX = {b} && tc filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.77.0.$(({a}+1)) flowid 1:20
"""
START = (
    "exec {python} -m scalana run --no-report -o {folder} -- {python} -m torch.distributed.run --nnodes {hosts} "
    "--node-rank $HOST_INDEX --nproc-per-node 1 --master-addr $HEAD_ADDR --master-port 29500 {program}"
)


def recorded(job: Job, folder: Path, link: str, sound: str, steps: int) -> dict[str, object]:
    """The report of a run whose link between two hosts has a rate, and all others another one."""
    shaped = SHAPED.format(link=link, sound=sound, burst=job.burst, a=job.ends[0], b=job.ends[1])
    line = shaped + START.format(python=sys.executable, folder=folder, hosts=job.hosts, program=job.program)
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
        "STEPS": str(steps),
    }
    command = [sys.executable, str(TOOL), "--hosts", str(job.hosts), "--limit", "400", "--", "sh", "-c", line]
    subprocess.run(command, env=environ, check=True, capture_output=True)
    report = [sys.executable, "-m", "scalana", "report", "--format", "json", str(folder)]
    document: dict[str, object] = json.loads(
        subprocess.run(report, check=True, capture_output=True, env=environ).stdout
    )
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=JOBS, default="messages", help="what crosses the links (messages)")
    parser.add_argument("--slow", default="40mbit", help="rate of the slow link, as tc writes it (40mbit)")
    parser.add_argument("--sound", default="400mbit", help="rate of the others (400mbit)")
    parser.add_argument("--steps", type=int, default=60, help="steps of each run (60)")
    args = parser.parse_args()
    job = JOBS[args.job]
    with tempfile.TemporaryDirectory() as work:
        slow = recorded(job, Path(work) / "slow", args.slow, args.sound, args.steps)
        sound = recorded(job, Path(work) / "sound", args.sound, args.sound, args.steps)
    findings = slow["findings"]
    assert isinstance(findings, list)
    first = findings[0] if findings else {"kind": "none", "evidence": {}}
    known = first["evidence"]
    is_named = first["kind"] == "slow-link" and known["link_hosts"] == [f"host{index}" for index in job.ends]
    took_s = sound["steps"]["median_s"]  # type: ignore[index,call-overload]
    predicted_s = known.get("link_mended_step_s") or float("nan")
    print(f"first finding: {known.get('slow_link', first['kind'])}, named: {int(is_named)}")
    print(f"a step with the slow link: {1e3 * slow['steps']['median_s']:.0f} ms")  # type: ignore[index,call-overload]
    print(f"predicted with a sound one: {1e3 * predicted_s:.0f} ms, measured: {1e3 * took_s:.0f} ms")
    print(f"off: {100 * abs(predicted_s / took_s - 1):.1f} %")


if __name__ == "__main__":
    main()
