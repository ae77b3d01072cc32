"""The bursts between calls, as the way from samples to the timeline sees them."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.graphs.arrays.types import IntArray


@dataclass(slots=True)
class Gaps:
    """Stretches between calls, sorted by (location, start). Every location has one more than it has calls."""

    location: IntArray
    """``[gaps]``"""
    start_ns: IntArray
    """Aligned ``[gaps]``."""
    end_ns: IntArray
    """Aligned, not before the start ``[gaps]``."""
    cpu_ns: IntArray
    """Exact CPU time of the thread in the gap, -1 where no clock was read ``[gaps]``."""
    before: IntArray
    """Vertex of the call before, -1 at the start of the record ``[gaps]``."""
    after: IntArray
    """Vertex of the call after, -1 at the end of the record ``[gaps]``."""
    number: IntArray
    """The gap's number in :class:`~scalana.graphs.timeline.OwnWork` ``[gaps]``."""
    default_vertex: IntArray
    """Where a gap goes of which nothing is known ``[gaps]``."""
    default_line: IntArray
    """Its line, 0 where unknown ``[gaps]``."""
    unwritten_ns: IntArray | None = None
    """How much of it is calls that were not written; None where all were ``[gaps]``."""

    def own_ns(self) -> IntArray:
        """Length of every gap, less what it holds of unwritten calls ``[gaps]``."""
        length = self.end_ns - self.start_ns
        return length if self.unwritten_ns is None else length - self.unwritten_ns
