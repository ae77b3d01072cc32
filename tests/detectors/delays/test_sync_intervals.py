"""From when on what ranks do is compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.delays.sync_intervals import _left_calls, find_sync_intervals
from scalana.detectors.delays.wait_states import WaitStates
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


@pytest.mark.parametrize(("asked_s", "left", "early_s"), [(0.2, 1, -np.inf), (3.0, 0, 0.5)], ids=["waits", "overlaps"])
def test_a_collective_that_was_complete_is_left_when_all_had_posted_it(
    asked_s: float, left: int, early_s: float
) -> None:
    """Two ranks post an allreduce, at 0 and 0.5 s, and wait for it later; calls 0 and 1 are those of the first."""
    timeline = _posted_by_two("allreduce", [0.0, asked_s, 0.5, 5.0], [0.0, asked_s + 0.6, 0.5, 5.0])
    found, were_early_s = _left_calls(timeline, np.array([1, 3]), np.array([0.5]))
    assert found.tolist() == [left, 2]  # the other one computed after it had posted
    assert were_early_s.tolist() == [early_s, 0.5]


@pytest.mark.parametrize(("out_s", "left"), [(0.6, 2), (3.1, 3)], ids=["complete", "only when it was back"])
def test_what_another_one_had_to_wait_for_was_not_complete(out_s: float, left: int) -> None:
    """The first rank posts a message and waits for it from 0.2 s on; the second posts at 0.5 s and asks at 3 s."""
    timeline = _posted_by_two("send", [0.0, 0.2, 0.5, 3.0], [0.0, out_s, 0.5, 3.1])
    found, _ = _left_calls(timeline, np.array([1, 3]), np.array([0.5]))
    assert found.tolist() == [1, left]


def test_what_was_not_complete_when_a_wait_began_is_no_common_start() -> None:
    """Ranks 0 and 1 post a barrier at 1 s, which rank 2 lets wait until 5 s; rank 0 waits for it and then sends, rank 1
    waits for the message meanwhile, and asks for the barrier then."""
    enter_s = [0.0, 1.0, 1.0, 5.1, 0.0, 1.0, 1.0, 5.2, 0.0, 5.0, 5.0]
    exit_s = [0.0, 1.0, 5.0, 5.1, 0.0, 1.0, 5.1, 5.2, 0.0, 5.0, 5.0]
    posts = [0, 1, -1, 2, 0, 1, 2, -1, 0, 1, -1]
    asks = [[0], [], [1], [], [0], [], [2], [1], [0], [], [1]]
    calls = SimpleNamespace(
        location=np.repeat([0, 1, 2], [4, 4, 3]),
        first=np.array([0, 4, 8, 11]),
        enter_s=np.array(enter_s),
        exit_s=np.array(exit_s),
        posts=np.array(posts),
        wait_first=np.cumsum([0] + [len(ask) for ask in asks]),
        waits=np.array([instance for ask in asks for instance in ask]),
    )
    instances = _Instances(
        operation=np.array([BY_NAME[name].code for name in ("barrier", "barrier", "send")]),
        first=np.array([0, 3, 6, 8]),
        members=np.array([0, 4, 8, 1, 5, 9, 3, 6]),
        complete=np.ones(3, bool),
    )
    wait_s, culprit, instance = np.zeros(11), np.full(11, -1), np.full(11, -1)
    wait_s[6], culprit[6], instance[6] = 4.1, 3, 2
    timeline: Any = SimpleNamespace(calls=calls, instances=instances, locations=range(3))
    found = find_sync_intervals(timeline, WaitStates(wait_s, culprit, instance))
    assert (found.since_culprit.tolist(), found.since_call.tolist()) == ([0], [4])
