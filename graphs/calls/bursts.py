"""The bursts between calls, as the way from samples to the timeline sees them."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.graphs.arrays.types import IntArray


@dataclass(slots=True)
class Bursts:
    """Stretches between calls, sorted by (location, start). Every location has one more than it has calls."""

    location: IntArray
    """``[bursts]``"""
    start_ns: IntArray
    """Aligned ``[bursts]``."""
    end_ns: IntArray
    """Aligned, not before the start ``[bursts]``."""
    cpu_ns: IntArray
    """Exact CPU time of the thread in the burst, -1 where no clock was read ``[bursts]``."""
    before: IntArray
    """Vertex of the call before, -1 at the start of the record ``[bursts]``."""
    after: IntArray
    """Vertex of the call after, -1 at the end of the record ``[bursts]``."""
    number: IntArray
    """The burst's number in :class:`~scalana.graphs.timeline.OwnWork` ``[bursts]``."""
    default_vertex: IntArray
    """Where a burst goes of which nothing is known ``[bursts]``."""
    default_line: IntArray
    """Its line, 0 where unknown ``[bursts]``."""
    unwritten_ns: IntArray | None = None
    """How much of it is calls that were not written; None where all were ``[bursts]``."""

    def own_ns(self) -> IntArray:
        """Length of every burst, less what it holds of unwritten calls ``[bursts]``."""
        length = self.end_ns - self.start_ns
        return length if self.unwritten_ns is None else length - self.unwritten_ns
