"""What a call takes that moves data, by how much that is: a latency, and the bytes at a bandwidth.

Fitted to the calls of the run itself, to the fastest quarter of each size: others wait for cores as well, or for other
traffic. What fewer calls save follows from the latency, what fewer bytes save from the bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.seconds import NO_WORK_S
from scalana.detectors.thresholds.shares import SHARE_OF_ITS_OWN
from scalana.graphs.arrays.types import FloatArray

FASTEST = SHARE_OF_ITS_OWN
"""Part of the calls that show what the network takes."""


@dataclass(frozen=True, slots=True)
class TransferModel:
    """Seconds of a call of ``n`` bytes: ``latency_s + n * byte_s``."""

    latency_s: float
    byte_s: float

    def saved_by_one_call(self, size: float, count: float) -> float:
        """Part of what ``count`` calls of ``size`` bytes take that one call of all their bytes does not."""
        return self._part((1.0 - 1.0 / count) * self.latency_s if count > 1.0 else 0.0, size)

    def saved_by_half_the_bytes(self, size: float) -> float:
        """Part of what calls of ``size`` bytes take that calls of half as many do not."""
        return self._part(size * self.byte_s / 2.0, size)

    def _part(self, saved_s: float, size: float) -> float:
        call_s = self.latency_s + size * self.byte_s
        return saved_s / call_s if call_s > 0.0 else 0.0


def transfer_model(nbytes: FloatArray, seconds: FloatArray) -> TransferModel:
    """Fit calls of ``nbytes`` that take ``seconds``, each ``[calls]``. Calls of one size alone do not show what their
    latency is: it is what they take, up to what a program does between two calls."""
    sizes, at = np.unique(nbytes, return_inverse=True)
    taken = np.array([np.quantile(seconds[at == row], FASTEST) for row in range(len(sizes))])
    sizes, taken = sizes[taken > 0.0].astype(np.float64), taken[taken > 0.0]
    if not len(taken):
        return TransferModel(0.0, 0.0)
    if len(taken) > 1:
        # Relative errors count, so that small calls have as much to say as large ones.
        (byte_s, latency_s), *_ = np.linalg.lstsq(
            np.stack((sizes, np.ones(len(sizes))), 1) / taken[:, None], np.ones(len(taken))
        )
        if byte_s >= 0.0 and latency_s >= 0.0:
            return TransferModel(float(latency_s), float(byte_s))
        if latency_s < 0.0:
            return TransferModel(0.0, float(taken.sum() / sizes.sum()))
        return TransferModel(float(taken.mean()), 0.0)
    latency_s = min(float(taken[0]), NO_WORK_S)
    return TransferModel(latency_s, (float(taken[0]) - latency_s) / max(float(sizes[0]), 1.0))
