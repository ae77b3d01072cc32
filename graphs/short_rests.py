"""Rests that are shorter than the time between two looks at a thread, and runs that are shorter than a period.

Native code is sampled by its CPU time while it runs. Where it rests is found by looks, which come every few periods: of
many short rests they find some, and the time of the others lies with what the thread ran before and after. The other
way round, where only a rest was found, what the thread ran before lies with that. Neither look nor period knows of the
program, so that rests found, times the time between two looks, is how long such rests take in all; and samples of what
runs, times the period, how much CPU that takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.hashing import number_columns
from scalana.graphs.tables import BoolArray
from scalana.graphs.timeline import FloatArray, IntArray

LOOK_PERIODS = 3
"""Sampling periods from one look to the next, as long as threads now rest and now run: two, or four."""
_ENOUGH = 4
"""Found in gaps between the same two calls, at least, to tell of those that were not."""
_PLACES = 4
"""Places that what was not found in a kind of gap is divided over at most."""


@dataclass(slots=True)
class Moves:
    """Time from the samples that it lies with to the places that it belongs to."""

    sample: IntArray
    """``[moves]``"""
    place: IntArray
    """``[moves]``"""
    seconds: FloatArray
    """``[moves]``"""


def unfound_rests(
    kind: IntArray, place: IntArray, begins: BoolArray, runs: BoolArray, rest_s: FloatArray, period_s: float
) -> Moves:
    """Where the rests belong that lie with samples of running code.

    Taken are rests at places that no look ever found a thread at rest in, in this kind of gap; at most as much as the
    rests that were found stand for, less what lies with these already.

    Args:
        kind: of the gap that a sample lies in, with its location ``[samples]``.
        place: where the sample is ``[samples]``.
        begins: whether it is the first that found the thread at this rest ``[samples]``.
        runs: whether it is of native code that ran ``[samples]``.
        rest_s: how long the thread neither ran nor waited for a core, of the time that the sample stands for
            ``[samples]``.
        period_s: of sampling.
    """
    pair, first = number_columns(kind, place)
    found = np.bincount(pair, begins, len(first))
    kinds, ones = number_columns(kind[first])
    there_s = np.bincount(kinds, np.where(found > 0, np.bincount(pair, rest_s, len(first)), 0.0), len(ones))
    rests = np.bincount(kinds, found, len(ones))
    loose_s = np.where(runs & (found[pair] == 0), rest_s, 0.0)
    due_s = np.where(rests >= _ENOUGH, rests * LOOK_PERIODS * period_s - there_s, 0.0)
    all_s = np.bincount(kinds[pair], loose_s, len(ones))
    part = np.clip(due_s / np.maximum(all_s, 1e-300), 0.0, 1.0)
    return _moves(loose_s * part[kinds[pair]], pair, kinds, found.astype(np.float64), place[first])


def unfound_runs(
    kind: IntArray, place: IntArray, runs: BoolArray, rests: BoolArray, cpu_s: FloatArray, period_s: float
) -> Moves:
    """Where the CPU time belongs that lies with samples of rests: to places with less than their samples stand for.

    Args:
        kind: as for :func:`unfound_rests` ``[samples]``.
        place: likewise ``[samples]``.
        runs: whether the sample is of native code that ran, and thus stands for a period of CPU time ``[samples]``.
        rests: whether it is of a rest ``[samples]``.
        cpu_s: CPU time that lies with it ``[samples]``.
        period_s: of sampling.
    """
    pair, first = number_columns(kind, place)
    kinds, ones = number_columns(kind[first])
    found = np.bincount(pair, runs, len(first))
    more_s = np.bincount(pair, cpu_s, len(first)) - found * period_s
    lacks_s = np.where(found > 0, np.maximum(-more_s, 0.0), 0.0)
    loose_s = np.where(rests, cpu_s, 0.0)
    there_s = np.bincount(pair, loose_s, len(first))
    given_s = np.clip(more_s, 0.0, there_s)
    all_s = np.bincount(kinds, given_s, len(ones))
    enough = np.bincount(kinds, found, len(ones)) >= _ENOUGH
    due_s = np.where(enough, np.minimum(np.bincount(kinds, lacks_s, len(ones)), all_s), 0.0)
    part = (given_s / np.maximum(there_s, 1e-300)) * (due_s / np.maximum(all_s, 1e-300))[kinds]
    return _moves(loose_s * part[pair], pair, kinds, lacks_s, place[first])


def _moves(taken_s: FloatArray, pair: IntArray, kinds: IntArray, weight: FloatArray, place: IntArray) -> Moves:
    """What is taken from samples, to the likeliest places of their kind.

    Args:
        taken_s: ``[samples]``.
        pair: of kind and place that each lies in ``[samples]``.
        kinds: kind of each pair ``[pairs]``.
        weight: of its place among those of its kind ``[pairs]``.
        place: ``[pairs]``.
    """
    count = int(kinds.max(initial=-1)) + 1
    order = np.lexsort((-weight, kinds))
    begin = np.searchsorted(kinds[order], np.arange(count + 1))
    order = order[(np.arange(len(order)) - begin[kinds[order]] < _PLACES) & (weight[order] > 0.0)]
    begin = np.searchsorted(kinds[order], np.arange(count + 1))
    share = weight[order] / np.bincount(kinds[order], weight[order], count)[kinds[order]]
    sample = np.flatnonzero(taken_s > 0.0)
    of = kinds[pair[sample]]
    size = np.diff(begin)[of]
    row = np.arange(int(size.sum())) + np.repeat(begin[of] - (np.cumsum(size) - size), size)
    sample = np.repeat(sample, size)
    return Moves(sample, place[order[row]], taken_s[sample] * share[row])
