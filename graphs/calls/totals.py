"""The exact sums of calls per call path, which hold where only a part of the calls was written."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.hashing import distinct, packed
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.attribution.callpaths import Placer
from scalana.graphs.attribution.places import Places
from scalana.graphs.attribution.placing import call_vertices
from scalana.graphs.calls.located import Located
from scalana.graphs.metrics import add_to
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.folder.records import Events


def stood_for(events: Events, located: list[Located]) -> IntArray:
    """Distinct path and operation of the events that calls inside them stand for ``[pairs, 2]``."""
    rows = np.concatenate([np.zeros(0, np.int64), *(part.spans.outer for part in located)])
    return np.unique(np.stack((events.path[rows], events.operation[rows]), axis=1).astype(np.int64), axis=0)


def total_vertices(
    data: Gathered, places: Places, placer: Placer, located: list[Located], vertex: list[IntArray]
) -> IntArray:
    """Vertices of the sums per call path: those of the kept calls with the same path and operation, if any."""
    totals = data.totals
    if not len(totals.path):
        return np.zeros(0, np.int64)
    kept: dict[tuple[int, int], int] = {}
    for part, vertices in zip(located, vertex, strict=True):
        path, operation = part.spans.path, part.spans.operation
        _, first, _ = distinct(packed(path, operation))
        first = np.sort(first)
        of = vertices[part.kind[first]]
        for key in zip(path[first].tolist(), operation[first].tolist(), of.tolist(), strict=True):
            kept.setdefault(key[:2], key[2])
    pairs, number = np.unique(np.stack((totals.path, totals.operation), axis=1), axis=0, return_inverse=True)
    known = np.array([kept.get((path, operation), -1) for path, operation in pairs.tolist()], np.int64)
    new = np.flatnonzero(known < 0)
    known[new] = call_vertices(placer, places, pairs[new, 0], pairs[new, 1])
    return np.asarray(known[number.reshape(-1)])


def plain_totals(data: Gathered, outer: IntArray) -> IntArray:
    """Rows of the totals of the ranks' own processes.

    ``outer`` ``[pairs, 2]`` are paths and operations of what must not be counted beside the calls that stand for it.
    """
    totals = data.totals
    width = int(max(totals.operation.max(initial=0), outer[:, 1].max(initial=0))) + 1
    inside = np.isin(totals.path * width + totals.operation, outer[:, 0] * width + outer[:, 1])
    return np.flatnonzero(data.is_own[totals.process] & ~inside)


def by_rank(data: Gathered, rows: IntArray, metrics: dict[str, FloatArray]) -> tuple[list[int], list[float]]:
    """Calls of every rank, and the seconds in them, by the sums in some rows; of a rank that was killed before any was
    written, by what was."""
    calls, seconds = metrics["calls"].sum(axis=0), metrics["comm_s"].sum(axis=0)
    rank = data.rank[data.totals.process[rows]]
    summed = np.bincount(rank, minlength=len(calls)) > 0
    calls = np.where(summed, np.bincount(rank, data.totals.calls[rows], len(calls)), calls)
    seconds = np.where(summed, np.bincount(rank, to_seconds(data.totals.wall_ns[rows]), len(calls)), seconds)
    return calls.astype(np.int64).tolist(), seconds.tolist()


def add_totals(metrics: dict[str, FloatArray], data: Gathered, rows: IntArray, vertex: IntArray) -> None:
    """Replace calls, bytes and seconds of ranks whose events were thinned out by the exact sums.

    ``rows`` are those of the totals that count, ``vertex`` the vertices of all.
    """
    thinned, totals = data.is_own & data.thinned, data.totals
    rows = rows[thinned[totals.process[rows]]]
    for name, amount in (
        ("calls", totals.calls[rows].astype(np.float64)),
        ("bytes", totals.nbytes[rows].astype(np.float64)),
        ("comm_s", to_seconds(totals.wall_ns[rows])),
    ):
        metrics[name][:, data.rank[thinned]] = 0.0
        add_to(metrics[name], vertex[rows], data.rank[totals.process[rows]], amount)
