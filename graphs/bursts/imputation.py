"""Bursts between calls that no sample fell into, divided like sampled ones between the same two calls.

Short bursts are divided like short ones: each of these speaks for as many as no sample fell into, which are many where
it is much shorter than the time between two samples, and hardly any where it is not. A long burst without a sample is
one in which a thread slept, or had no core, and was not found at it: it is divided like long ones, or else, too, like
short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.bursts.work_rows import Rows, concatenated, grouped, sorted_by_burst
from scalana.graphs.calls.bursts import Bursts

_SHORT_PERIODS = 4
"""Bursts up to this many sampling periods are short."""
_UNLIKELY = 0.01
"""Bursts that no sample fell into for one that was hit, at least: a burst as long as a period may be missed, too."""
_OWN_EVIDENCE = 10
"""Sampled like bursts from which a location's unsampled ones follow itself rather than all locations."""
_GUESSED = 4.0
"""Samples that what is inferred of a location's activity weighs, against those that found the location at it."""
_ROUNDS = 3
"""Times that what is inferred is fitted to them."""
_LIKELY = 4
"""Activities that an unsampled burst is divided over at most."""


def unsampled(
    bursts: Bursts,
    rows: Rows,
    common: Profiles,
    place: Callable[[IntArray, IntArray], IntArray],
    vertices: int,
    period_ns: int,
) -> Rows:
    """Rows of the bursts that no row is of yet, sorted by burst; CPU as the like bursts have it.

    ``common`` are the profiles of the whole run; ``place`` gives the place of a pair of vertex and line, as half the
    number of an activity: that of a burst without any like it.
    """
    length = bursts.own_ns()
    sampled = np.zeros(len(length), np.bool_)
    sampled[rows.burst] = True
    empty = np.flatnonzero(~sampled & (length > 0))
    kind, own_kind = _kinds(bursts, vertices, period_ns), own_kinds(bursts, vertices, period_ns)
    own = _profiles(_evidence(bursts, rows, own_kind, period_ns), _OWN_EVIDENCE)
    pieces: list[Rows] = []
    left = empty
    for profile, key in ((own, own_kind), (common, kind), (own, own_kind & ~1), (common, kind & ~1)):
        rows_of_gaps, left = profile.divide(left, key, length)
        pieces.append(rows_of_gaps)
    inferred = concatenated(pieces)
    _fit(inferred, rows, bursts.location)
    seconds = to_seconds(length[left])
    nothing = np.zeros(len(left))
    # With no like burst known, all of it was on a CPU or none, as the clocks say.
    default = place(bursts.default_vertex[left], bursts.default_line[left])
    return sorted_by_burst(
        concatenated([inferred, Rows(left, 2 * default, seconds, nothing, nothing.copy(), nothing.copy())])
    )


def _fit(inferred: Rows, rows: Rows, location: IntArray) -> None:
    """Divide bursts so that what a location does in all takes about as long as the part of its samples found there
    says.

    What other locations do between two calls says little of one that no sample ever found at it: with many pairs of
    calls, as where few of them are written, hardly any pair has samples of its own. Iterative proportional fitting of
    the activities' totals (Deming and Stephan 1940), in which each burst keeps its length.
    """
    known, burst = len(rows), inferred.burst
    if not known or not len(burst):
        return
    who = location[np.concatenate((rows.burst, burst))]
    pair, first = number_columns(who, np.concatenate((rows.activity, inferred.activity)))
    count = len(first)
    who = number_columns(who[first])[0]
    found, sampled_s = (np.bincount(pair[:known], column, count) for column in (rows.samples, rows.seconds))
    samples = np.bincount(who, found)
    pair = pair[known:]
    whole_s = np.bincount(burst, inferred.seconds, len(location))
    for _ in range(_ROUNDS):
        spent_s = sampled_s + np.bincount(pair, inferred.seconds, count)
        expected = spent_s * (samples / np.maximum(np.bincount(who, spent_s), 1e-300))[who]
        weight = ((found + _GUESSED) / (expected + _GUESSED))[pair]
        weight *= (whole_s / np.maximum(np.bincount(burst, inferred.seconds * weight, len(location)), 1e-300))[burst]
        for column in (inferred.seconds, inferred.cpu_s, inferred.core_wait_s):
            column *= weight


