"""Evidence about ranks that take longer for everything, or for want of a core."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRank(Flat):
    """By how much ranks are slow at equal work, and since when."""

    slow_times: float
    """Their work as a multiple of that of the median of the other ranks: without what is waited for a core, but for
    ranks that lack one."""
    slow_since: int | None = None
    """The step from which on they are slow; None: all the time."""
    slow_everywhere: bool = False
    """Whether nearly everything takes longer, by about this factor."""
    slow_places: int
    """Places in the program that take longer; 0 for ranks that lack a core."""
