"""Workloads for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalana.workload.trajectories import Workload
from scalana.workload.workload_file import made_of


def workload(lengths: Sequence[Sequence[float]], answers: int = 1, **more: Any) -> Workload:
    """Steps of single turns: ``lengths`` is ``[steps][trajectories]``, ``answers`` how many follow each other that are
    to one prompt; ``more`` is the same for all trajectories."""
    rows = []
    for step, row in enumerate(lengths):
        for number, tokens in enumerate(row):
            entry = {"step": step, "group": number // answers, "prompt": 10.0, "response": float(tokens)}
            entry |= {"verifier_s": math.nan, "replica": -1, "begin_s": math.nan, "end_s": math.nan, "clipped": False}
            rows.append({**entry, "turns": [(10.0, float(tokens), 0.0)], **more})
    return made_of(rows, "token", "an example")


def with_groups(seed: int, prompts: int, answers: int, between: float, within: float) -> Workload:
    """Lognormal lengths with known variances of their logs, over and in prompts."""
    random = np.random.default_rng(seed)
    mean = random.normal(6.0, between, prompts)
    logs = random.normal(np.repeat(mean, answers), within)
    return workload([np.maximum(np.round(np.exp(logs)), 1.0).tolist()], answers)
