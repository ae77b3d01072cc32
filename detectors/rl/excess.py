"""By how much a process did more of something in a step, where several waits tell of parts of it."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray


def in_all(key: IntArray, begin_s: FloatArray, end_s: FloatArray, excess_s: FloatArray, keys: int) -> FloatArray:
    """The most that waits with intervals free of overlap tell together ``[keys]``.

    Several that wait for one thing tell the same, and the largest counts. Who hands out its results one by one is
    waited for several times in a step, each time for another part of what it does: these add up.

    Args:
        key: what each wait is about, from 0 on ``[waits]``.
        begin_s: since when the culprit is compared ``[waits]``.
        end_s: when it came ``[waits]``.
        excess_s: by how much it did more meanwhile ``[waits]``.
        keys: how many keys there are.
    """
    first_end, last_begin, most = np.full(keys, np.inf), np.full(keys, -np.inf), np.zeros(keys)
    np.minimum.at(first_end, key, end_s)
    np.maximum.at(last_begin, key, begin_s)
    np.maximum.at(most, key, excess_s)
    apart = np.flatnonzero(last_begin >= first_end)
    if not len(apart):
        return most
    order = np.lexsort((end_s, key))
    bounds = np.searchsorted(key[order], [apart, apart + 1])
    for number, (at, end) in zip(apart.tolist(), bounds.T.tolist(), strict=True):
        rows = order[at:end]
        most[number] = _of_one(begin_s[rows], end_s[rows], excess_s[rows])
    return most


def _of_one(begin_s: FloatArray, end_s: FloatArray, excess_s: FloatArray) -> float:
    """The same of one key, sorted by end: weighted interval scheduling."""
    before = np.searchsorted(end_s, begin_s, side="right")
    best = [0.0]
    for row, (compatible, excess) in enumerate(zip(before.tolist(), excess_s.tolist(), strict=True)):
        best.append(max(best[row], best[min(compatible, row)] + excess))
    return best[-1]
