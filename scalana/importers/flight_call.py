"""One call of a rank, as its flight recorder saw it."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.importers.flight_dump import Entry
from scalana.runtime.operations import BY_NAME, OPERATIONS, Waits

ON_HOST = frozenset({"gloo", "mpi", "ucc"})
"""Libraries in whose calls the host itself waits."""
TOGETHER = frozenset(row.code for row in OPERATIONS if row.waits is Waits.ALL)
MESSAGES = (BY_NAME["send"].code, BY_NAME["recv"].code)
AFTER_S = 600
"""A dump is written at most so long after the call that timed out."""


@dataclass(slots=True)
class FlightCall:
    """One rank's call of one operation; times in ns since 1970."""

    entry: Entry
    operation: int
    ranks: tuple[int, ...]
    """World ranks of the group."""
    seq: int
    peer: int
    """World rank of the other side of a message, -1 where it is none."""
    start_ns: int
    end_ns: int
    blocks: bool = False
    """Whether its rank waited from its begin to its end."""
