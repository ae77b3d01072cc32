"""The turns of a loop whose calls all stand in inner loops: it does something else in between."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.steps.sequence import LIKE
from scalana.graphs.steps.steps import FEWEST
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline

SURE = 2.0
"""Periods of sampling that a loop does something else for, usually, so that every turn shows it."""


def turns_of_loop(
    loop: int, inner: Container[int], rows: IntArray, member: IntArray, timeline: Timeline, psg: PSG
) -> IntArray | None:
    """The last calls of the turns of a loop, ascending, among the calls of a location; None where that is not clear.

    Before the first call of a turn the location works in the loop, but in none of its inner loops. A turn in which that
    was too short to be seen is as long as most of the others.

    Args:
        loop: its vertex.
        inner: all loops with calls in them.
        rows: the location's calls, by row of the timeline ``[calls]``.
        member: those that are below the loop ``[some calls]``.
    """
    outside_s = _outside_s(loop, inner, rows, timeline, psg)[member]
    first = np.flatnonzero(outside_s > 0.0)
    first = first[first > 0]
    if len(first) < FEWEST:
        return None
    gaps = np.diff(first)
    lengths, counts = np.unique(gaps, return_counts=True)
    usual = int(lengths[np.argmax(counts)])
    if usual < 2:
        return None
    if float(np.mean(gaps % usual == 0)) >= LIKE:
        begins = np.arange(first[0] % usual, len(member) + 1, usual)
        begins = begins[begins > 0]
    elif float(np.median(outside_s[first])) >= SURE * timeline.period_s:
        begins = np.append(first, len(member))
    else:
        return None
    return np.asarray(member[begins - 1])


def _outside_s(loop: int, inner: Container[int], rows: IntArray, timeline: Timeline, psg: PSG) -> FloatArray:
    """Seconds that a location works in a loop and in none of its inner loops, before each of its calls ``[calls]``."""
    own, activities = timeline.own, timeline.activities
    here = np.array([_stands_in(vertex, loop, inner, psg) for vertex in activities.vertex.tolist()], np.bool_)
    chosen: BoolArray = here[own.activity] & (own.burst >= rows[0]) & (own.burst <= rows[-1])
    seconds = np.bincount(own.burst[chosen] - rows[0], own.seconds[chosen], len(rows))
    return np.asarray(seconds, np.float64)


def _stands_in(vertex: int, loop: int, inner: Container[int], psg: PSG) -> bool:
    """Whether the innermost loop with calls around a vertex is this one."""
    while vertex >= 0 and vertex not in inner:
        vertex = psg[vertex].parent
    return vertex == loop
