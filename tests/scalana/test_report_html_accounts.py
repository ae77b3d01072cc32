"""Accounts of devices and of reinforcement learning on the page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.device.account import DeviceAccount
from scalana.detectors.rl.account import NOBODY, Bar, RLAccount, StepPicture
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.topics import device, rl
from tests.scalana.pages import drawn


def analysis(name: str, account: object) -> Any:
    return SimpleNamespace(findings=[], sections={name: account}, ppg=SimpleNamespace(run=RunInfo(ranks=2)))


def loop(bars: int = 4) -> RLAccount:
    made = [Bar(number % 2, 0.1 * number, 0.1 * number + 0.1, "generation", False) for number in range(bars)]
    return RLAccount(
        framework="trl",
        roles={"trainer": [0, 1]},
        step_s=np.array([1.0, 3.0]),
        keys=("generation", "long-tail", "training"),
        texts=("generation", "waiting: <long> tail", "training"),
        seconds=np.array([[1.0, 2.0], [0.5, 2.5], [0.5, 1.5]]),
        total_s=8.0,
        worst=np.array([NOBODY, 1, NOBODY]),
        floor_s=float("nan"),
        sequence_s=float("nan"),
        tail=float("nan"),
        picture=StepPicture(1, 3.0, made),
    )


def test_reinforcement_learning_has_its_causes_its_steps_and_its_picture() -> None:
    seen = drawn(rl.sections(analysis("rl", loop())))
    assert sum(seen.widths()) == pytest.approx(100, abs=0.1)
    assert "trl 2 steps of 2.00 s" in seen.text
    assert f"waiting: <long> tail {names.percent(3 / 8)} 1.50 s rank 1" in seen.text
    assert [tag for tag, _ in seen.elements].count("svg") == 1


def test_a_picture_that_is_too_large_is_left_out() -> None:
    seen = drawn(rl.sections(analysis("rl", loop(8000))))
    assert "too large for this page" in seen.text and "svg" not in [tag for tag, _ in seen.elements]


def test_devices_have_a_bar_that_adds_up() -> None:
    account = DeviceAccount(10.0, 5.0, 2.0, 1.0, 2.0, 1.0, [0, 1], [(1, "stream <7>", 3.0, 12)])
    seen = drawn(device.sections(analysis("device", account)))
    assert seen.widths() == pytest.approx([50.0, 20.0, 10.0, 20.0])
    assert "waiting for other ranks 20 % 2.00 s" in seen.text and "stream <7> of rank 1 3.00 s" in seen.text
