"""What limits a step of one rank on a GPU: what a report predicts, and the program really changed; as JSON.

Run: python -m tests.benchmarks.gpu_limits [--keep FOLDER] [CAUSE ...]

Records `tests/runtime/programs/gpu_step.py` with each cause, and runs it with half of the cause, or without it. The
first finding with a kind and at a function of the cause has a predicted step, which stands beside that of the changed
program; ``first`` says whether no other finding comes before it.
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

    kinds: tuple[str, ...]
    """Any of these: of kernels that no mark stands between it is not known how many there are."""
    functions: tuple[str, ...]
    left: str
    """How much of it the changed program has: 0.5 or 0."""


CAUSES = {
    "waits": Cause(("sync-bound",), ("check",), "0"),
    "loading": Cause(("host-bound", "input-bound"), ("Rows.__getitem__",), "0.5"),
    "copies": Cause(("copy-bound",), ("bring", "<module>"), "0.5"),
    "kernels": Cause(("device-bound",), ("order",), "0.5"),
    "launches": Cause(("launch-bound", "host-bound"), ("add",), "0.5"),
}


def judged(cause: Cause, report: dict[str, Any], before_ms: float, after_ms: float) -> dict[str, Any]:
    """A report beside the programs."""
    findings = report["findings"]
    places = [(one["kind"], one["root"]["function"]) for one in findings]
    rows = [row for row, (kind, name) in enumerate(places) if kind in cause.kinds and name in cause.functions]
    found = findings[rows[0]] if rows else {"kind": "", "evidence": {}}
    evidence = found["evidence"]
    predicted_s = evidence.get("half_step_s" if cause.left == "0.5" else "without_step_s", 0.0)
    return {
        "right": bool(rows),
        "first": rows[:1] == [0],
        "kind": found["kind"],
        "all": places,
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
