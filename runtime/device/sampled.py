"""On which steps the device is looked at: the same ones on all ranks, as steps have one number everywhere."""

from __future__ import annotations

_EVERY, _TAKEN = 16, (2, 3)


def is_sampled(step: int) -> bool:
    """Whether a training step is one of those; outside of steps none is."""
    return step >= 0 and step % _EVERY in _TAKEN
