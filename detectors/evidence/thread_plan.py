"""Evidence about threads with which loops generate: how many, and where their weights lie."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FarWeights(Flat):
    """A phase of requests that was faster with the weights on the NUMA node of the threads in the same run; seconds are
    medians."""

    far_phase: str
    """``prefill`` or ``decode``."""
    far_unit: str
    """What the seconds are of: a prompt, or a token."""
    far_s: float
    far_percent: float
    """Of the weights, that lie on another node than the threads."""
    far_requests: int
    near_s: float
    near_percent: float
    near_requests: int
    threads_node: int
    weights_node: int
    """On which most of the slower requests run, and have their weights."""
