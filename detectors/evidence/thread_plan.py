"""Evidence about numbers of threads with which loops generate."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPlan(Flat):
    """A phase of requests that was faster with another number of threads in the same run; seconds are medians."""

    serving_phase: str
    """``prefill`` or ``decode``."""
    plan_unit: str
    """What the seconds are of: a prompt, or a token."""
    plan_threads: int
    plan_s: float
    plan_requests: int
    faster_threads: int
    faster_s: float
    faster_requests: int
    other_phase_threads: int
    """With which the other phase is fastest."""
