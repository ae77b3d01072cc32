"""From when on what ranks do is compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.stretches import _left_calls
from scalana.runtime.operations import BY_NAME


class _Instances(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.operation)


def _posted_by_two(operation: str, enter_s: list[float], exit_s: list[float]) -> Any:
    """Two ranks post one operation and wait for it: calls 0 and 1 are those of the first rank."""
    instances = _Instances(
        members=np.array([0, 2]),
        first=np.array([0, 2]),
        operation=np.array([BY_NAME[operation].code]),
        complete=np.array([True]),
    )
    calls = SimpleNamespace(enter_s=np.array(enter_s), exit_s=np.array(exit_s))
    return SimpleNamespace(calls=calls, instances=instances)


@pytest.mark.parametrize(("asked_s", "left", "early"), [(0.2, 1, False), (3.0, 0, True)], ids=["waits", "overlaps"])
def test_a_collective_that_was_complete_is_left_when_all_had_posted_it(asked_s: float, left: int, early: bool) -> None:
    """Two ranks post an allreduce, at 0 and 0.5 s, and wait for it later; calls 0 and 1 are those of the first."""
    timeline = _posted_by_two("allreduce", [0.0, asked_s, 0.5, 5.0], [0.0, asked_s + 0.6, 0.5, 5.0])
    found, was_early = _left_calls(timeline, np.array([1, 3]))
    assert found.tolist() == [left, 2]  # the other one computed after it had posted
    assert was_early.tolist() == [early, True]


@pytest.mark.parametrize(("out_s", "left"), [(0.6, 2), (3.1, 3)], ids=["complete", "only when it was back"])
def test_what_another_one_had_to_wait_for_was_not_complete(out_s: float, left: int) -> None:
    """The first rank posts a message and waits for it from 0.2 s on; the second posts at 0.5 s and asks at 3 s."""
    timeline = _posted_by_two("send", [0.0, 0.2, 0.5, 3.0], [0.0, out_s, 0.5, 3.1])
    found, _ = _left_calls(timeline, np.array([1, 3]))
    assert found.tolist() == [1, left]
