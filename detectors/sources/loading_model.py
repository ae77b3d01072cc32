"""A model of ranks that get batches from their loaders, step by step, and of these with other costs and workers.

A loader hands out its batches in order: worker ``n % workers`` makes batch ``n``, one after the other, and a batch is
begun when the one that lies ``ahead`` batches before it was handed out. A rank that asks for a batch waits until it is
made, then works, and at the end of a step waits for the other ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Loader:
    """Workers of a rank's loader, the same on all ranks, and what their batches cost."""

    workers: int
    """0: the rank makes its batches itself."""
    ahead: int
    cost_s: FloatArray
    """``[gets, ranks]``; it makes nothing for what costs 0."""

    def earlier(self, by: int) -> IntArray:
        """The batch that lies so many batches of this loader before each, -1 where none does ``[gets, ranks]``."""
        result = np.full(self.cost_s.shape, -1)
        for rank, makes in enumerate((self.cost_s > 0.0).T):
            mine = np.flatnonzero(makes)
            result[mine[by:], rank] = mine[: max(len(mine) - by, 0)]
        return result

    def with_workers(self, times: int) -> Loader:
        """With so many times as many workers, and batches ahead; one for a rank that loads itself."""
        if not self.workers:
            return replace(self, workers=times - 1, ahead=2 * (times - 1))
        return replace(self, workers=self.workers * times, ahead=self.ahead * times)


@dataclass(frozen=True, slots=True)
class Steps:
    """What ranks do with batches."""

    own_s: FloatArray
    """Of a rank from when it has a batch to when it asks for the next one, without waiting for ranks
    ``[gets, ranks]``."""
    meets: BoolArray
    """Whether all ranks have to come to the end of what follows a batch before one goes on ``[gets]``."""
    least_s: float = 0.0
    """What the cores of a host take at least for what follows a batch."""


def times_s(steps: Steps, loaders: Sequence[Loader]) -> FloatArray:
    """When each rank asks for each batch, and when it ends its work with the last one ``[gets + 1, ranks]``.

    Several loaders hand out parts of the same batches. O(gets x ranks x loaders).
    """
    gets, ranks = steps.own_s.shape
    asked = np.zeros((gets + 1, ranks))
    got = np.zeros((gets + 1, ranks))  # of none, the last row: at the beginning
    ready = [np.zeros((gets + 1, ranks)) for _ in loaders]
    before = [(loader.earlier(loader.ahead), loader.earlier(loader.workers)) for loader in loaders]
    everyone = np.arange(ranks)
    for one in range(gets):
        here = asked[one]
        for loader, done, (handed_out, made) in zip(loaders, ready, before, strict=True):
            begun_s = np.maximum(got[handed_out[one], everyone], done[made[one], everyone]) if loader.workers else here
            done[one] = begun_s + loader.cost_s[one]
        got[one] = np.maximum(here, np.max([done[one] for done in ready], axis=0))
        after = np.maximum(got[one] + steps.own_s[one], here + steps.least_s)
        asked[one + 1] = after.max() if steps.meets[one] else after
    return asked


def dealt_evenly(cost_s: FloatArray, items: FloatArray) -> FloatArray:
    """What batches cost if the samples of all ranks are dealt out, of each source alike, in each round of batches.

    What remains of a source goes to the ranks that have had least so far, the most expensive source first.

    Args:
        cost_s: of all samples of a source together ``[gets, ranks, sources]``.
        items: how many these are ``[gets, ranks, sources]``.

    Returns:
        ``[gets, ranks]``.
    """
    ranks = cost_s.shape[1]
    count = items.sum(axis=1)
    each_s = np.divide(cost_s.sum(axis=1), count, out=np.zeros(count.shape), where=count > 0.0)
    mean_s = np.nan_to_num(each_s.sum(axis=0) / np.maximum((count > 0.0).sum(axis=0), 1))
    dearest = np.argsort(-mean_s, kind="stable").tolist()
    whole, rest = np.divmod(count, ranks)
    load_s = np.repeat((whole * each_s).sum(axis=1)[:, None], ranks, axis=1)
    so_far_s = np.zeros(ranks)
    for one in range(len(load_s)):
        for source in dearest:
            least = np.argsort(so_far_s + load_s[one], kind="stable")[: int(rest[one, source])]
            load_s[one, least] += each_s[one, source]
        so_far_s += load_s[one]
    return load_s
