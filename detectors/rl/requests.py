"""Engines that serve others: which process generates while another one waits for the answer.

A loop over agents sends the requests of its trajectories to engines in processes of their own, which have no phases.
What these do is generation while they have a request; and a trajectory is theirs who served it, as its speed is.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans


def that_serve(spans: Spans) -> IntArray:
    """By what a process generates that has no phases of it: its requests with answers that have tokens; where nobody
    has any, its trajectories ``[some spans]``."""
    rows = _answered(spans)
    return rows if len(rows) else spans.rows("trajectory")


def serving(spans: Spans, rows: IntArray) -> FloatArray:
    """While it has one of these under way: begins and ends of stretches that do not overlap, in seconds on the run's
    axis ``[stretches, 2]``."""
    return joined(np.stack((spans.start_s(rows), spans.end_s(rows)), axis=1))


def made_by(spans: Spans, rows: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Of trajectories the process, begin and end: of the request with as many tokens whose middle lies inside, if one
    was sent to another process; each request counts once ``[trajectories]``."""
    rank, start, end = spans.rank[rows].copy(), spans.start_s(rows), spans.end_s(rows)
    requests = _answered(spans)
    if not len(requests) or not len(rows):
        return rank, start, end
    tokens = spans.numbers("tokens")
    begins, ends = spans.start_s(requests), spans.end_s(requests)
    order = np.argsort(begins + ends, kind="stable")
    requests, begins, ends = requests[order], begins[order], ends[order]
    middle, length, by = (begins + ends) / 2, tokens[requests], spans.rank[requests]
    free = np.ones(len(requests), np.bool_)
    # The shortest first: fewer requests lie in them.
    for one in np.argsort(end - start, kind="stable").tolist():
        first, last = np.searchsorted(middle, [start[one], end[one]])
        fits = free[first:last] & (length[first:last] == tokens[rows[one]]) & (by[first:last] != rank[one])
        if fits.any():
            # That which ends last: what follows an answer is short, what comes before it may be a queue.
            at = np.flatnonzero(fits) + first
            chosen = int(at[ends[at].argmax()])
            free[chosen] = False
            rank[one], start[one], end[one] = by[chosen], begins[chosen], ends[chosen]
    return rank, start, end


def _answered(spans: Spans) -> IntArray:
    """Requests of which it is known how many tokens the answer had."""
    rows = spans.rows("request")
    return rows[~np.isnan(spans.numbers("tokens")[rows])]
