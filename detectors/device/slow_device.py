"""A device that is slow: the same kernels, as many of them, and nearly every kind takes longer by one factor."""

from __future__ import annotations

import numpy as np

from scalana.detectors.streams.lanes import Devices
from scalana.detectors.thresholds.differences import ONE_FACTOR
from scalana.detectors.thresholds.factors import SAME_SIZE, SLOWER
from scalana.detectors.thresholds.shares import EXPLAINED
from scalana.graphs.arrays.types import FloatArray


def slow_devices(devices: Devices) -> dict[int, float]:
    """Ranks whose devices are slow, with the factor by which everything takes longer there than on the median rank."""
    ranks = sorted(devices.of_rank)
    if len(ranks) < 2:
        return {}
    kinds, width = devices.kinds, len(devices.kinds)
    seconds = np.array([devices.of_rank[rank].seconds for rank in ranks])
    count = devices.counts().astype(np.float64)
    # Kernels of one name on inputs of one shape are one kind here, wherever they were launched.
    names, inverse = np.unique(np.stack((kinds.name, kinds.inputs, kinds.direction)), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    by_name = np.zeros((width, names.shape[1]))
    by_name[np.arange(width), inverse] = 1.0
    seconds, count = seconds @ by_name, count @ by_name
    sizes = np.array([devices.of_rank[rank].elements for rank in ranks])
    found = {}
    for row, rank in enumerate(ranks):
        others = np.delete(np.arange(len(ranks)), row)
        larger = sizes[row] > SAME_SIZE * np.median(sizes[others], axis=0)
        at = inverse[larger]
        mine = count[row].copy()
        mine[at] = np.nan  # modules with more to do are no measure
        factor = _factor(seconds[row], mine, seconds[others], count[others])
        if factor is not None:
            found[rank] = factor
    return found


def _factor(seconds: FloatArray, count: FloatArray, others_s: FloatArray, others: FloatArray) -> float | None:
    """By what factor everything takes longer; None where it does not, or not everything alike."""
    usual_s, usual = np.median(others_s, axis=0), np.median(others, axis=0)
    same = (count > 0) & (np.abs(count - usual) <= (SAME_SIZE - 1.0) * usual) & (usual_s > 0.0)
    whole = float(seconds.sum())
    if whole <= 0.0 or float(seconds[same].sum()) < EXPLAINED * whole:
        return None
    ratio, weight = seconds[same] / usual_s[same], seconds[same]
    order = np.argsort(ratio)
    half = int(np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2))
    factor = float(ratio[order][min(half, len(order) - 1)])
    near = np.abs(ratio - factor) <= ONE_FACTOR * (factor - 1.0) + 0.01
    if factor < SLOWER or float(weight[near].sum()) < EXPLAINED * float(weight.sum()):
        return None
    # One kind of kernel alone tells nothing of the device.
    return factor if int(near.sum()) > 1 else None
