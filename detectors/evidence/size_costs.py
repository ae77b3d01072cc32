"""Evidence about runs of several sizes."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class ScalingForecast:
    """What a place costs on another number of ranks: seconds of an average rank, with a range."""

    ranks: int
    seconds: float
    low: float
    high: float
    ideal: float
    saving_s: float
    lost_s: float
    """Rank-seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCosts(Flat):
    """What a place costs an average rank, by the size of the run."""

    sizes: list[int]
    seconds: list[float]
    ideal: list[float]
    work: list[float]
    waiting_caused: list[float]
    transfer: list[float]
    deviation_s: float
    model: str | None = None
    growth: str | None = None
    confidence: float | None = None
    left_out: list[str] | None = None
    """Runs that fit no simple model."""
    predicted: ScalingForecast | None = None
