"""What limits a step of one rank on a GPU: what a report predicts, and the program really changed; as JSON.

Run: python -m tests.benchmarks.gpu_limits [--keep FOLDER] [CAUSE ...]

Records `tests/runtime/programs/gpu_step.py` with each cause, and runs it with half of the cause, or without it. The
finding is the first of that kind; its predicted step stands beside the step of the changed program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import gpu_runs


@dataclass(frozen=True)
class Cause:
    """What is planted."""

    kind: str
    function: str
    left: str
    """How much of it the changed program has: 0.5 or 0."""


CAUSES = {
    "waits": Cause("sync-bound", "check", "0"),
    "loading": Cause("input-bound", "", "0.5"),
    "copies": Cause("copy-bound", "bring", "0.5"),
    "kernels": Cause("device-bound", "order", "0.5"),
    "launches": Cause("launch-bound", "add", "0.5"),
}


def judged(cause: Cause, report: dict[str, Any], before_ms: float, after_ms: float) -> dict[str, Any]:
    """A report beside the programs."""
    findings = report["findings"]
    first = findings[0] if findings else {}
    right = first.get("kind") == cause.kind and first.get("function", "").startswith(cause.function)
    evidence = first.get("evidence", {})
    predicted_s = evidence.get("half_step_s" if cause.left == "0.5" else "without_step_s", 0.0)
    return {
        "right": right,
        "kind": first.get("kind", ""),
        "function": first.get("function", ""),
        "before_ms": before_ms,
        "step_ms": 1e3 * evidence.get("step_s", 0.0),
        "predicted_ms": 1e3 * predicted_s,
        "really_ms": after_ms,
    }


def measure(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Record, change, and say what is found."""
    runs = {name: folder / name for name in names}
    before = {name: gpu_runs.step_ms(gpu_runs.Job("gpu_step.py", (name, "1")), runs[name]) for name in names}
    after = {name: gpu_runs.step_ms(gpu_runs.Job("gpu_step.py", (name, CAUSES[name].left)), None) for name in names}
    reports = gpu_runs.all_analysed(list(runs.values()))
    return {
        name: judged(CAUSES[name], report, before[name], after[name])
        for name, report in zip(names, reports, strict=True)
    }


if __name__ == "__main__":
    gpu_runs.main(__doc__, tuple(CAUSES), measure)
