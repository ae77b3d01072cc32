"""Gaps between calls that no sample fell into, divided like sampled short gaps between the same two calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scalana.graphs.tables import to_seconds
from scalana.graphs.timeline import FloatArray, IntArray
from scalana.graphs.work_rows import Gaps, Rows, concatenated, grouped, sorted_by_gap

BoolArray = npt.NDArray[np.bool_]

_SHORT_PERIODS = 4
"""Gaps up to this many sampling periods are alike enough to tell what an unsampled one holds."""
_OWN_EVIDENCE = 10
"""Sampled like gaps from which a location's unsampled ones follow itself rather than all locations."""
_LIKELY = 4
"""Activities that an unsampled gap is divided over at most."""


def unsampled(gaps: Gaps, rows: Rows, base_of_gap: IntArray, period_ns: int) -> Rows:
    """Rows of the gaps that no row is of yet, sorted by gap; CPU as the like gaps have it.

    ``base_of_gap`` ``[gaps]`` is the place, as half the number of an activity, of a gap without any like it.
    """
    length = gaps.end_ns - gaps.start_ns
    sampled = np.zeros(len(length), np.bool_)
    sampled[rows.gap] = True
    empty = np.flatnonzero(~sampled & (length > 0))
    vertices = int(max(gaps.before.max(initial=-1), gaps.after.max(initial=-1))) + 2
    kind = (gaps.before + 1) * vertices + gaps.after + 1
    _, kind = np.unique(kind, return_inverse=True)
    kind = kind.reshape(-1).astype(np.int64)
    kinds = int(kind.max(initial=-1)) + 1
    short = length[rows.gap] <= _SHORT_PERIODS * period_ns

    own_kind = gaps.location * kinds + kind
    own = _profiles(own_kind, rows, short, _OWN_EVIDENCE)
    common = _profiles(kind, rows, short, 1)
    pieces: list[Rows] = []
    left = empty
    for profile, key in ((own, own_kind), (common, kind)):
        rows_of_gaps, left = profile.divide(left, key, length)
        pieces.append(rows_of_gaps)
    seconds = to_seconds(length[left])
    nothing = np.zeros(len(left))
    # With no like gap known, all of it was on a CPU or none, as the clocks say.
    pieces.append(Rows(left, 2 * base_of_gap[left], seconds, nothing, nothing.copy(), nothing.copy()))
    return sorted_by_gap(concatenated(pieces))


@dataclass(slots=True)
class _Profiles:
    """How sampled gaps of a kind divide over activities; shares of a kind add up to 1."""

    keys: IntArray
    """Kinds, ascending ``[kinds]``."""
    first: IntArray
    """``[kinds + 1]`` into the rows below."""
    activity: IntArray
    share: FloatArray
    cpu: FloatArray
    """CPU a second ``[rows]``."""
    wait: FloatArray

    def divide(self, gaps: IntArray, key: IntArray, length_ns: IntArray) -> tuple[Rows, IntArray]:
        """Rows of those ``gaps`` whose kind is known, and the other gaps."""
        if len(self.keys) == 0:
            none = np.zeros(0)
            return Rows(gaps[:0], gaps[:0], none, none, none, none), gaps
        at = np.minimum(np.searchsorted(self.keys, key[gaps]), len(self.keys) - 1)
        known = self.keys[at] == key[gaps]
        chosen, at = gaps[known], at[known]
        size = self.first[at + 1] - self.first[at]
        gap = np.repeat(chosen, size)
        row = np.repeat(self.first[at] - (np.cumsum(size) - size), size) + np.arange(len(gap))
        seconds = to_seconds(length_ns[gap]) * self.share[row]
        inferred = Rows(
            gap, self.activity[row], seconds, seconds * self.cpu[row], seconds * self.wait[row], np.zeros(len(gap))
        )
        return inferred, gaps[~known]


def _profiles(key_of_gap: IntArray, rows: Rows, chosen: BoolArray, evidence: int) -> _Profiles:
    """Profiles of the kinds of gaps with at least ``evidence`` samples among the ``chosen`` rows."""
    pick = np.flatnonzero(chosen)
    table = grouped(
        Rows(
            key_of_gap[rows.gap[pick]],
            rows.activity[pick],
            rows.seconds[pick],
            rows.cpu_s[pick],
            rows.core_wait_s[pick],
            rows.samples[pick],
        )
    )
    # The likeliest activities of each kind; the rest would cost more rows than it tells.
    order = np.lexsort((-table.seconds, table.gap))
    key, seconds = table.gap[order], table.seconds[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    size = np.diff(np.r_[first, len(key)]).astype(np.int64)
    place = np.arange(len(key)) - np.repeat(first, size)
    heard = np.add.reduceat(table.samples[order], first) if len(key) else np.zeros(0)
    keep = (place < _LIKELY) & (np.repeat(heard, size) >= evidence) & (seconds > 0)
    order, key, seconds = order[keep], key[keep], seconds[keep]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    size = np.diff(np.r_[first, len(key)]).astype(np.int64)
    total = np.add.reduceat(seconds, first) if len(key) else np.zeros(0)
    return _Profiles(
        keys=key[first],
        first=np.r_[first, len(key)].astype(np.int64),
        activity=table.activity[order],
        share=seconds / np.repeat(total, size),
        cpu=table.cpu_s[order] / seconds,
        wait=table.core_wait_s[order] / seconds,
    )