def evidence_of(bursts: Bursts, rows: Rows, vertices: int, period_ns: int) -> Rows:
    """What the sampled bursts tell of bursts between the same two calls, whose kind stands in place of the burst."""
    return _evidence(bursts, rows, _kinds(bursts, vertices, period_ns), period_ns)


def common_profiles(evidence: Sequence[Rows]) -> Profiles:
    """Profiles of a run, from the evidence of all its portions."""
    return _profiles(grouped(concatenated(evidence)), 1)


def _kinds(bursts: Bursts, vertices: int, period_ns: int) -> IntArray:
    """A number for the vertices of the calls before and after each burst, and for its being long: odd if so
    ``[bursts]``."""
    long = bursts.end_ns - bursts.start_ns > _SHORT_PERIODS * period_ns
    return 2 * ((bursts.before + 1) * (vertices + 1) + bursts.after + 1) + long


def own_kinds(bursts: Bursts, vertices: int, period_ns: int) -> IntArray:
    """A number for the location of each burst, the vertices of the calls before and after it, and for its being long
    ``[bursts]``."""
    return np.asarray(bursts.location * 2 * (vertices + 1) ** 2 + _kinds(bursts, vertices, period_ns))


@dataclass(slots=True)
class Profiles:
    """How sampled bursts of a kind divide over activities; shares of a kind add up to 1."""

    keys: IntArray
    """Kinds, ascending ``[kinds]``."""
    first: IntArray
    """``[kinds + 1]`` into the rows below."""
    activity: IntArray
    share: FloatArray
    cpu: FloatArray
    """CPU a second ``[rows]``."""
    wait: FloatArray

    def divide(self, bursts: IntArray, key: IntArray, length_ns: IntArray) -> tuple[Rows, IntArray]:
        """Rows of those ``bursts`` whose kind is known, and the other bursts."""
        if len(self.keys) == 0:
            none = np.zeros(0)
            return Rows(bursts[:0], bursts[:0], none, none, none, none), bursts
        at = np.minimum(np.searchsorted(self.keys, key[bursts]), len(self.keys) - 1)
        known = self.keys[at] == key[bursts]
        chosen, at = bursts[known], at[known]
        size = self.first[at + 1] - self.first[at]
        burst = np.repeat(chosen, size)
        row = np.repeat(self.first[at] - (np.cumsum(size) - size), size) + np.arange(len(burst))
        seconds = to_seconds(length_ns[burst]) * self.share[row]
        inferred = Rows(
            burst, self.activity[row], seconds, seconds * self.cpu[row], seconds * self.wait[row], np.zeros(len(burst))
        )
        return inferred, bursts[~known]


def _evidence(bursts: Bursts, rows: Rows, key_of_gap: IntArray, period_ns: int) -> Rows:
    """The rows, added up by the key of their burst, as seconds of the bursts that no sample fell into: of bursts of a
    length, that many times as many as of those that were hit."""
    length = np.maximum(bursts.end_ns - bursts.start_ns, 1)
    unseen = np.maximum(period_ns / length - 1.0, _UNLIKELY)[rows.burst]
    sums = (rows.seconds * unseen, rows.cpu_s * unseen, rows.core_wait_s * unseen)
    return grouped(Rows(key_of_gap[rows.burst], rows.activity, *sums, rows.samples))


def _runs(key: IntArray) -> tuple[IntArray, IntArray]:
    """Where runs of equal keys begin, and how long they are."""
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    return first, np.diff(np.r_[first, len(key)]).astype(np.int64)


def _profiles(table: Rows, evidence: int) -> Profiles:
    """Profiles of the kinds of bursts with at least ``evidence`` samples, from rows sorted by kind."""
    first, size = _runs(table.burst)
    heard = np.add.reduceat(table.samples, first) if len(first) else np.zeros(0)
    enough = np.flatnonzero(np.repeat(heard >= evidence, size))
    # The likeliest activities of each kind; the rest would cost more rows than it tells.
    order = enough[np.lexsort((-table.seconds[enough], table.burst[enough]))]
    first, size = _runs(table.burst[order])
    place = np.arange(len(order)) - np.repeat(first, size)
    order = order[(place < _LIKELY) & (table.seconds[order] > 0)]
    key, seconds = table.burst[order], table.seconds[order]
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
