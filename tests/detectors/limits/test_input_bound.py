"""Which ranks have slow loaders: also those that wait for other ranks' data, as their own workers are a batch ahead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.limits import input_bound
from scalana.detectors.sources.data_waits import DataWaits

STEPS, STEP_S = 30, 0.12
RANKS = 3


def causes(monkeypatch: pytest.MonkeyPatch, wait_s: list[float], made_s: list[float]) -> list[Any]:
    """Of ranks with a worker each that wait so long in a step, and whose workers need so long for a batch: they were
    sampled in two lines, next to a third one that is not theirs."""
    none = np.zeros(0, np.int64)
    waits = DataWaits(
        none, none, STEPS, np.full(RANKS, STEP_S), np.array(wait_s), np.ones(RANKS, np.int64), np.zeros((STEPS, RANKS))
    )
    helper_s = np.array([np.array(made_s) * STEPS * part for part in (0.7, 0.3, 5.0)])
    activities = SimpleNamespace(vertex=np.array([0, 1, 2, 1]), helper=np.array([True, True, False, False]))
    facts: Any = SimpleNamespace(
        data_waits=waits,
        timeline=SimpleNamespace(activities=activities, ranks=RANKS),
        psg=[0, 1, 2],
        ppg=SimpleNamespace(metrics={"helper_s": helper_s}),
        steps=range(STEPS),
    )
    profile: Any = SimpleNamespace(has_steps=True)
    monkeypatch.setattr(input_bound, "loading_work", lambda *_: (np.array([0, 1, 3]), np.array([5.0, 2.0, 0.1])))
    monkeypatch.setattr(input_bound, "_finding", lambda *_: SimpleNamespace(ranks=list(range(RANKS))))
    return input_bound.input_bound(profile, facts)


@pytest.mark.parametrize(
    ("wait_s", "made_s", "found", "even"),
    [
        ([0.11, 0.11, 0.11], [0.118, 0.118, 0.118], True, True),
        ([0.11, 0.0, 0.005], [0.118, 0.117, 0.118], True, True),  # the others have a batch, and wait for the first one
        ([0.11, 0.0, 0.0], [0.118, 0.07, 0.07], True, False),
        ([0.11, 0.0, 0.0], [0.118, 0.01, 0.01], False, False),  # its loader alone is slow
        ([0.005, 0.0, 0.0], [0.118, 0.118, 0.118], False, False),  # nobody waits
    ],
    ids=["all wait", "one waits for all", "some slower", "one alone", "none"],
)
def test_ranks_whose_workers_need_a_step_for_a_batch_have_slow_loaders(
    monkeypatch: pytest.MonkeyPatch, wait_s: list[float], made_s: list[float], found: bool, even: bool
) -> None:
    some = causes(monkeypatch, wait_s, made_s)
    assert [one.is_even for one in some] == ([even] if found else [])
    assert [one.finding.ranks for one in some] == ([[0, 1, 2]] if found else [])
