"""Rests that are shorter than the time between two looks at a thread, and runs that are shorter than a period.

Native code is sampled by its CPU time while it runs. Where it rests is found by looks, which come every few periods: of
many short rests they find some, and the time of the others lies with what the thread ran before and after. The other
way round, where only a rest was found, what the thread ran before lies with that. Neither look nor period knows of the
program, so that rests found, times the time between two looks, is how long such rests take in all; and samples of what
runs, times the period, how much CPU that takes.

Who rests also gives its core away, and where others want it, may have to wait for one afterwards, often for longer than
it rested. That is no part of what it runs next. A wait follows a rest only where there was one: what is waited between
samples in whose time the thread rested nowhere was taken from what it ran there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray

LOOK_PERIODS = 3
"""Sampling periods from one look to the next, as long as threads now rest and now run: two, or four."""
_ENOUGH = 4
"""Found in bursts between the same two calls, at least, to tell of those that were not."""
_PLACES = 4
"""Places that what was not found in a kind of burst is divided over at most."""
_LEAST_CPU_S = 0.05
"""Of computing without rests, at least, to tell how long who computes waits for a core."""
_LEAST_REST_S = 50e-6
"""A shorter rest is the error of clocks that are read one after the other."""
_STOLEN = 1.0 / 32.0
"""Of the time that a thread does not wait for a core: so much a host may take away unseen, which is no rest."""
_CLEARLY_MORE = 1.5
"""Times as long as usual who rests waits for a core, at least, for that to be because it rests."""


@dataclass(slots=True)
class Moves:
    """Time from the samples that it lies with to the places that it belongs to."""

    sample: IntArray
    """``[moves]``"""
    place: IntArray
    """``[moves]``"""
    seconds: FloatArray
    """``[moves]``"""

    @classmethod
    def none(cls) -> Moves:
        """Nothing moves."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(slots=True)
class Pairs:
    """The kinds of bursts that samples lie in, each with its location, and the places that they are at."""

    of_sample: IntArray
    """Pair of each sample ``[samples]``."""
    kind: IntArray
    """Number of the kind ``[pairs]``."""
    sample: IntArray
    """One of each kind ``[kinds]``."""
    place: IntArray
    """``[pairs]``"""

    @classmethod
    def of(cls, kind: IntArray, place: IntArray) -> Pairs:
        """Number them, of ``[samples]``."""
        of_sample, first = number_columns(kind, place)
        number, ones = number_columns(kind[first])
        return cls(of_sample, number, first[ones], place[first])

    @property
    def kinds(self) -> int:
        """How many there are."""
        return len(self.sample)

    def of_all(self, pairs: FloatArray | IntArray) -> FloatArray:
        """A column of the pairs, added up by kind ``[kinds]``."""
        return np.asarray(np.bincount(self.kind, pairs, self.kinds), np.float64)


def unfound_rests(pairs: Pairs, begins: BoolArray, runs: BoolArray, rest_s: FloatArray, period_s: float) -> Moves:
    """Where the rests belong that lie with samples of running code.

    Taken are rests at places that no look ever found a thread at rest in, in this kind of burst; at most as much as the
    rests that were found stand for, less what lies with these already.

    Args:
        pairs: of kinds of bursts and places.
        begins: whether a sample is the first that found the thread at this rest ``[samples]``.
        runs: whether it is of native code that ran ``[samples]``.
        rest_s: how long the thread neither ran nor waited for a core, of the time that the sample stands for
            ``[samples]``.
        period_s: of sampling.
    """
    pair, count = pairs.of_sample, len(pairs.kind)
    found = np.asarray(np.bincount(pair, begins, count), np.float64)
    there_s = pairs.of_all(np.where(found > 0, np.bincount(pair, rest_s, count), 0.0))
    rests = pairs.of_all(found)
    loose_s = np.where(runs & (found[pair] == 0), rest_s, 0.0)
    due_s = np.where(rests >= _ENOUGH, rests * LOOK_PERIODS * period_s - there_s, 0.0)
    all_s = pairs.of_all(np.bincount(pair, loose_s, count))
    part = np.clip(due_s / np.maximum(all_s, 1e-300), 0.0, 1.0)
    return moves_between(loose_s * part[pairs.kind[pair]], pairs, found)


@dataclass(frozen=True, slots=True)
class Spent:
    """What lies with samples, of the time without rests."""

    cpu_s: FloatArray
    """``[samples]``"""
    core_wait_s: FloatArray
    """Time without a core ``[samples]``."""
    after_rest_s: FloatArray
    """What of it may follow a rest ``[samples]``."""


def rested(seconds: FloatArray, cpu_s: FloatArray, core_wait_s: FloatArray) -> BoolArray:
    """Whether threads rested in some of the time that their samples stand for ``[samples]``, each of whose columns is
    given: it is what was neither run nor waited for a core."""
    without_s = seconds - core_wait_s
    return np.asarray(without_s - cpu_s > np.maximum(_LEAST_REST_S, _STOLEN * without_s))


