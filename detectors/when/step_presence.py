"""In which steps a place costs anything, where that can be counted: work of single ranks now and then, such as an
evaluation, a checkpoint or a line of a log.

What ranks wait for it does not show that: waits vary, and other reasons for them have a share in every step.
"""

from __future__ import annotations

import numpy as np

from scalana.detectors.thresholds.factors import FAR_MORE
from scalana.detectors.thresholds.shares import MINOR, NEARLY_ALL
from scalana.graphs.arrays.types import BoolArray, FloatArray


def steps_with_cost(cost_s: FloatArray, period_s: float) -> BoolArray | None:
    """In which steps there is more than a minor part of what a step usually costs that has any ``[steps]``. None where
    that is not seen in each of them: it takes no longer than the time between few samples (``period_s``, on average
    where they see it)."""
    total_s = float(cost_s.sum())
    if total_s <= 0.0:
        return None
    largest_first = -np.sort(-cost_s, kind="stable")
    held = int(np.searchsorted(np.cumsum(largest_first), NEARLY_ALL * total_s)) + 1
    usual_s = float(np.median(largest_first[:held]))
    if usual_s < FAR_MORE * period_s:
        return None
    return np.asarray(cost_s > MINOR * usual_s)
