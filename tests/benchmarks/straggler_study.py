"""The three jobs of ByteDance's straggler study: which cause is named first, and our slow-down next to theirs.

Run: python -m tests.benchmarks.straggler_study FOLDER

FOLDER is a copy of github.com/ByteDance-Seed/StragglerAnalysis. Prints a table, and JSON behind it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CAUSES = {"AR": "pipeline-replica", "ST": "pipeline-imbalance", "SE": "pipeline-lengths"}
"""The kind of finding of each job's known cause: a worker that is slowed down, the last stage, sequence lengths."""


def our_report(trace: Path) -> dict[str, Any]:
    """The JSON report of an imported table."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "scalana", "import", str(trace), "-o", f"{folder}/run", "--format", "json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def compared(data: Path, name: str) -> dict[str, Any]:
    """Our figures of one job, and theirs."""
    report = our_report(data / f"trace-{name}.parquet")
    ours = report["slow_down"]
    theirs, last, slowest = (
        json.loads((data / f"{part}-{name}.json").read_text(encoding="utf-8")) for part in ("result", "ms", "mw")
    )
    by_replica = [theirs["blocking_decompose_by_dp_rank"][str(n)] for n in range(len(ours["by_replica"]))]
    by_stage = [theirs["blocking_decompose_by_stage"][str(n)] for n in range(len(ours["by_stage"]))]
    workers = [
        100 * abs(min(r, s) / min(theirs_r, theirs_s) - 1)
        for r, theirs_r in zip(ours["by_replica"], by_replica, strict=True)
        for s, theirs_s in zip(ours["by_stage"], by_stage, strict=True)
    ]
    first = report["findings"][0]
    return {
        "first": first["kind"],
        "ranks": first["ranks"],
        "right": first["kind"] == CAUSES[name] and "headline" not in report,
        "S": (ours["slow_down"], theirs["blocking_slowdown"]),
        "M_W": (ours["slowest_workers_share"], slowest["Mw"]),
        "M_S": (ours["last_stage_share"], last["Ms"]),
        "workers_off_percent": max(workers),
        "correlation": ours["correlation"],
        "saving_s": first["saving_s"],
        "what_if": ours["what_if"],
    }


def main() -> None:
    """See the module's docstring."""
    data = Path(sys.argv[1]) / "data"
    found = {name: compared(data, name) for name in CAUSES}
    print("| job | first finding | S, theirs | M_W, theirs | M_S, theirs | S_w, largest difference |")
    print("|---|---|---|---|---|---|")
    for name, one in found.items():
        pairs = [f"{ours:.3f}, {theirs:.3f}" for ours, theirs in (one["S"], one["M_W"], one["M_S"])]
        print(f"| {name} | {one['first']} | {' | '.join(pairs)} | {one['workers_off_percent']:.2f} % |")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