def lost_cores(
    pairs: Pairs,
    location: IntArray,
    alike: IntArray,
    begins: BoolArray,
    calls: BoolArray,
    spent: Spent,
) -> Moves:
    """Waits for a core that belong to the rests before them.

    They are what is waited in a kind of burst beyond what as much computing takes without rests: that of the same
    location in other kinds of bursts, or of other locations between the same two calls, whichever waited for longer; or
    that of all where neither is known. Nothing moves where nobody computes without rests. Rests too short to be
    found are where calls that rest take CPU time.

    Args:
        pairs: of kinds of bursts and places.
        location: of each kind ``[kinds]``.
        alike: equal for kinds of all locations between the same two calls ``[kinds]``.
        begins: whether a sample is the first that found the thread at this rest ``[samples]``.
        calls: whether one found it to run in a function in which threads rest ``[samples]``.
        spent: what lies with it ``[samples]``.
    """
    pair, count = pairs.of_sample, len(pairs.kind)
    found, called = (np.bincount(pair, of, count).astype(np.float64) for of in (begins, calls))
    found = np.where(pairs.of_all(found)[pairs.kind] >= _ENOUGH, found, found + called)
    computed_s = pairs.of_all(np.where(found + called > 0, 0.0, np.bincount(pair, spent.cpu_s, count)))
    waited_s = pairs.of_all(np.bincount(pair, spent.core_wait_s, count))
    with_rests = pairs.of_all(found) >= _ENOUGH
    own, others, all_ = (
        _waits_per_second(group, with_rests, computed_s, waited_s) for group in (location, alike, np.zeros_like(alike))
    )
    usual = np.fmax(own, others)
    usual = np.where(np.isnan(usual), all_, usual)
    usual_s = usual * computed_s
    more = with_rests & (waited_s > _CLEARLY_MORE * usual_s)  # not where usual waits are unknown
    all_s = pairs.of_all(np.bincount(pair, spent.after_rest_s, count))
    part = np.where(more, np.clip((waited_s - usual_s) / np.maximum(all_s, 1e-300), 0.0, 1.0), 0.0)
    return moves_between(spent.after_rest_s * part[pairs.kind[pair]], pairs, found)


def _waits_per_second(group: IntArray, rests: BoolArray, computed_s: FloatArray, waited_s: FloatArray) -> FloatArray:
    """How long who computes without rests waits for a core in kinds of the same group, per second; NaN where that is
    not known ``[kinds]``."""
    ran_s, lacked_s = (np.bincount(group, np.where(rests, 0.0, of))[group] for of in (computed_s, waited_s))
    return np.where(ran_s >= _LEAST_CPU_S, lacked_s / np.maximum(ran_s, _LEAST_CPU_S), np.nan)


def unfound_runs(pairs: Pairs, runs: BoolArray, rests: BoolArray, cpu_s: FloatArray, period_s: float) -> Moves:
    """Where the CPU time belongs that lies with samples of rests: to places with less than their samples stand for.

    Args:
        pairs: of kinds of bursts and places.
        runs: whether a sample is of native code that ran, and thus stands for a period of CPU time ``[samples]``.
        rests: whether it is of a rest ``[samples]``.
        cpu_s: CPU time that lies with it ``[samples]``.
        period_s: of sampling.
    """
    pair, count = pairs.of_sample, len(pairs.kind)
    found = np.asarray(np.bincount(pair, runs, count), np.float64)
    more_s = np.bincount(pair, cpu_s, count) - found * period_s
    lacks_s = np.where(found > 0, np.maximum(-more_s, 0.0), 0.0)
    loose_s = np.where(rests, cpu_s, 0.0)
    there_s = np.bincount(pair, loose_s, count)
    given_s = np.clip(more_s, 0.0, there_s)
    all_s = pairs.of_all(given_s)
    due_s = np.where(pairs.of_all(found) >= _ENOUGH, np.minimum(pairs.of_all(lacks_s), all_s), 0.0)
    part = (given_s / np.maximum(there_s, 1e-300)) * (due_s / np.maximum(all_s, 1e-300))[pairs.kind]
    return moves_between(loose_s * part[pair], pairs, lacks_s)


def moves_between(taken_s: FloatArray, pairs: Pairs, weight: FloatArray) -> Moves:
    """What is taken from samples, to the likeliest places of their kind.

    Args:
        taken_s: ``[samples]``.
        pairs: of kinds of bursts and places.
        weight: of a place among those of its kind ``[pairs]``.
    """
    kinds, count = pairs.kind, pairs.kinds
    order = np.lexsort((-weight, kinds))
    begin = np.searchsorted(kinds[order], np.arange(count + 1))
    order = order[(np.arange(len(order)) - begin[kinds[order]] < _PLACES) & (weight[order] > 0.0)]
    begin = np.searchsorted(kinds[order], np.arange(count + 1))
    share = weight[order] / np.bincount(kinds[order], weight[order], count)[kinds[order]]
    sample = np.flatnonzero(taken_s > 0.0)
    of = kinds[pairs.of_sample[sample]]
    size = np.diff(begin)[of]
    row = np.arange(int(size.sum())) + np.repeat(begin[of] - (np.cumsum(size) - size), size)
    sample = np.repeat(sample, size)
    return Moves(sample, pairs.place[order[row]], taken_s[sample] * share[row])
