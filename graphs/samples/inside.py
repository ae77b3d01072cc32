"""Which spans of threads samples lie in."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.columns.span_reading import SpanTable
from scalana.graphs.readers.folder.records import Samples


def span_of_samples(table: SpanTable, rows: IntArray, samples: Samples) -> IntArray:
    """Of every sample, which of some spans of its thread it lies in, -1 for none ``[samples]``. Spans of one thread do
    not overlap; ``rows`` are theirs, and what is returned counts among these."""
    nothing = np.full(len(samples), -1, np.int64)
    if not len(rows) or not len(samples):
        return nothing
    thread = table.lanes.thread[table.lane[rows]].astype(np.int64)
    start, end = table.start_ns[rows].astype(np.int64), table.end_ns[rows].astype(np.int64)
    time = samples.time_ns.astype(np.int64)
    origin = min(int(time.min()), int(start.min()))
    span = max(int(time.max()), int(end.max())) - origin + 1
    order = np.lexsort((start, thread))
    begins = (thread * span + start - origin)[order]
    key = samples.thread.astype(np.int64) * span + (time - origin)
    last = np.searchsorted(begins, key, side="right") - 1
    at = order[np.maximum(last, 0)]
    inside = (last >= 0) & (thread[at] == samples.thread) & (time <= end[at])
    return np.where(inside, at, nothing)
