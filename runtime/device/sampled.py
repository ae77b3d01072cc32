"""On which steps the device is looked at: the same ones on all ranks, as steps have one number everywhere."""

from __future__ import annotations

from scalana.runtime.chosen_steps import is_chosen


def is_sampled(step: int) -> bool:
    """Whether a training step is one of those; outside of steps none is."""
    return is_chosen(step)
