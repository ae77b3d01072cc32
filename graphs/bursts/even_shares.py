"""Computing in bursts that few samples fall into, divided as the samples of all like bursts have it.

The samples of a burst share its time. Where a burst lasts one and a half times as long as what lies between two
samples, one falls into it or two do: what is done in its middle is found alone, and stands for all of it; what is done
at its ends is found together, and shares it. Of three functions that take a third each, the middle one would be told a
half. Samples of many such bursts, each for the CPU time that passed before it wherever it was taken, have none of that.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.bursts.short_rests import Moves, Pairs, moves_between
from scalana.graphs.calls.bursts import Bursts

_ENOUGH = 16
"""Samples in like bursts, at least, that tell how these divide."""
_LENGTHS = 4.0
"""Kinds of lengths for each doubling: like bursts are as long as each other within a fifth."""
_LEAST_PART = 0.02
"""Of the CPU time of like bursts: less than that is not moved from a place to others."""


def lengths(bursts: Bursts, period_ns: int) -> IntArray:
    """A number for how much CPU time each burst took, or for how long it was where that is not known ``[bursts]``."""
    known = np.where(bursts.cpu_ns >= 0, bursts.cpu_ns, bursts.own_ns())
    return np.asarray(np.rint(_LENGTHS * np.log2(np.maximum(known / period_ns, 2.0**-4)))).astype(np.int64)


def unequal(pairs: Pairs, runs: BoolArray, counted_s: FloatArray, cpu_s: FloatArray) -> Moves:
    """CPU time of places that have more than their samples stand for, to those that have less.

    Args:
        pairs: of kinds of bursts, alike in length, and places.
        runs: whether a sample found its thread running ``[samples]``.
        counted_s: CPU time that passed before each sample since the one before it ``[samples]``.
        cpu_s: CPU time that lies with it, of that of its burst ``[samples]``.
    """
    pair, count = pairs.of_sample, len(pairs.kind)
    here_s = np.where(runs, cpu_s, 0.0)
    found, told_s, have_s = (np.bincount(pair, of, count) for of in (runs, np.where(runs, counted_s, 0.0), here_s))
    told_all_s, all_s = pairs.of_all(told_s)[pairs.kind], pairs.of_all(have_s)[pairs.kind]
    enough = (pairs.of_all(found)[pairs.kind] >= _ENOUGH) & (told_all_s > 0.0)
    more_s = np.where(enough, have_s - all_s * told_s / np.maximum(told_all_s, 1e-300), 0.0)
    more_s[np.abs(more_s) < _LEAST_PART * all_s] = 0.0
    lacks_s = np.maximum(-more_s, 0.0)
    lacks_all_s, more_all_s = (pairs.of_all(of)[pairs.kind] for of in (lacks_s, np.maximum(more_s, 0.0)))
    given_s = np.maximum(more_s, 0.0) * np.minimum(lacks_all_s / np.maximum(more_all_s, 1e-300), 1.0)
    return moves_between(here_s * (given_s / np.maximum(have_s, 1e-300))[pair], pairs, lacks_s)
