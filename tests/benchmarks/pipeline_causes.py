"""Causes planted in pipelines of torch and in hand-written ones, beside what a report says of them; as JSON.

Run: python -m tests.benchmarks.pipeline_causes torch|schedules|messages|replicas [CASE ...]

``torch``: one cause each in 1F1B (`tests/tools/pipeline_job.py`). ``schedules``: none, in every schedule. ``messages``:
pipelines over send and receive (`tests/tools/messages_job.py`). ``replicas``: two pipelines of torch that reduce their
gradients together. Each job has four ranks, and is recorded once.

Of each case: the error of the replay in percent; the share of the planted cause in percent of a step, and what it
should be; whether the first finding with ranks is the planted one (without a cause: whether there is none).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scalana import api
from tests.tools.fork_server import launcher

ROOT = Path(__file__).resolve().parents[2]
RANKS = 4


@dataclass(frozen=True)
class Case:
    """A job and what is planted in it."""

    program: str
    options: str
    cause: str = ""
    """The share that it has; the finding is of the same kind, unless ``kind`` is another."""
    ranks: tuple[int, ...] = ()
    planted: float | None = None
    """In percent of a step: a closed form, or a replay of the planted costs; none where it was not worked out."""
    kind: str = ""


@dataclass(frozen=True)
class Told:
    """What a report says of a case."""

    step_s: float
    replay_error: float
    share: float | None
    planted: float | None
    first: str
    right: bool


def torch_case(options: str, *planted: Any, kind: str = "") -> Case:
    """1F1B, six steps."""
    return Case("pipeline_job.py", f"--schedule 1F1B --steps 6 {options}", *planted, kind=kind)


TORCH = {
    "nothing": torch_case(""),
    "head": torch_case("--layers 4,4,4,4 --head 3", "imbalance", (3,), 23.2),
    "slow": torch_case("--slow 3:1.75", "imbalance", (3,), 23.2),
    "straggler": torch_case("--straggler 1:2.5:3", "straggler", (1,), 20.0),
    "latency": torch_case("--latency 1:2:20", "link", (1, 2), 10.8),
    "host": torch_case("--host 2:8", "host", (2,)),
    "data": torch_case("--data 0:150", "data", (0,), 18.2, kind="host"),
}
SCHEDULES = {
    name: Case("pipeline_job.py", f"--schedule {name} --steps 6")
    for name in (
        "GPipe",
        "1F1B",
        "Interleaved1F1B",
        "LoopedBFS",
        "InterleavedZeroBubble",
        "ZBVZeroBubble",
        "DualPipeV",
    )
}
MESSAGES = {
    "nothing": Case("messages_job.py", "--steps 4"),
    "gpipe": Case("messages_job.py", "--steps 4 --order gpipe --slow 1:1.75", "imbalance", (1,), 23.2),
    "prefetch": Case("messages_job.py", "--steps 4 --order prefetch --slow 3:1.75", "imbalance", (3,), 23.2),
    "isend": Case("messages_job.py", "--steps 4 --isend --slow 0:1.75", "imbalance", (0,), 14.3),
    "straggler": Case("messages_job.py", "--steps 4 --shapes --evaluate --straggler 1:2.5:3", "straggler", (1,)),
}
REPLICAS = {
    # A step is 9 x 84 ms in the slow replica, and 9 x 60 ms in the other, which waits for gradients.
    "slow replica": torch_case(
        "--replicas 2 --sync ddp --slow-replica 1:1.4", "gradients", (2, 3), 28.6, kind="replica"
    ),
}
SETS = {"torch": TORCH, "schedules": SCHEDULES, "messages": MESSAGES, "replicas": REPLICAS}


def recorded(case: Case, folder: Path) -> dict[str, Any]:
    """The JSON report of a job."""
    job = [*launcher(RANKS), str(ROOT / "tests" / "tools" / case.program), *case.options.split()]
    command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", *job]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{case.options} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(api.analyze(folder).to_json())
    return found


def told(case: Case, report: dict[str, Any]) -> Told:
    """Compare a report with what is planted."""
    pipeline = report["pipeline"][0]
    first = next(((f["kind"], f["ranks"]) for f in report["findings"] if f["ranks"]), None)
    wanted = (f"pipeline-{case.kind or case.cause}", list(case.ranks)) if case.cause else None
    return Told(
        step_s=pipeline["step_s"],
        replay_error=100 * (pipeline["replay_s"] / pipeline["step_s"] - 1),
        share=100 * pipeline["shares"][case.cause] if case.cause else None,
        planted=case.planted,
        first=f"{first[0]} of ranks {first[1]}" if first else "none",
        right=first == wanted,
    )


def main() -> None:
    """Record the cases, and print what is told of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()
    cases = {name: case for name, case in SETS[options.set].items() if not options.case or name in options.case}
    with tempfile.TemporaryDirectory() as folder:
        found = {name: told(case, recorded(case, Path(folder, name))) for name, case in cases.items()}
    print(json.dumps({name: asdict(one) for name, one in found.items()}, indent=2))


if __name__ == "__main__":
    main()
