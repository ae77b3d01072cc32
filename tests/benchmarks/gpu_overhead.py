"""What recording adds to a step on a GPU: the same program in turns with and without it; as JSON.

Run: python -m tests.benchmarks.gpu_overhead [MODEL ...]

``short``: a model whose kernels take less than launching them, so that all that the host does more makes a step longer.
``long``: one whose kernels take longer. Each turn is a process of its own; what is compared are the medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import gpu_runs

STEPS = {"short": "600", "long": "60"}
TURNS = 2


def measure(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run in turns: which is first changes each time."""
    found = {}
    for name in names:
        job = gpu_runs.Job("gpu_step.py", (name, "1", STEPS[name]))
        steps: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(TURNS):
            for recorded in (True, False) if turn % 2 else (False, True):
                steps[recorded].append(gpu_runs.step_ms(job, folder / f"{name}-{turn}" if recorded else None))
        with_ms, without_ms = statistics.median(steps[True]), statistics.median(steps[False])
        found[name] = {
            "with_ms": steps[True],
            "without_ms": steps[False],
            "percent": 100 * (with_ms / without_ms - 1),
        }
    return found


if __name__ == "__main__":
    gpu_runs.main(__doc__, tuple(STEPS), measure)
