"""Evidence about parts of the data that are of unequal size."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenSizes(Flat):
    """How large the argument is with which a finding's ranks call their model, and what that explains."""

    size_times: float
    """Times as large as that of the median rank."""
    size_of: str
    """What is counted: ``edges``, or elements of an argument."""
    size_argument: str
    """Name of the argument."""
    size_here: float
    """Mean of the finding's ranks, in a step."""
    size_median: float
    sizes: list[float]
    """Of every rank."""
    size_file: str
    """Where the model is called with it."""
    size_line: int
    size_share: float
    """Part of the variance of what ranks take that sizes explain."""
