"""A step is limited by cores only where the job itself keeps them busy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.run import analyze
from tests.graphs.runs import FILE, allreduce, build, make_ranks

STEPS, STEP_MS, CORES = 20, 40, 4
ON_A_CORE = 0.5
"""Part of its own work that a rank has a core for."""


def findings(folder: Path, helpers_s: float, before_ms: int = 0) -> list[tuple[str, list[int]]]:
    """Of two ranks that wait for a core half of the time, and whose children compute so long in all."""
    ranks = make_ranks(folder, 2)
    for rank in ranks:
        rank.work([(FILE, "prepare", 3)], 100 + before_ms)
    for number in range(STEPS):
        for rank in ranks:
            begin = rank.now
            rank.work([(FILE, "compute", 20)], STEP_MS, ON_A_CORE)
            rank.marked_step(number, begin)
        allreduce(ranks, number + 1)
    for rank in ranks:
        rank.end()
    ppg = build(folder, command=["train"])
    own = ppg.timeline.own
    own.core_wait_s[:] = np.maximum(own.seconds - own.cpu_s, 0.0)
    alone = int(np.flatnonzero(ppg.metrics["time_s"].sum(axis=1) == 0.0)[-1])
    ppg.metrics["helper_cpu_s"][alone] = helpers_s / 2
    return [(one.kind, one.ranks) for one in analyze(ppg).findings]


@pytest.mark.parametrize(
    ("busy", "before_ms", "found"),
    [(CORES, 0, True), (CORES, 2000, True), (1, 0, False)],
    ids=["the job", "the job, after a long start", "other programs"],
)
def test_the_job_has_to_keep_the_cores_busy_in_its_steps(
    tmp_path: Path, busy: int, before_ms: int, found: bool
) -> None:
    steps_s = STEPS * STEP_MS * 1e-3
    helpers_s = busy * steps_s - 2 * ON_A_CORE * steps_s
    assert (("core-bound", [0, 1]) in findings(tmp_path, helpers_s, before_ms)) is found
