"""For how many steps of a run a step stands in which devices were marked.

Few steps are marked, and what ranks lose in the others is not seen. Every step from the first marked one on is taken to
be like the nearest that was marked, the earlier of two.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray


def stood_for(marked: IntArray, steps: IntArray) -> FloatArray:
    """Steps that each marked step stands for, itself among them ``[marked]``.

    Args:
        marked: numbers of the steps that were marked, in order, each once ``[marked]``.
        steps: numbers of all steps of the run ``[steps]``.
    """
    if not len(marked):
        return np.zeros(0)
    later = steps[steps >= marked[0]]
    nearest = np.searchsorted((marked[1:] + marked[:-1]) / 2, later, side="left")
    return np.maximum(np.bincount(nearest, minlength=len(marked)), 1).astype(np.float64)
