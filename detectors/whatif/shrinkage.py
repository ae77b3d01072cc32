"""What a fix takes out of single bursts between calls, without what sampling did to each of them by chance.

A burst that lasts no longer than some samples is found at one place or at another, though all bursts of its kind divide
over both. The sum is right; but in a replay its rank would be fast here and slow there, and others would wait for it
where in a real run nobody does.
"""

from __future__ import annotations

import numpy as np

from scalana.detectors.thresholds.counts import SHOWS_THE_SPREAD
from scalana.detectors.thresholds.factors import LENGTHS
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.timeline import Timeline


def steadied(removed: FloatArray, burst: IntArray, seconds: FloatArray, timeline: Timeline) -> FloatArray:
    """Divide what is removed over bursts of a kind as evenly as their samples make it likely ``[bursts]``.

    The part that is taken from a burst varies from one to the next by the chance of samples, which is binomial, and by
    what a rank really did. Each is drawn towards the mean of its kind by the part of the variance that chance explains
    (as Efron and Morris 1973 do, who estimate many means at once); what a kind loses in all stays the same.

    Args:
        removed: Seconds taken out of every burst ``[bursts]``.
        burst: Gap of every row of own work in the activities that they are taken from ``[rows]``.
        seconds: Of these rows ``[rows]``.
    """
    calls, own, bursts = timeline.calls, timeline.own, len(removed)
    whole = np.bincount(own.burst, own.seconds, bursts)
    location = burst_locations(timeline)
    inner = np.flatnonzero(whole[: len(calls)] > 0.0) if timeline.period_s > 0.0 else np.zeros(0, np.int64)
    inner = inner[inner > calls.first[location[inner]]]  # between two calls
    inner = inner[np.isin(location[inner], location[np.flatnonzero(removed)])]
    if not len(inner):
        return removed
    length = np.floor(LENGTHS * np.log2(whole[inner] / timeline.period_s)).astype(np.int64)
    kind, first = number_columns(location[inner], calls.vertex[inner - 1], calls.vertex[inner], length)

    def added(values: np.ndarray) -> FloatArray:
        return np.asarray(np.bincount(kind, values, len(first)))

    count, own_s = added(np.ones(len(inner))), added(whole[inner])
    did = np.bincount(burst, seconds, bursts)[inner]
    part = removed[inner] / whole[inner]
    mean, share = added(removed[inner]) / own_s, added(did) / own_s
    samples = np.maximum(added(np.bincount(own.burst, own.samples, bursts)[inner]) / count, 1.0)
    chance = share * (1.0 - share) / samples
    variance = added((part - mean[kind]) ** 2) / np.maximum(count - 1.0, 1.0)
    kept = np.clip(1.0 - chance / np.maximum(variance, 1e-300), 0.0, 1.0)
    kept[count < SHOWS_THE_SPREAD] = 1.0
    result = removed.copy()
    result[inner] = (kept[kind] * part + (1.0 - kept[kind]) * mean[kind]) * whole[inner]
    return result
