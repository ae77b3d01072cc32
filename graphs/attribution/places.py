"""Where the call paths of all processes lead."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.graphs.arrays.types import BoolArray, IntArray


@dataclass(slots=True)
class Places:
    """Where the call paths of all processes lead."""

    vertex: IntArray
    """Vertex of the innermost frame ``[paths]``."""
    line: IntArray
    """Innermost line of the user's own code, 0 if the path has none ``[paths]``."""
    waits: BoolArray
    """Whether the innermost frame is library code that waits for other threads or processes ``[paths]``."""
    spins: BoolArray
    """Whether the innermost frame is that of a library whose threads spin while they wait for others ``[paths]``."""
    computes: BoolArray
    """Whether the innermost frame is native code of the user's own, which cannot rest: it calls what rests ``[paths]``.
    """
    native: BoolArray
    """Whether the innermost frame is native code ``[paths]``."""
    calls_rest: BoolArray
    """Whether the innermost frame is a function of the system's in which threads rest: files, sleep ``[paths]``."""
