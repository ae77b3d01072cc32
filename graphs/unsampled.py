"""Gaps between calls that no sample fell into, divided like sampled short gaps between the same two calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.tables import to_seconds
from scalana.graphs.timeline import FloatArray, IntArray
from scalana.graphs.work_rows import Gaps, Rows, concatenated, grouped, sorted_by_gap

_SHORT_PERIODS = 4
"""Gaps up to this many sampling periods are alike enough to tell what an unsampled one holds."""
_OWN_EVIDENCE = 10
"""Sampled like gaps from which a location's unsampled ones follow itself rather than all locations."""
_LIKELY = 4
"""Activities that an unsampled gap is divided over at most."""


def unsampled(
    gaps: Gaps,
    rows: Rows,
    common: Profiles,
    place: Callable[[IntArray, IntArray], IntArray],
    vertices: int,
    period_ns: int,
) -> Rows:
    """Rows of the gaps that no row is of yet, sorted by gap; CPU as the like gaps have it.

    ``common`` are the profiles of the whole run; ``place`` gives the place of a pair of vertex and line, as half the
    number of an activity: that of a gap without any like it.
    """
    length = gaps.own_ns()
    sampled = np.zeros(len(length), np.bool_)
    sampled[rows.gap] = True
    empty = np.flatnonzero(~sampled & (length > 0))
    kind = _kinds(gaps, vertices)
    own_kind = gaps.location * (vertices + 1) ** 2 + kind
    own = _profiles(_evidence(gaps, rows, own_kind, period_ns), _OWN_EVIDENCE)
    pieces: list[Rows] = []
    left = empty
    for profile, key in ((own, own_kind), (common, kind)):
        rows_of_gaps, left = profile.divide(left, key, length)
        pieces.append(rows_of_gaps)
    seconds = to_seconds(length[left])
    nothing = np.zeros(len(left))
    # With no like gap known, all of it was on a CPU or none, as the clocks say.
    default = place(gaps.default_vertex[left], gaps.default_line[left])
    pieces.append(Rows(left, 2 * default, seconds, nothing, nothing.copy(), nothing.copy()))
    return sorted_by_gap(concatenated(pieces))


def evidence_of(gaps: Gaps, rows: Rows, vertices: int, period_ns: int) -> Rows:
    """What the short sampled gaps tell of gaps between the same two calls, whose kind stands in place of the gap."""
    return _evidence(gaps, rows, _kinds(gaps, vertices), period_ns)


def common_profiles(evidence: Sequence[Rows]) -> Profiles:
    """Profiles of a run, from the evidence of all its portions."""
    return _profiles(grouped(concatenated(evidence)), 1)


def _kinds(gaps: Gaps, vertices: int) -> IntArray:
    """A number for the vertices of the calls before and after each gap ``[gaps]``."""
    return (gaps.before + 1) * (vertices + 1) + gaps.after + 1


@dataclass(slots=True)
class Profiles:
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


def _evidence(gaps: Gaps, rows: Rows, key_of_gap: IntArray, period_ns: int) -> Rows:
    """Rows of the short gaps, added up by the key of their gap."""
    pick = np.flatnonzero((gaps.end_ns - gaps.start_ns)[rows.gap] <= _SHORT_PERIODS * period_ns)
    return grouped(
        Rows(
            key_of_gap[rows.gap[pick]],
            rows.activity[pick],
            rows.seconds[pick],
            rows.cpu_s[pick],
            rows.core_wait_s[pick],
            rows.samples[pick],
        )
    )


def _runs(key: IntArray) -> tuple[IntArray, IntArray]:
    """Where runs of equal keys begin, and how long they are."""
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    return first, np.diff(np.r_[first, len(key)]).astype(np.int64)


def _profiles(table: Rows, evidence: int) -> Profiles:
    """Profiles of the kinds of gaps with at least ``evidence`` samples, from rows sorted by kind."""
    first, size = _runs(table.gap)
    heard = np.add.reduceat(table.samples, first) if len(first) else np.zeros(0)
    enough = np.flatnonzero(np.repeat(heard >= evidence, size))
    # The likeliest activities of each kind; the rest would cost more rows than it tells.
    order = enough[np.lexsort((-table.seconds[enough], table.gap[enough]))]
    first, size = _runs(table.gap[order])
    place = np.arange(len(order)) - np.repeat(first, size)
    order = order[(place < _LIKELY) & (table.seconds[order] > 0)]
    key, seconds = table.gap[order], table.seconds[order]
    first, size = _runs(key)
    total = np.add.reduceat(seconds, first) if len(key) else np.zeros(0)
    return Profiles(
        keys=key[first],
        first=np.r_[first, len(key)].astype(np.int64),
        activity=table.activity[order],
        share=seconds / np.repeat(total, size),
        cpu=table.cpu_s[order] / seconds,
        wait=table.core_wait_s[order] / seconds,
    )
