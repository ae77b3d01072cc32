"""Delay costs of any kind of location, a thread or a stream of a device: excess, waits that are handed on, and lateness
from before the last common operation.

A cause is anything that can be a key. Compare Böhme, Geimer, Wolf, Arnold (ICPP 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from scalana.detectors.thresholds.limits import FLOW_STEPS, FURTHEST_BACK
from scalana.detectors.thresholds.shares import WORTH_FOLLOWING
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray

Cause = TypeVar("Cause")
Place = TypeVar("Place")


@dataclass(slots=True)
class Shares:
    """How each wait, or group of waits, is split. Per wait the shares of both tables add up to 1."""

    group: IntArray
    """The wait ``[rows]``."""
    target: IntArray
    """The cause ``[rows]``."""
    share: FloatArray
    handed_from: IntArray
    handed_to: IntArray
    """Waits of the culprit to which a share is handed on ``[hand-overs]``."""
    handed_share: FloatArray

    @classmethod
    def of(cls, kept: Iterable[tuple[int, int, float]], handed: Iterable[tuple[int, int, float]]) -> Shares:
        """From rows of both tables."""
        columns = [column for rows in (kept, handed) for column in np.array([*rows], np.float64).reshape(-1, 3).T]
        group, target, handed_from, handed_to = (columns[place].astype(np.int64) for place in (0, 1, 3, 4))
        return cls(group, target, columns[2], handed_from, handed_to, columns[5])


def propagate(wait_s: FloatArray, shares: Shares) -> tuple[FloatArray, FloatArray]:
    """Hand the waits on until they rest.

    Returns the seconds that passed through each wait, and those that were still under way when it was stopped. With
    these, ``flow[group] * share`` adds up to all waiting.
    """
    count = len(wait_s)
    flow = wait_s.copy()
    moving = wait_s.copy()
    enough = 1e-12 * max(float(wait_s.sum()), 1e-300)
    for _ in range(FLOW_STEPS):
        moving = weighted_count(shares.handed_to, moving[shares.handed_from] * shares.handed_share, count)
        if moving.sum() <= enough:
            return flow, np.zeros(count)
        flow += moving
    flow -= moving
    return flow, moving


def excess(did: Mapping[Cause, float], usual: Mapping[Cause, float]) -> dict[Cause, float]:
    """The seconds by which a location did more of something than is usual."""
    return {cause: more for cause, seconds in did.items() if (more := seconds - usual.get(cause, 0.0)) > 0.0}


@dataclass(frozen=True, slots=True)
class IntervalDelays(Generic[Cause, Place]):
    """What made one location later than another by the end of an interval."""

    delays: list[tuple[Cause, float]]
    """What it did more since the interval began, each with its seconds."""
    carried_s: float
    """By how much it was later when the interval began; negative where the other one was."""
    before: Place | None
    """The end of the interval before, None where the record begins with this one."""


def follow_back(
    end: Place,
    delays_until: Callable[[Place], IntervalDelays[Cause, Place]],
    skew: Callable[[Place], Cause],
    part: float = 1.0,
) -> tuple[list[tuple[Cause, float]], float]:
    """Divide a lateness (a part of it) over its causes, back to where it arose.

    A location that is late stays late until the other one has nothing to do but wait for it: the cause may lie before
    operations that both have left since.

    Args:
        end: of the last interval.
        delays_until: what happened in the interval that ends there.
        skew: the cause of what is older than the record, of which an interval is the first one.
        part: what is divided.

    Returns:
        Causes with their parts, and what none explains; these add up to ``part``.
    """
    found: list[tuple[Cause, float]] = []
    for _ in range(FURTHEST_BACK):
        if part < WORTH_FOLLOWING:
            break
        interval = delays_until(end)
        carried_s = max(interval.carried_s, 0.0)
        whole_s = carried_s + sum(seconds for _, seconds in interval.delays)
        if whole_s <= 0.0:
            break
        found += [(cause, part * seconds / whole_s) for cause, seconds in interval.delays]
        part *= carried_s / whole_s
        if interval.before is None:
            return [*found, (skew(end), part)], 0.0
        end = interval.before
    return found, part
