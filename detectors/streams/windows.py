"""Where devices were looked at without a break, and in which steps."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from scalana.detectors.streams.activities import Doings, marked_spans
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.spans.span_columns import Spans


def all_windows(doings: Doings, spans: Spans) -> tuple[dict[int, FloatArray], dict[int, list[list[int]]]]:
    """Where the device of every rank was looked at, and in which steps; ranks in their order.

    What hosts did before the first mark of a window matters as far as that makes one rank's come later than another's.
    What is as long on all of them is left out, so that hosts that began the step at different times, and all waited for
    their devices since, do not count as late.
    """
    windows: dict[int, FloatArray] = {}
    steps: dict[int, list[list[int]]] = {}
    of_step: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for rank in np.unique(doings.rank[doings.on_device]).tolist():
        mine = doings.rank == rank
        windows[rank], steps[rank], marked = _windows(doings, mine, mine & doings.on_device, spans)
        for window, some in enumerate(steps[rank] if marked else ()):
            of_step[some[0]].append((rank, window))
    for ranks in of_step.values():
        begin, first = (np.array([windows[rank][window, column] for rank, window in ranks]) for column in (0, 1))
        begin = np.maximum(begin, first.min() - (first - begin).min())
        for (rank, window), moment in zip(ranks, begin.tolist(), strict=True):
            windows[rank][window, 0] = moment
    return windows, steps


def _windows(
    doings: Doings, mine: BoolArray, device: BoolArray, spans: Spans
) -> tuple[FloatArray, list[list[int]], bool]:
    """Those of one rank: begin, first thing on the device, and end of each ``[windows, 3]``; their steps; and whether
    jobs marked what there is.

    What a job marks itself is looked at from where the host began a step, as far as that is known; a device that was
    further behind its host than the host took to the first mark had older things to do till then.
    """
    rows = np.flatnonzero(device)
    rows = rows[np.argsort(doings.start_s[rows], kind="stable")]
    step = spans.table.step[doings.span[rows]].astype(np.int64)
    marked = bool(marked_spans(spans)[doings.span[rows]].any())
    breaks = np.flatnonzero(np.diff(step) > 1) + 1 if marked else rows[:0]
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(rows))
    first_s = doings.start_s[rows[firsts]]
    last_s = np.array([doings.end_s[rows[low:high]].max() for low, high in zip(firsts, lasts, strict=True)])
    begin_s = first_s.copy()
    if not len(breaks):
        begin_s[0] = doings.start_s[mine].min()
    if marked:
        steps = spans.rows("step")
        steps = steps[spans.rank[steps] == doings.rank[rows[0]]]
        begun = dict(zip(spans.table.step[steps].tolist(), spans.start_s(steps).tolist(), strict=True))
        queued_s = spans.integers("queued_ns", 0)[doings.span[rows[firsts]]] * 1e-9
        for window, (row, first, queued) in enumerate(zip(firsts, first_s, queued_s, strict=True)):
            begin = min(begun.get(int(step[row]), begin_s[window]), first)
            begin_s[window] = first if queued > first - queued - begin > 0.0 else begin
    numbers = [np.unique(step[low:high]).tolist() for low, high in zip(firsts, lasts, strict=True)]
    return np.stack((begin_s, first_s, last_s), axis=1), numbers, marked
