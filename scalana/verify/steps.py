"""Have the steps of a workload played by real processes, as a replay has them, and read what was recorded of it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from scalana.errors import CommandError
from scalana.verify.run import Runner, run_job
from scalana.workload.replay import Replayed
from scalana.workload.sources import read_workload
from scalana.workload.step_costs import GENERATION, ORDER
from scalana.workload.trajectories import Workload

RUNNER = Runner("rl_steps", "torch", "torch", "torch")
MOST_RANKS = 64
"""Processes of one machine."""
_LEAST_S = 1e-3
"""Of a phase that delimits steps."""
TRAINING = "training"


def plan_of(workload: Workload, replayed: Replayed) -> dict[str, Any]:
    """What each rank does in each step, as plain data.

    Raises:
        CommandError: the steps of the replay overlap, or it has too many replicas.
    """
    if not replayed.spent_s:
        name = replayed.setting.policy
        raise CommandError(f"--policy {name}: its steps overlap, so that it can be simulated only; remove --record", 2)
    ranks = len(replayed.spent_s[GENERATION])
    if ranks > MOST_RANKS:
        raise CommandError(f"--record: {ranks} processes are too many for one machine, at most {MOST_RANKS}", 2)
    costs, begins = replayed.setting.steps, np.concatenate(([0.0], np.cumsum(replayed.step_s)[:-1]))
    phases = dict(replayed.spent_s)
    phases[TRAINING] = np.maximum(phases.get(TRAINING, np.zeros((ranks, workload.steps))), _LEAST_S)
    order = [name for name in ORDER if name in phases]
    steps: list[list[dict[str, Any]]] = []
    for step in range(workload.steps):
        each = [{"phases": {name: float(phases[name][rank, step]) for name in order}} for rank in range(ranks)]
        steps.append([one | {"trajectories": []} for one in each])
    for row in range(len(workload)):
        step, rank = int(workload.step[row]), int(replayed.replica[row])
        moments = (float(moment[row] - begins[step]) for moment in (replayed.begin_s, replayed.end_s))
        prompt = int(np.nan_to_num(workload.prompt[row]))
        named = [int(workload.response[row]), int(workload.group[row]), prompt, f"{step}.{rank}.{row}"]
        steps[step][rank]["trajectories"].append([*moments, *named])
    meets = costs.meets if costs is not None else frozenset({GENERATION})
    return {
        "steps": steps,
        "order": order,
        "meets": sorted({*meets, order[-1]}),
        "rest_s": max(costs.rest_s, 0.0) if costs is not None else 0.0,
    }


def play(workload: Workload, replayed: Replayed, folder: str) -> Workload:
    """Play a replay, record it into a folder, and read that as a workload again.

    Raises:
        CommandError: it cannot be played, or the folder holds something already.
    """
    if os.path.isdir(folder) and os.listdir(folder):
        raise CommandError(f"--record {folder}: the folder holds something already; choose another one", 2)
    plan = plan_of(workload, replayed)
    with tempfile.TemporaryDirectory(prefix="scalana-play-") as name:
        job = {
            "plan": plan,
            "record": os.path.abspath(folder),
            "ranks": len(plan["steps"][0]),
            "microbatches": 0,
            "slack_s": 0.0,
            "meeting": os.path.join(name, "meeting"),
        }
        file = Path(name) / "job.json"
        file.write_text(json.dumps(job), encoding="utf-8")
        run_job(RUNNER, file, RUNNER.patience_s + 3 * replayed.total_s)
    return read_workload([folder])
