"""What ranks wait for data, and what is left of that with more workers: against a loader that is played."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.sources.data_waits import DataWaits

NO_STEPS = np.zeros((0, 1))
AHEAD = 2
"""Batches that each worker makes ahead."""


def played(made_s: float, own_s: float, workers: int, batches: int = 400) -> tuple[float, float]:
    """Seconds of a step, and of waiting in it, of a loop that takes a batch and works ``own_s``; batch ``n`` is made by
    worker ``n % workers`` in ``made_s``, as soon as it is asked for. The first half does not count."""
    if workers == 0:
        return made_s + own_s, made_s
    free, asked = [0.0] * workers, [0.0] * min(AHEAD * workers, batches)
    begun, waited = [0.0], []
    for batch in range(batches):
        worker = batch % workers
        free[worker] = max(free[worker], asked[batch]) + made_s
        taken = max(begun[-1], free[worker])
        asked.append(taken)
        waited.append(taken - begun[-1])
        begun.append(taken + own_s)
    half = batches // 2
    return (begun[-1] - begun[half]) / half, sum(waited[half:]) / half


@pytest.mark.parametrize("own_ms", [5.0, 40.0])
@pytest.mark.parametrize("made_ms", [60.0, 100.0])
@pytest.mark.parametrize("workers", [0, 1])
def test_what_more_workers_leave_is_what_comes_out(own_ms: float, made_ms: float, workers: int) -> None:
    step_ms, wait_ms = played(made_ms, own_ms, workers)
    waits = DataWaits(
        np.zeros(0, np.int64), np.zeros(0, np.int64), 100, np.array([step_ms / 1e3]), np.array([wait_ms / 1e3]),
        np.array([workers]), NO_STEPS,
    )  # fmt: skip
    for more in (2, 4, 8):
        left = float(waits.left(more, np.zeros(1))[0]) * wait_ms
        assert step_ms - wait_ms + left == pytest.approx(played(made_ms, own_ms, more)[0], rel=0.03)


def test_no_more_than_the_cores_can_do() -> None:
    waits = DataWaits(
        np.zeros(0, np.int64), np.zeros(0, np.int64), 100, np.array([0.1]), np.array([0.09]), np.array([1]), NO_STEPS
    )
    assert waits.left(8, np.zeros(1)) == pytest.approx([(0.1 / 8 - 0.01) / 0.09])
    assert waits.left(8, np.array([0.055])) == pytest.approx([0.5])
    assert waits.left(8, np.array([0.2])) == pytest.approx([1.0])
