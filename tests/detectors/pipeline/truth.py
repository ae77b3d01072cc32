"""What `tests/tools/pipeline_job.py` wrote down of itself, as rows of actions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from scalana.detectors.pipeline.measured.replayable import ActionRows, Between
from scalana.detectors.pipeline.model.actions import Kind


def read_truth(path: Path) -> tuple[ActionRows, Between]:
    """All steps but the first, in which torch infers shapes."""
    ranks = json.loads(path.read_text())["ranks"]
    rows = [row for rank in ranks for row in rank["rows"] if row[0] > 0]
    columns = list(zip(*rows))
    whole = [np.array(columns[i], np.int64) for i in (0, 1)]
    kind = np.array([Kind[name] for name in columns[2]], np.int64)
    whole += [kind, np.array(columns[3], np.int64), np.array(columns[4], np.int64)]
    seconds = [np.array([np.nan if x is None else x for x in columns[i]], float) for i in (5, 6, 7, 8)]
    actions = ActionRows(*whole, *seconds, np.array(columns[9], bool), np.array(columns[10], float))
    windows = [rank["windows"][1:] for rank in ranks]

    def table(later: str, earlier: str) -> np.ndarray:
        return np.array([[w[later] - w[earlier] for w in of_rank] for of_rank in windows]).T

    enter = np.array([[w["enter_s"] for w in of_rank] for of_rank in windows]).T
    nothing = np.zeros_like(enter)
    return actions, Between(enter, table("enter_s", "asked_s"), nothing, table("left_s", "done_s"))
