"""Gaps between calls that no sample fell into, divided like sampled ones between the same two calls.

Short gaps are divided like short ones: each of these speaks for as many as no sample fell into, which are many where it
is much shorter than the time between two samples, and hardly any where it is not. A long gap without a sample is one in
which a thread slept, or had no core, and was not found at it: it is divided like long ones, or else, too, like short
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.bursts.work_rows import Rows, concatenated, grouped, sorted_by_gap
from scalana.graphs.calls.gaps import Gaps

_SHORT_PERIODS = 4
"""Gaps up to this many sampling periods are short."""
_UNLIKELY = 0.01
"""Gaps that no sample fell into for one that was hit, at least: a gap as long as a period may be missed, too."""
_OWN_EVIDENCE = 10
"""Sampled like gaps from which a location's unsampled ones follow itself rather than all locations."""
_GUESSED = 4.0
"""Samples that what is inferred of a location's activity weighs, against those that found the location at it."""
_ROUNDS = 3
"""Times that what is inferred is fitted to them."""
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
    kind, own_kind = _kinds(gaps, vertices, period_ns), own_kinds(gaps, vertices, period_ns)
    own = _profiles(_evidence(gaps, rows, own_kind, period_ns), _OWN_EVIDENCE)
    pieces: list[Rows] = []
    left = empty
    for profile, key in ((own, own_kind), (common, kind), (own, own_kind & ~1), (common, kind & ~1)):
        rows_of_gaps, left = profile.divide(left, key, length)
        pieces.append(rows_of_gaps)
    inferred = concatenated(pieces)
    _fit(inferred, rows, gaps.location)
    seconds = to_seconds(length[left])
    nothing = np.zeros(len(left))
    # With no like gap known, all of it was on a CPU or none, as the clocks say.
    default = place(gaps.default_vertex[left], gaps.default_line[left])
    return sorted_by_gap(
        concatenated([inferred, Rows(left, 2 * default, seconds, nothing, nothing.copy(), nothing.copy())])
    )


def _fit(inferred: Rows, rows: Rows, location: IntArray) -> None:
    """Divide gaps so that what a location does in all takes about as long as the part of its samples found there says.

    What other locations do between two calls says little of one that no sample ever found at it: with many pairs of
    calls, as where few of them are written, hardly any pair has samples of its own. Iterative proportional fitting of
    the activities' totals (Deming and Stephan 1940), in which each gap keeps its length.
    """
    known, gap = len(rows), inferred.gap
    if not known or not len(gap):
        return
    who = location[np.concatenate((rows.gap, gap))]
    pair, first = number_columns(who, np.concatenate((rows.activity, inferred.activity)))
    count = len(first)
    who = number_columns(who[first])[0]
    found, sampled_s = (np.bincount(pair[:known], column, count) for column in (rows.samples, rows.seconds))
    samples = np.bincount(who, found)
    pair = pair[known:]
    whole_s = np.bincount(gap, inferred.seconds, len(location))
    for _ in range(_ROUNDS):
        spent_s = sampled_s + np.bincount(pair, inferred.seconds, count)
        expected = spent_s * (samples / np.maximum(np.bincount(who, spent_s), 1e-300))[who]
        weight = ((found + _GUESSED) / (expected + _GUESSED))[pair]
        weight *= (whole_s / np.maximum(np.bincount(gap, inferred.seconds * weight, len(location)), 1e-300))[gap]
        for column in (inferred.seconds, inferred.cpu_s, inferred.core_wait_s):
            column *= weight


def evidence_of(gaps: Gaps, rows: Rows, vertices: int, period_ns: int) -> Rows:
    """What the sampled gaps tell of gaps between the same two calls, whose kind stands in place of the gap."""
    return _evidence(gaps, rows, _kinds(gaps, vertices, period_ns), period_ns)


def common_profiles(evidence: Sequence[Rows]) -> Profiles:
    """Profiles of a run, from the evidence of all its portions."""
    return _profiles(grouped(concatenated(evidence)), 1)


def _kinds(gaps: Gaps, vertices: int, period_ns: int) -> IntArray:
    """A number for the vertices of the calls before and after each gap, and for its being long: odd if so
    ``[gaps]``."""
    long = gaps.end_ns - gaps.start_ns > _SHORT_PERIODS * period_ns
    return 2 * ((gaps.before + 1) * (vertices + 1) + gaps.after + 1) + long


def own_kinds(gaps: Gaps, vertices: int, period_ns: int) -> IntArray:
    """A number for the location of each gap, the vertices of the calls before and after it, and for its being long
    ``[gaps]``."""
    return np.asarray(gaps.location * 2 * (vertices + 1) ** 2 + _kinds(gaps, vertices, period_ns))


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
    """The rows, added up by the key of their gap, as seconds of the gaps that no sample fell into: of gaps of a length,
    that many times as many as of those that were hit."""
    length = np.maximum(gaps.end_ns - gaps.start_ns, 1)
    unseen = np.maximum(period_ns / length - 1.0, _UNLIKELY)[rows.gap]
    sums = (rows.seconds * unseen, rows.cpu_s * unseen, rows.core_wait_s * unseen)
    return grouped(Rows(key_of_gap[rows.gap], rows.activity, *sums, rows.samples))


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
