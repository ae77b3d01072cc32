"""When a job that comes no further hangs: its own past says how long its longest pause was."""

from __future__ import annotations

_LEAST_S = 60.0
_TIMES = 10.0
"""As many times the longest pause so far is no pause any more."""
_STARTING_S = 300.0
"""Before anything was seen to end: imports, first compilations, and waiting for the last rank to start. Nobody who says
how long a step may take means these."""
_MOST_S = 1800.0
_AHEAD_S = 10.0
"""So long before the limit it is worth to look closer: then it is known at the limit what moves."""
_MOVING = 4.0
"""So many times longer is waited for processes that are seen to move."""


class Quiet:
    """How long a job has come no further, and from when on that is a hang.

    Args:
        limit_s: seconds that the user gives; None to go by the job's own pauses.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._given_s = limit_s
        self._longest_s = 0.0
        self._latest_s = 0.0
        self._has_begun = False

    @property
    def limit_s(self) -> float:
        """Seconds without anything that ends, from which on the job hangs."""
        if not self._has_begun:
            return max(self._given_s or 0.0, _STARTING_S)
        if self._given_s is not None:
            return self._given_s
        return min(max(_LEAST_S, _TIMES * self._longest_s), _MOST_S)

    def take(self, quiet_s: float, has_begun: bool) -> bool:
        """Take how long nothing has ended, and whether anything ever did; returns whether the job came further since
        the last time."""
        came_further = quiet_s < self._latest_s
        if came_further and self._has_begun:
            self._longest_s = max(self._longest_s, self._latest_s)
        self._latest_s, self._has_begun = quiet_s, self._has_begun or has_begun
        return came_further

    def is_due(self) -> bool:
        """Whether it is worth to look closer."""
        return self._latest_s >= self.limit_s - min(_AHEAD_S, self.limit_s / 2)

    def is_hang(self, moves: bool) -> bool:
        """Whether it hangs; ``moves`` says whether something that is waited for is seen to move."""
        return self._latest_s >= self.limit_s * (_MOVING if moves else 1.0)
