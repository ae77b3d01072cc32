"""What ranks did in each column of a drawing over time: own work, waiting by its cause, transfer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scalana.detectors.rollup.paths import reaching_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding
    from scalana.graphs.arrays.types import FloatArray

COLUMNS = 360
_CLOSE = 5
"""Steps that are shown large."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Parts of the columns of one rank."""

    rank: int
    parts: FloatArray
    """Time outside communication, waiting by each cause and by others, transfer ``[causes + 3, columns]``, each as a
    share of the column."""


def close_up(analysis: Analysis) -> list[tuple[str, tuple[float, float]]]:
    """A title, begin and end of a few steps: the slowest of all, or one in the middle, with its neighbours; none where
    there are too few steps for it to show more than the whole run."""
    steps = analysis.steps
    if steps is None or len(steps) < 3 * _CLOSE:
        return []
    slow = steps.slow()
    middle = int(slow[0]) if len(slow) else (steps.warm_up + len(steps)) // 2
    first = min(max(middle - _CLOSE // 2, steps.warm_up), len(steps) - _CLOSE)
    begin = float(np.nanmin(np.append(steps.start_s[first], steps.end_s[max(first - 1, 0)])))
    end = float(np.nanmax(steps.end_s[first + _CLOSE - 1]))
    title = f"Steps {int(steps.number[first])} to {int(steps.number[first + _CLOSE - 1])}"
    return [(f"{title}, around the slowest" if len(slow) else title, (begin, end))]


def filled(analysis: Analysis, causes: Sequence[Finding], ranks: list[int], edges: FloatArray) -> list[Filled]:
    """What the main threads of some ranks did between edges in seconds ``[columns + 1]``.

    ``causes`` are findings that are made of entries of the blame table. O(their calls x causes).
    """
    timeline, waits, groups = analysis.ppg.timeline, analysis.waits, analysis.blame.groups.group_of_call
    calls, locations = timeline.calls, timeline.locations
    by_cause = [
        np.append(reaching_entries(cause.entries, analysis.blame)[1], 0.0)
        for cause in causes
        if cause.entries is not None
    ]
    rows = []
    for rank in ranks:
        found = np.flatnonzero((locations.rank == rank) & locations.is_main)
        if not len(found):
            continue
        location = int(found[0])
        at = slice(int(calls.first[location]), int(calls.first[location + 1]))
        enter, leave = calls.enter_s[at], calls.exit_s[at]
        released = enter + waits.wait_s[at]
        left = np.ones(len(enter))
        parts = []
        for reaching in by_cause:
            part = np.minimum(reaching[groups[at]], left)
            left = left - part
            parts.append(_between(enter, released, part, edges))
        parts.append(_between(enter, released, left, edges))
        parts.append(_between(released, leave, np.ones(len(enter)), edges))
        start, end = locations.start_s[location : location + 1], locations.end_s[location : location + 1]
        recorded = _between(start, end, np.ones(1), edges)
        own = np.maximum(recorded - np.sum(parts, axis=0), 0.0)
        rows.append(Filled(rank, np.array([own, *parts]) / np.diff(edges)))
    return rows


def _between(begin: FloatArray, end: FloatArray, part: FloatArray, edges: FloatArray) -> FloatArray:
    """Seconds between edges in periods that follow each other, each counted by a part of it ``[columns]``."""
    if not len(begin):
        return np.zeros(len(edges) - 1)
    times = np.maximum.accumulate(np.column_stack([begin, end]).ravel())
    grown = np.zeros((len(begin), 2))
    grown[:, 1] = part
    seconds = np.concatenate(([0.0], np.cumsum(np.diff(times) * grown.ravel()[1:])))
    return np.diff(np.interp(edges, times, seconds))
