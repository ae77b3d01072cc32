"""What a step of hosts and devices would take with less of something: the replay of all rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.whatif.device_rounds import Parts, Round
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.steps.periods import Periods

Removal = Callable[[Round], FloatArray]
"""Seconds that go from the links of a round ``[links]``."""


@dataclass(frozen=True, slots=True)
class DeviceReplay:
    """The steady state of a run with devices, ready to be replayed with changes."""

    rounds: Sequence[Round]
    ranks: list[int]
    """Those that have a record, and a device."""

    @property
    def steps(self) -> int:
        """That were looked at."""
        return sum(one.steps for one in self.rounds)

    @property
    def step_s(self) -> float:
        """What a step takes, the mean."""
        return sum(one.moments.round_s for one in self.rounds) / self.steps

    def changed_step_s(self, removal: Removal) -> float:
        """What a step takes without something."""
        return sum(one.moments.changed_round_s(removal(one)) for one in self.rounds) / self.steps

    def idle_s(self) -> FloatArray:
        """What each device has nothing to do in a step ``[ranks that have one]``."""
        return np.asarray(sum(one.idle_s for one in self.rounds) / self.steps)


def shorter(part: float | FloatArray, name: str, chosen: Callable[[Parts], BoolArray] | None = None) -> Removal:
    """A part of what parts take, of all of a name or of some; of each rank another one, if it is ``[ranks]``."""

    def removal(of: Round) -> FloatArray:
        parts: Parts = getattr(of, name)
        rows = np.flatnonzero(parts.link >= 0 if chosen is None else (parts.link >= 0) & chosen(parts))
        seconds, goes = of.moments.links.seconds, np.broadcast_to(part, of.begin_s.shape)[parts.rank[rows]]
        removed = weighted_count(parts.link[rows], goes * parts.seconds[rows], len(seconds))
        if name != "waits":
            return np.asarray(np.clip(removed, 0.0, np.maximum(seconds, 0.0)))
        removed[parts.link[rows[goes >= 1.0]]] = np.inf
        return np.asarray(removed)

    return removal


def shorter_in(part: float | FloatArray, periods: Periods) -> Removal:
    """A part of what hosts do in some periods of their ranks; of each rank another one, if it is ``[ranks]``."""

    def removal(of: Round) -> FloatArray:
        host = of.host
        inside_s = inside(periods, host) * np.broadcast_to(part, of.begin_s.shape)[host.rank]
        known, seconds = host.link >= 0, of.moments.links.seconds
        removed = weighted_count(host.link[known], inside_s[known], len(seconds))
        return np.asarray(np.clip(removed, 0.0, np.maximum(seconds, 0.0)))

    return removal


def inside(periods: Periods, parts: Parts) -> FloatArray:
    """What of some parts lies in periods of their ranks ``[parts]``."""
    return periods.inside_s(parts.rank, parts.start_s, parts.start_s + parts.seconds)
