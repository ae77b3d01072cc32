"""Steps of a loop in a part of a run, such as some of the run's steps, which need not begin where those of it do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import FloatArray


@dataclass(frozen=True, slots=True)
class Part:
    """What of a loop is looked at."""

    first: int
    """Number of its first step."""
    bounds_s: FloatArray
    """When its steps begin, and the last one ends ``[ranks, steps + 1]``."""


def part_of_loop(bounds_s: FloatArray, begin_s: FloatArray, end_s: FloatArray) -> Part:
    """The steps that are mostly in what was kept of a run, or the one that is most in it; they go from edge to edge.

    Args:
        bounds_s: when the steps of the loop begin, and the last one ends ``[ranks, steps + 1]``.
        begin_s: of what was kept of each process ``[ranks]``.
        end_s: likewise ``[ranks]``.
    """
    begins_later, ends_sooner = begin_s.min() > bounds_s[:, 0].min(), end_s.max() < bounds_s[:, -1].max()
    if not (begins_later or ends_sooner):
        return Part(0, bounds_s)
    inside = np.minimum(bounds_s[:, 1:], end_s[:, None]) - np.maximum(bounds_s[:, :-1], begin_s[:, None])
    inside = np.maximum(inside, 0.0)
    whole = np.maximum(np.diff(bounds_s, axis=1), 1e-12)
    chosen = np.flatnonzero((inside / whole).mean(axis=0) >= MAJORITY)
    if not len(chosen):
        chosen = np.array([int(inside.mean(axis=0).argmax())])
    first, last = int(chosen[0]), int(chosen[-1])
    kept = np.clip(bounds_s[:, first : last + 2], begin_s[:, None], end_s[:, None])
    if begins_later:
        kept[:, 0] = begin_s
    if ends_sooner:
        kept[:, -1] = end_s
    return Part(first, kept)
