"""What faster work brings next to loaders whose workers never rest: against a loader that is played."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.limits.data.loader_pace import LoaderPace
from tests.detectors.sources.test_data_waits import played


@pytest.mark.parametrize("part", [0.5, 0.9])
@pytest.mark.parametrize("own_ms", [5.0, 28.0, 45.0])
@pytest.mark.parametrize("workers", [1, 2])
def test_faster_work_next_to_loaders_that_never_rest_waits_longer(own_ms: float, workers: int, part: float) -> None:
    made_ms = 50.0 * workers
    step_ms, wait_ms = played(made_ms, own_ms, workers)
    one = np.array([True])
    pace = LoaderPace(100, one, np.array([step_ms]), np.array([wait_ms]), one, np.array([wait_ms]))
    own, theirs = np.array([part * own_ms]), np.array([part * wait_ms])
    for removed, again in (
        ((own, np.zeros(1)), played(made_ms, (1.0 - part) * own_ms, workers)),
        ((np.zeros(1), theirs), played((1.0 - part) * made_ms, own_ms, workers)),
        ((own, theirs), played((1.0 - part) * made_ms, (1.0 - part) * own_ms, workers)),
    ):
        left_ms = step_ms - float(pace.gained(*removed)[0]) * float(sum(removed)[0])
        assert left_ms == pytest.approx(again[0], rel=0.03)


def test_ranks_whose_workers_rest_gain_what_is_taken_out() -> None:
    pace = LoaderPace(
        100, np.array([True, False]), np.full(2, 50.0), np.full(2, 20.0), np.array([True]), np.full(2, 20.0)
    )
    assert pace.gained(np.full(2, 10.0), np.zeros(2)) == pytest.approx([0.0, 1.0])
