"""Where the efficiency falls over the steps of a run: for good, and which factor falls with it; or in single steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.efficiency.pop_factors import Efficiencies
from scalana.detectors.when.cost_trend import Shape, trend_of
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.steps.steps import outlying_above

_PARTS = ("load_balance", "serialisation", "transfer")
"""Whose product parallel efficiency is."""


@dataclass(frozen=True, slots=True)
class Fall:
    """A lasting fall of parallel efficiency."""

    at: int
    """Number of the step from which on it is lower; -1 where it falls from step to step."""
    before: float
    after: float
    factor: str
    """The name of the factor that falls most."""
    factor_before: float
    factor_after: float


@dataclass(frozen=True, slots=True)
class LowStep:
    """A step in which parallel efficiency is far below what it is in others."""

    number: int
    efficiencies: Efficiencies

    @property
    def factor(self) -> str:
        """The name of the lowest factor."""
        return min(_PARTS, key=lambda name: float(getattr(self.efficiencies, name)))


@dataclass(frozen=True, slots=True)
class OverSteps:
    """Parallel efficiency over the steps of the steady state."""

    fall: Fall | None
    low: tuple[LowStep, ...]
    """The lowest first."""


def over_steps(number: IntArray, steps: Sequence[Efficiencies | None]) -> OverSteps:
    """Look at steps that follow each other; ``number`` are theirs ``[steps]``.

    What is looked at is how many times as long a step takes as without any loss: so a change is as large as what it
    costs.
    """
    known = [(int(at), one) for at, one in zip(number, steps, strict=True) if one is not None]
    times = np.array([1.0 / one.parallel for _, one in known])
    rows = np.flatnonzero(times > outlying_above(times))
    rows = rows[np.argsort(-times[rows], kind="stable")]
    return OverSteps(_fall(known, times), tuple(LowStep(*known[row]) for row in rows.tolist()))


def _fall(known: list[tuple[int, Efficiencies]], times: FloatArray) -> Fall | None:
    trend = trend_of(times)
    if trend is None or not trend.rises:
        return None
    jumps = trend.shape is Shape.JUMP
    quarter = len(known) // 4
    early, late = (slice(trend.jump), slice(trend.jump, None)) if jumps else (slice(quarter), slice(-quarter, None))

    def median(name: str, part: slice) -> float:
        return float(np.median([getattr(one, name) for _, one in known[part]]))

    before, after = ({name: median(name, part) for name in ("parallel", *_PARTS)} for part in (early, late))
    factor = min(_PARTS, key=lambda name: after[name] / max(before[name], 1e-300))
    at = known[trend.jump][0] if jumps else -1
    return Fall(at, before["parallel"], after["parallel"], factor, before[factor], after[factor])
