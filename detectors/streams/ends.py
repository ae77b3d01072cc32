"""When collectives that a job marked on its streams began and ended on the devices.

A mark says when a rank's stream came to a collective, and another when it went on after waiting for it, which may be
long after the end, or there is none, where C++ waits. Two facts make more of that. Members of a collective end
together. And where it is known how long its kernel took on each member, the shortest began last: when its stream came
to it, or when the one before it in its group was over. The others began as much earlier as theirs took longer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Marks:
    """Parts that ranks have in collectives, in any order."""

    rank: IntArray
    """``[parts]``"""
    instance: IntArray
    """Which collective it is a part of ``[parts]``."""
    communicator: IntArray
    """Those of one follow each other ``[parts]``."""
    start_s: FloatArray
    """When the rank's stream came to it ``[parts]``."""
    end_s: FloatArray
    """When it went on after it; where that is not known, the same as when it came ``[parts]``."""
    took_s: FloatArray
    """How long the kernel took, below 0 where that is not known ``[parts]``."""


def end_together(marks: Marks) -> tuple[FloatArray, FloatArray]:
    """Begin and end of the kernel of each part ``[parts]``."""
    start_s, end_s = marks.start_s.copy(), marks.end_s.copy()
    if not len(start_s):
        return start_s, end_s
    _, group = np.unique(marks.instance, return_inverse=True)
    last = np.full(group.max() + 1, -np.inf)
    np.maximum.at(last, group, start_s)
    order = np.lexsort((group, last[group]))
    over: dict[tuple[int, int], float] = defaultdict(lambda: -np.inf)
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        keys = list(zip(marks.rank[rows].tolist(), marks.communicator[rows].tolist(), strict=True))
        begin = np.maximum(marks.start_s[rows], [over[key] for key in keys])
        start_s[rows], end = _of_one(begin, marks.start_s[rows], marks.end_s[rows], marks.took_s[rows])
        end_s[rows] = end
        over.update(dict.fromkeys(keys, end))
    return start_s, end_s


def _of_one(
    begin_s: FloatArray, start_s: FloatArray, end_s: FloatArray, took_s: FloatArray
) -> tuple[FloatArray, float]:
    """Begins of the parts of one collective, and its end."""
    timed = took_s >= 0.0
    if timed.any():
        shortest = int(np.argmin(np.where(timed, took_s, np.inf)))
        end = max(float(begin_s[shortest] + took_s[shortest]), float(begin_s[~timed].max(initial=-np.inf)))
        return np.where(timed, end - took_s, begin_s), end
    known = end_s[end_s > start_s]
    end = max(float(known.min(initial=np.inf)) if len(known) else -np.inf, float(begin_s.max()))
    return begin_s, end
