"""Training steps that were marked, as the spans that they are."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.readers.folder.records import Threads
from scalana.graphs.spans.span_columns import Spans

SOURCES = ("user", "trainer", "optimizer", "schedule")
"""What marks steps, the most telling first."""


def marked_steps(spans: Spans, threads: Threads) -> tuple[FloatArray, IntArray]:
    """Rows of (location, start_s, end_s), sorted by location and start, and the number of each step, -1 for none.

    Where steps of several sources were marked in a run, only those of the most telling one count.
    """
    rows = spans.rows("step")
    thread = spans.lanes.thread[spans.table.lane[rows]]
    known = thread >= 0
    known[known] = threads.is_own[thread[known]]
    rows, thread = rows[known], thread[known].astype(np.int64)
    source = spans.texts("source")[rows]
    best = next((told for name in SOURCES if (told := (source >= 0) & (source == spans.number(name))).any()), None)
    if best is not None:
        rows, thread = rows[best], thread[best]
    main = np.full(int(threads.rank.max(initial=0)) + 1, -1, np.int64)
    main[threads.rank[threads.is_main]] = threads.location[threads.is_main]
    location = threads.location[thread]
    location = np.where(location >= 0, location, main[threads.rank[thread]])
    start = spans.table.start_ns[rows]
    order = np.lexsort((start, location))
    columns = location.astype(np.float64), to_seconds(start), to_seconds(spans.table.end_ns[rows])
    return np.stack(columns, axis=1)[order], spans.table.step[rows].astype(np.int64)[order]
