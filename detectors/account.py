"""Shares that add up to a measured whole; the first of them is where the rank-seconds of a run went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TimeSplit:
    """Rank-seconds of the run; the parts add up to ranks times the job's seconds."""

    work_s: float = 0.0
    """On a CPU outside communication."""
    stall_s: float = 0.0
    """Outside communication, not on a CPU: sleeping, I/O, waiting for a core or for another thread."""
    wait_s: float = 0.0
    """Inside communication, for a rank that was not there yet."""
    transfer_s: float = 0.0
    """Inside communication, the rest."""
    other_s: float = 0.0
    """Not recorded: before a rank's record begins and after it ends, launcher included."""

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.work_s + self.stall_s + self.wait_s + self.transfer_s + self.other_s
