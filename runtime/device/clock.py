"""Where the clock of a device lies on that of the host.

An event comes no earlier than it was recorded, and no later than it was first seen to have come. So each bounds by how
much the two clocks differ, the closer the less time passed in between; nobody has to wait for anything. What was known
of an earlier step still holds, but for what the clocks may have drifted since: a host that is far ahead of its device
sees events come late, and they bound little by themselves.
"""

from __future__ import annotations

_NEVER = 1 << 62
_DRIFT = 10_000
"""One clock gains on the other at most one part of so many: those of boards are some millionths off, and time services
slow the host's by up to 500 millionths only while they set it."""


class ClockBounds:
    """What is known of one device's clock in one step; times in ns."""

    def __init__(self) -> None:
        self.low_ns, self.high_ns = -_NEVER, _NEVER

    def recorded(self, host_ns: int, device_ns: int) -> None:
        """An event was recorded at a moment of the host, and came at one of the device."""
        self.low_ns = max(self.low_ns, host_ns - device_ns)

    def seen(self, host_ns: int, device_ns: int) -> None:
        """An event had come by a moment of the host."""
        self.high_ns = min(self.high_ns, host_ns - device_ns)

    def since(self, earlier: ClockBounds, after_ns: int) -> ClockBounds:
        """These, and what bounds of the same clocks say that count from a moment so many ns earlier; these alone where
        the two contradict each other."""
        if earlier.uncertain_ns < 0:
            return self
        both, drift_ns = ClockBounds(), after_ns // _DRIFT
        both.low_ns = max(self.low_ns, earlier.low_ns + after_ns - drift_ns)
        both.high_ns = min(self.high_ns, earlier.high_ns + after_ns + drift_ns)
        return both if both.low_ns <= both.high_ns else self

    @property
    def offset_ns(self) -> int:
        """What to add to a moment of the device to have that of the host."""
        if self.low_ns == -_NEVER:
            return self.high_ns
        if self.high_ns == _NEVER or self.high_ns <= self.low_ns:
            return self.low_ns
        return (self.low_ns + self.high_ns) // 2

    @property
    def uncertain_ns(self) -> int:
        """By how much that may be wrong, -1 where it is not known."""
        if self.low_ns == -_NEVER or self.high_ns == _NEVER:
            return -1
        return max(self.high_ns - self.low_ns, 0) // 2
