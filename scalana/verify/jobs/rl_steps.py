"""Ranks that play the steps of a workload: real collectives of gloo, and sleeps where a device would compute. Recorded.

python -m scalana.verify.jobs.rl_steps JOB.json
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

import scalana
from scalana.verify.jobs.emulation import Job, sleep_until, start

GENERATION, WEIGHTS = "generation", "weight-sync"
ELEMENTS = 10_000
"""Of what is reduced or sent where ranks meet."""


def generate(begin_s: float, rows: list[list[Any]]) -> None:
    """Begin and end trajectories when a replay has them begin and end: seconds since the step began, tokens, prompt's
    number, its tokens, name."""
    marks: dict[int, Any] = {}
    moments = [(row[0], 1, number) for number, row in enumerate(rows)]
    moments += [(row[1], 0, number) for number, row in enumerate(rows)]
    for moment_s, begins, number in sorted(moments):
        sleep_until(begin_s + moment_s)
        _, _, tokens, group, prompt, name = rows[number]
        if begins:
            mark = scalana.rl.trajectory(name, group=group, prompt_tokens=prompt, lane=f"slot {number}")
            marks[number] = mark.begin()
        else:
            marks.pop(number).end(tokens=tokens)


def play_step(mine: dict[str, Any], plan: dict[str, Any], values: torch.Tensor) -> None:
    """Run one step of a rank, phase by phase."""
    at_s = time.monotonic()
    for name in plan["order"]:
        with scalana.rl.phase(name):
            if name == GENERATION:
                generate(at_s, mine["trajectories"])
            at_s += mine["phases"].get(name, 0.0)
            sleep_until(at_s)
            if name == WEIGHTS:
                dist.broadcast(values, 0)
            if name in plan["meets"]:
                dist.all_reduce(values)
                at_s = time.monotonic()
    sleep_until(at_s + plan["rest_s"])


def play(job: Job) -> None:
    """Run the steps of a rank."""
    job.meet()
    plan = job.told["plan"]
    values = torch.ones(ELEMENTS)
    with scalana.profile(job.told["record"]):
        dist.barrier()
        for step in plan["steps"]:
            play_step(step[job.rank], plan, values)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    start(play)
