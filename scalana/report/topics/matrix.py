"""Places by ranks: which rank spends how long at which of the largest places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.run_info import RunInfo
from scalana.report.document.pictures import Heatmap
from scalana.report.document.sections import Section, section
from scalana.report.topics.hot import seconds_of_ranks
from scalana.report.topics.places import hot_table

MOST_COLUMNS = 96
"""Of more ranks, neighbours share a column."""


def sections(analysis: Analysis) -> Sequence[Section]:
    """The picture; none for one rank, or where no time was recorded."""
    found, run = hot_table(analysis), analysis.ppg.run
    if found is None or run.ranks < 2:
        return []
    begins = np.arange(0, run.ranks, -(-run.ranks // MOST_COLUMNS))
    most = np.maximum.reduceat(seconds_of_ranks(found.places, analysis.ppg), begins, axis=1)
    rows = tuple(f"{where} {place.name}" for place, where in zip(found.places, found.where, strict=True))
    words = "Seconds in the whole run, a column a rank. The darkest cell of a row is its maximum."
    if len(begins) < run.ranks:
        words += f" Of {run.ranks} ranks, neighbours share a column (their maximum)."
    ticks = tuple(map(str, begins.tolist()))
    picture = Heatmap("seconds at places, by rank", words, rows, _heads(begins, run), ticks, most)
    return [section("matrix", "Places and ranks", "", picture)]


def _heads(begins: IntArray, run: RunInfo) -> tuple[str, ...]:
    """What each column stands for."""
    ends = [*begins[1:].tolist(), run.ranks]
    return tuple(
        run.names.one(begin) if end - begin == 1 else run.names.many(range(begin, end))
        for begin, end in zip(begins.tolist(), ends, strict=True)
    )
