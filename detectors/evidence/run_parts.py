"""Evidence about parts of a run: start-up, steady state and end, and the steps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LostByPhase:
    """Rank-seconds of a finding before, in and after the steady state."""

    startup_s: float
    steady_s: float
    end_s: float

    @property
    def total_s(self) -> float:
        """All of them."""
        return self.startup_s + self.steady_s + self.end_s


@dataclass(frozen=True, slots=True)
class InSteps:
    """In how many steps of the steady state nearly all of a finding is lost, and in which if these are few."""

    steps: int
    of: int
    numbers: list[int] | None = None
    counted: bool = False
    """Whether these are all steps in which the ranks do it at all, as no other rank does it."""
    step_s: float | None = None
    """Length of a step of the steady state, on average."""
    without_s: float | None = None
    """What it would take without the finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSteps:
    """How the cost of a finding changes over the steps of the steady state."""

    shape: str
    """``line``, ``jump`` or ``unclear``."""
    cost: str
    """``work`` at the place that others don't do, that ``time`` with what ranks wait for a core, the ``waiting`` that
    it causes, or ``idle`` time of a loop of reinforcement learning."""
    before_s: float
    """In the first step that was looked at; of a jump, on the level before it."""
    after_s: float
    """In the last one, or on the level after the jump."""
    first_step: int
    last_step: int
    steps: int
    """Steps that were looked at: fewer than all where it changes in those alone that pay."""
    of: int
    stands_for: int | None = None
    """Steps of the run for which they stand, if these are more."""
    from_step: int | None = None
    """The first one on the new level; of a jump alone."""
    per_step_s: float | None = None
    """Slope; of a line alone."""
    so_far_s: float | None = None
    """What it cost in all; None where the shape is unclear."""
    next_s: float | None = None
    """What it costs in as many steps again, if the line goes on or the level stays; None likewise."""
    series_s: list[float]
    """What it cost in each of ``series_steps``, or on average from there to the next."""
    series_steps: list[int]

    @property
    def rises(self) -> bool:
        """Whether it costs more in the end."""
        return self.after_s > self.before_s
