"""Calls that pools did, by name."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from scalana.graphs.readers.columns.span_reading import Lanes
from scalana.graphs.spans.tasks import NamedTasks


def test_calls_in_helpers_of_a_rank_are_none_of_the_rank() -> None:
    """Rank 0 has a location, and a helper with threads of its own; of rank 1 nothing is known but threads."""
    lanes = Lanes(
        process=np.array([0, 0, 1, 2]),
        rank=np.array([0, 0, 0, 1]),
        kind=np.zeros(4, np.int64),
        thread=np.arange(4),
        name=np.zeros(4, np.int64),
        location=np.array([0, -1, -1, -1]),
    )
    seconds, lane = np.arange(3.0), np.array([1, 2, 3])
    columns = np.arange(3), lanes.rank[lane], lane, seconds, seconds + 0.5, seconds, seconds
    tasks = NamedTasks(SimpleNamespace(lanes=lanes), *columns)  # type: ignore[arg-type]
    assert tasks.of_ranks().lane.tolist() == [1, 3]
