"""Where in the program the work of a culprit is: what its rank does in its actions more than others do in theirs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.evidence import Leaf
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.leaf import place_of_excess
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline

Place = tuple[Candidate, Leaf | None]
"""A place in the program, and the function below it in which the time is spent."""


class Places:
    """Looks for places in one run."""

    def __init__(self, blamed: BlamedRun) -> None:
        self.blamed, timeline, psg = blamed, blamed.timeline, blamed.psg
        self.rank = timeline.locations.rank[burst_locations(timeline)]
        self.begin_s, self.end_s = gap_edges(timeline)
        self.source = _sources(timeline, psg)

    def work_in(self, windows: Mapping[int, FloatArray]) -> FloatArray:
        """Seconds of every activity in the windows of ranks, each in order without overlap ``[windows, 2]``.

        Own work is known by the burst between two calls; of one that lies in a window in part, that part counts. Where
        it is known when in a burst an activity was seen, the part of that time does.
        """
        own = self.blamed.timeline.own
        inside, seen = np.zeros(len(self.begin_s)), np.zeros(len(own.seen_row))
        rank_of_seen = self.rank[own.burst[own.seen_row]]
        for rank, of_rank in windows.items():
            here = np.flatnonzero(self.rank == rank)
            if not len(of_rank) or not len(here):
                continue
            length = of_rank[:, 1] - of_rank[:, 0]
            edges, level = of_rank.ravel(), np.repeat(np.concatenate([[0.0], np.cumsum(length)]), 2)[1:-1]
            mine = np.flatnonzero(rank_of_seen == rank)
            for into, rows, begin, end in (
                (inside, here, self.begin_s[here], self.end_s[here]),
                (seen, mine, own.seen_s[mine, 0], own.seen_s[mine, 1]),
            ):
                covered = np.interp(end, edges, level) - np.interp(begin, edges, level)
                into[rows] = covered / np.maximum(end - begin, 1e-12)
        part = inside[own.burst]
        part[own.seen_row] = seen
        return weighted_count(own.activity, own.seconds * part, len(self.blamed.timeline.activities))

    def more(self, rank: int, here_s: FloatArray, usual_s: FloatArray) -> Place | None:
        """The place with most of what a rank does more than is usual, ``[activities]`` both; None if there is none.

        What is usual at a line of the source counts in all the ways that lead to it: the last stage of an engine may
        come to its layers by another one.
        """
        over = np.maximum(here_s - usual_s, 0.0)
        lines = int(self.source.max(initial=-1)) + 1
        here, usual, sides = (weighted_count(self.source, each, lines) for each in (here_s, usual_s, over))
        more = np.maximum(here - usual, 0.0) / np.where(sides > 0, sides, 1.0)
        over = over * more[self.source]
        target = np.flatnonzero(over > 0.0)
        # The first location of a rank is its main thread.
        location = np.full(len(target), int(np.searchsorted(self.blamed.timeline.locations.rank, rank)))
        return place_of_excess(location, target, over[target], self.blamed)


def _sources(timeline: Timeline, psg: PSG) -> IntArray:
    """A number for the line of the source of every activity ``[activities]``."""
    numbers: dict[tuple[str, int], int] = {}
    found = []
    for vertex, line in zip(timeline.activities.vertex.tolist(), timeline.activities.line.tolist(), strict=True):
        place = psg[vertex].place
        found.append(numbers.setdefault((place.file, line or place.line), len(numbers)))
    return np.array(found, np.int64)


def windows_of(begin_s: FloatArray, end_s: FloatArray, chosen: BoolArray) -> FloatArray:
    """Some actions of one rank as windows in order ``[windows, 2]``."""
    pairs = np.stack([begin_s[chosen], end_s[chosen]], axis=1)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    pairs[1:, 0] = np.maximum(pairs[1:, 0], pairs[:-1, 1])
    return pairs


def between(windows_s: FloatArray, outer_s: FloatArray) -> FloatArray:
    """What of some outer windows is in none of the inner ones, each in order ``[windows, 2]``."""
    edges = [np.zeros((0, 2))]
    for begin, end in outer_s:
        inner = windows_s[(windows_s[:, 1] > begin) & (windows_s[:, 0] < end)]
        edges.append(np.stack([np.concatenate([[begin], inner[:, 1]]), np.concatenate([inner[:, 0], [end]])], axis=1))
    found = np.concatenate(edges)
    return np.asarray(found[found[:, 1] > found[:, 0]])
