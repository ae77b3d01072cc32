"""What speaks for causes that all ranks share: how much of a step, and what it would be otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class StepLimit(Flat):
    """What all ranks spend in a step of the steady state on something, and what a step would take otherwise."""

    limit_s: float
    """The mean of the ranks."""
    step_s: float | None = None
    """None where the run has no steps; :attr:`run_s` is known then."""
    run_s: float | None = None
    half_step_s: float = 0.0
    """What a step, or the run, would take if this took half as long on all ranks."""
    without_step_s: float = 0.0
    """If it took no time."""


@dataclass(frozen=True, slots=True)
class Transfers(Flat):
    """What the calls at a place move, in a step of an average rank."""

    transfer_operation: str
    step_calls: float
    step_bytes: float
    bytes_per_s: float
    """On average."""
    best_bytes_per_s: float
    """Of the fastest twentieth."""
    in_one_call_step_s: float
    """What a step, or the run, would take if one call moved all their bytes."""
    half_bytes_step_s: float
    """If they moved half the bytes."""
    calls_s: float = 0.0
    """What all calls of a step take but for waiting for other ranks. ``limit_s`` is what of this is the network's: as
    much as if every call went like the fastest quarter of those at its place."""


@dataclass(frozen=True, slots=True)
class BusyCores(Flat):
    """The host whose cores a job keeps busiest."""

    host_cores: int
    busy_cores: float
    """That the job's own processes and threads keep busy, on average."""
    host_ranks: int
