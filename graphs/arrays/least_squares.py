"""Costs of the parts of some work, fitted to how long it took."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import FloatArray


def not_negative(work: FloatArray, seconds: FloatArray, constant: float = 0.0) -> FloatArray:
    """Least squares of relative errors, without negative costs: those that would be are left out, the least first.

    Args:
        work: amounts of each part ``[rows, parts]``.
        seconds: ``[rows]``.
        constant: part of the largest singular value below which a part varies with those before it. It costs nothing
            then, as it cannot be separated from them.

    Returns:
        Seconds of one unit of each part ``[parts]``.
    """
    costs = np.zeros(work.shape[1])
    weight = 1.0 / np.maximum(seconds, 1e-12)
    scale = np.maximum(np.abs(work).max(axis=0), 1e-300)
    scaled = work / scale * weight[:, None]
    left: list[int] = []
    for column in range(work.shape[1]):
        tried = scaled[:, [*left, column]]
        if np.linalg.matrix_rank(tried, tol=constant * np.linalg.norm(tried, 2)) > len(left):
            left.append(column)
    while left:
        found = np.linalg.lstsq(scaled[:, left], seconds * weight, rcond=None)[0]
        if (found >= 0.0).all():
            costs[left] = found / scale[left]
            break
        left.pop(int(np.argmin(found)))
    return costs
