"""Evidence about loops of reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWait(Flat):
    """What is waited for in a loop of reinforcement learning."""

    phase: str
    in_steps: int
    of_steps: int
    phase_s_here: float
    phase_s_others: float
    unit: str
    """Of what is generated."""
    lost_s_a_step: float
    recurrence: str
    in_turns: bool = False
    trajectories: list[str] | None = None
    trajectory_tokens: list[int] | None = None
    trajectories_in_all: int | None = None
    longest: str | None = None
    """The longest trajectory, in words."""
    lambda_: float | None = None
    """Part of the generation that lies in its tail."""
    floor_s_per_token: float | None = None
    trained_tokens_here: float | None = None
    trained_tokens_others: float | None = None
    times: str | None = None
    """How many times as long slow processes take."""
    times_by_phase: str | None = None
    not_the_cause: list[str]


@dataclass(frozen=True, slots=True)
class AtLine(Flat):
    """What processes of a loop spend at the line of a finding."""

    at_line_s_here: float
    at_line_s_others: float
    own_line: bool = False
    """Whether others are hardly ever there."""
