"""Rounds of moments that follow each other: unchanged, and with less of something, against a simulation of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.whatif.device_replay import shorter
from scalana.detectors.whatif.moments import Links, Moments

KERNELS = 5


def played(launch_s: float, kernel_s: float, sync: bool, rounds: int = 60) -> list[list[float]]:
    """A host that launches kernels, and waits for the last of a round or goes on: when it launches each, and when each
    ends, of every round."""
    host = device = 0.0
    found = []
    for _ in range(rounds):
        times = []
        for _ in range(KERNELS):
            host += launch_s
            device = max(device, host) + kernel_s
            times += [host, device]
        if sync:
            host = max(host, device)
        found.append([*times, host])
    return found


def moments_of(launch_s: float, kernel_s: float, sync: bool) -> tuple[Moments, np.ndarray, np.ndarray]:
    """The last round of it, the links of launches, and those of kernels and, at last, of waiting for them."""
    before, now = played(launch_s, kernel_s, sync)[-2:]
    at = np.array(now)
    launches, ends, last = np.arange(0, 2 * KERNELS, 2), np.arange(1, 2 * KERNELS, 2), 2 * KERNELS
    later = [*launches, *ends, *ends[1:], ends[0], last]
    earlier = [last, *launches[:-1], *launches, *ends[:-1], ends[-1], launches[-1]]
    seconds = [launch_s] * KERNELS + [kernel_s] * KERNELS + [kernel_s] * KERNELS + [0.0]
    behind = [True, *[False] * (KERNELS - 1), *[False] * KERNELS, *[False] * (KERNELS - 1), True, False]
    # A host that does not wait runs ahead, but not for ever: something holds it, wherever that is.
    held = [last, ends[-1], False] if sync else [launches[0], ends[-1], True]
    later, earlier, seconds, behind = [*later, held[0]], [*earlier, held[1]], [*seconds, 0.0], [*behind, held[2]]
    links = Links(np.array(later), np.array(earlier), np.array(seconds), np.array(behind))
    tie = np.arange(len(at))
    round_s = max(at[-1] - before[-1], at[-2] - before[-2])
    moments, where = Moments.of(at, tie, float(round_s), links)
    return moments, where[:KERNELS], where[KERNELS:]


def length_s(launch_s: float, kernel_s: float, sync: bool) -> float:
    """What a round takes in the long run: as long as the slower of host and device."""
    rows = np.array(played(launch_s, kernel_s, sync))
    return float((rows[-1] - rows[-2]).max())


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(("launch_s", "kernel_s"), [(1.0, 3.0), (3.0, 1.0), (2.0, 2.0)])
def test_rounds_take_what_they_take(launch_s: float, kernel_s: float, sync: bool) -> None:
    moments, launches, kernels = moments_of(launch_s, kernel_s, sync)
    assert moments.changed_round_s(np.zeros(len(moments.links.seconds))) == pytest.approx(moments.round_s)
    for part in (0.25, 0.5, 1.0):
        for rows, changed in (
            (launches, (launch_s * (1 - part), kernel_s)),
            (kernels, (launch_s, kernel_s * (1 - part))),
        ):
            removed = np.zeros(len(moments.links.seconds))
            removed[rows[: 2 * KERNELS]] = part * (launch_s if rows is launches else kernel_s)
            assert moments.changed_round_s(removed) == pytest.approx(length_s(*changed, sync))


def test_without_the_wait_the_host_runs_ahead() -> None:
    moments, _, kernels = moments_of(1.0, 3.0, True)
    removed = np.zeros(len(moments.links.seconds))
    removed[kernels[-1]] = np.inf
    assert moments.changed_round_s(removed) == pytest.approx(length_s(1.0, 3.0, False))


def test_the_critical_path_is_a_round_long() -> None:
    for launch_s, kernel_s, sync in ((1.0, 3.0, True), (3.0, 1.0, True), (1.0, 3.0, False)):
        moments, *_ = moments_of(launch_s, kernel_s, sync)
        assert moments.critical_s().sum() == pytest.approx(moments.round_s)


def test_links_that_clocks_contradict_are_left_out() -> None:
    at = np.array([0.0, 1.0, 2.0])
    links = Links(np.array([1, 0, 2]), np.array([0, 2, 1]), np.array([1.0, 1.0, 0.5]), np.array([False, False, False]))
    moments, where = Moments.of(at, np.zeros(3, np.int64), 2.0, links)
    assert where.tolist() == [0, -1, 1]
    assert moments.links.seconds.tolist() == [1.0, 1.0], "what is not explained lies in the last link"


def test_a_round_in_which_no_host_waits_has_no_wait_to_take_out() -> None:
    none = SimpleNamespace(link=np.zeros(0, np.int64), rank=np.zeros(0, np.int64), seconds=np.zeros(0))
    links = SimpleNamespace(seconds=np.array([1.0, 2.0]))
    of: Any = SimpleNamespace(waits=none, moments=SimpleNamespace(links=links), begin_s=np.zeros(2))
    assert shorter(1.0, "waits")(of).tolist() == [0.0, 0.0]
