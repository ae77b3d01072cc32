"""Faults planted in DDP over NCCL on ranks that share a GPU, beside what a report says of them; as JSON.

Run: python -m tests.benchmarks.gpu_causes [--keep FOLDER] [CASE ...]

Records `tests/runtime/programs/gpu_ddp.py` without a fault and with each: two and four ranks that use the GPU in turns,
and two that have half of its processors each (``apart``, by CUDA's Multi-Process Service, where it can be started). In
turns, what one rank does more delays the others' kernels too; apart it does not. Of each: whether the first finding has
its kind and rank, the saving, and by how much all steps but the first are longer, as rank 0 prints it.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.tools import mps

from . import gpu_runs

KINDS = {"nothing": "", "host": "launch-gap", "kernels": "device-late", "rows": "device-late"}
STEPS = 39
"""Those that a saving is of: all but the first, of which nothing is marked."""
CASES = {
    "2": (2, ("nothing", "host", "kernels", "rows")),
    "4": (4, ("nothing", "host", "kernels")),
    "apart": (2, ("nothing", "host", "kernels", "rows")),
}


def case_of(name: str, folder: Path) -> dict[str, Any]:
    """Records one case; says why not, where that is impossible here."""
    ranks, faults = CASES[name]
    environment = {"TORCH_NCCL_ENABLE_TIMING": "1"}
    with ExitStack() as stack:
        if name == "apart":
            if not mps.control():
                return {"not measured": f"there is no {mps.CONTROL}"}
            work = stack.enter_context(tempfile.TemporaryDirectory(prefix="mps-"))
            try:
                environment |= stack.enter_context(mps.sharing(work, ranks))
            except (OSError, subprocess.SubprocessError) as error:
                return {"not measured": f"{mps.CONTROL} does not start: {error}"}
        jobs = {fault: gpu_runs.Job("gpu_ddp.py", (fault,), ranks, environment) for fault in faults}
        runs = {fault: folder / f"{name}-{fault}" for fault in faults}
        steps_ms = {fault: gpu_runs.step_ms(job, runs[fault]) for fault, job in jobs.items()}
    return {fault: {"step_ms": steps_ms[fault], "run": runs[fault]} for fault in faults}


def judged(case: dict[str, Any], reports: dict[Path, dict[str, Any]]) -> dict[str, Any]:
    """What the reports of a case say."""
    base_ms = case["nothing"]["step_ms"]
    found = {}
    for fault, one in case.items():
        findings = reports[one["run"]]["findings"]
        first = findings[0] if findings else {"kind": "", "ranks": [], "saving_s": 0.0}
        found[fault] = {
            "right": (first["kind"], first["ranks"]) == (KINDS[fault], [1] if KINDS[fault] else []),
            "kind": first["kind"],
            "step_ms": one["step_ms"],
            "costs_s": STEPS * (one["step_ms"] - base_ms) / 1e3,
            "saving_s": first["saving_s"],
        }
    return found


def measure(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Record, and say what is found."""
    recorded = {name: case_of(name, folder) for name in names}
    cases = {name: case for name, case in recorded.items() if "nothing" in case}
    runs = [one["run"] for case in cases.values() for one in case.values()]
    reports = dict(zip(runs, gpu_runs.all_analysed(runs), strict=True))
    return {**recorded, **{name: judged(case, reports) for name, case in cases.items()}}


if __name__ == "__main__":
    gpu_runs.main(__doc__, tuple(CASES), measure)
