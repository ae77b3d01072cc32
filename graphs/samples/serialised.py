"""Samples of threads that pickle for other processes, or unpickle: at the line of the program that hands it over.

Pools and queues do it in threads of their own, or in the loops of their workers. Nothing there can be changed; the call
that hands over a large object can.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.columns.span_reading import SpanTable
from scalana.graphs.samples.inside import span_of_samples
from scalana.graphs.samples.library_code import library_codes
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import SPAN_TYPE

_HANDING = tuple(BY_NAME[name].code for name in ("submit", "put", "result", "get"))
"""Operations whose line says which object that is, the best first: one hands it over, or waits for it."""


def move_serialised(data: Gathered) -> None:
    """Put the samples that were taken while something was pickled or unpickled at the line that hands it over, and the
    spans of that, too. What is done below a line of the program stays there."""
    table = data.spans
    rows = np.flatnonzero(table.type == SPAN_TYPE["serialisation"])
    call = _calls(table)[rows] if len(rows) else rows
    rows, call = rows[call > 0], call[call > 0]
    if not len(rows):
        return
    own = _own_paths(data.tree, ~library_codes(data))
    path = _path_of_calls(data, call, own)
    rows, path = rows[path > 0], path[path > 0]
    if not len(rows):
        return
    table.path = table.path.astype(np.int64)
    table.path[rows] = path
    samples = data.samples
    span = span_of_samples(table, rows, samples)
    around = _around(table, rows, data, own[samples.path] == 0)
    samples.path = samples.path.astype(np.int64)
    samples.path[around >= 0] = path[around[around >= 0]]
    samples.path[span >= 0] = path[span[span >= 0]]


def _calls(table: SpanTable) -> IntArray:
    """The call that hands over what each span pickles, 0 where none is told ``[spans]``."""
    result = np.zeros(len(table), np.int64)
    if "call" in table.names:
        rows = np.flatnonzero(table.key == table.names.index("call"))
        result[np.searchsorted(table.first, rows, side="right") - 1] = table.value[rows]
    return result


def _around(table: SpanTable, rows: IntArray, data: Gathered, foreign: BoolArray) -> IntArray:
    """Of samples of threads that pickle for others, and that are in no line of the program (``foreign``),
    the span that came last on their thread, else the first; -1 for other samples. They send and receive the rest of the
    time."""
    samples, thread = data.samples, table.lanes.thread[table.lane[rows]].astype(np.int64)
    order = np.lexsort((table.start_ns[rows], thread))
    begins, ends = (np.searchsorted(thread[order], samples.thread, side=side) for side in ("left", "right"))
    told = foreign & (begins < ends) & ~data.threads.is_main[samples.thread]
    result = np.full(len(samples), -1, np.int64)
    start = table.start_ns[rows][order].astype(np.int64)
    for number in np.unique(samples.thread[told]).tolist():
        here = np.flatnonzero(told & (samples.thread == number))
        low, high = int(begins[here[0]]), int(ends[here[0]])
        last = low + np.searchsorted(start[low:high], samples.time_ns[here], side="right") - 1
        result[here] = order[np.clip(last, low, high - 1)]
    return result


def _path_of_calls(data: Gathered, call: IntArray, own: IntArray) -> IntArray:
    """The path down to the line that hands each of some calls over, 0 where none is known ``[calls]``. ``own`` is the
    part of each path that ends in the program ``[paths]``."""
    events = data.events
    rank_of = np.full(max(*_HANDING, int(events.operation.max(initial=0))) + 1, len(_HANDING))
    rank_of[list(_HANDING)] = np.arange(len(_HANDING))
    rows = np.flatnonzero(np.isin(events.seq, call) & (rank_of[events.operation] < len(_HANDING)))
    path = own[events.path[rows]]
    rows, path = rows[path > 0], path[path > 0]
    order = np.lexsort((events.enter_ns[rows], rank_of[events.operation[rows]], events.seq[rows]))
    known, first = np.unique(events.seq[rows][order].astype(np.int64), return_index=True)
    if not len(known):
        return np.zeros(len(call), np.int64)
    at = np.minimum(np.searchsorted(known, call), len(known) - 1)
    return np.where(known[at] == call, path[order][first[at]], 0)


def _own_paths(tree: CallTree, own: BoolArray) -> IntArray:
    """The part of every path down to its innermost frame of the program, 0 where it has none ``[paths]``; ``own`` says
    which codes are of the program ``[codes]``."""
    result = np.where(own[tree.code], np.arange(len(tree)), 0)
    result[0] = 0
    for path in np.flatnonzero(result == 0).tolist():  # a parent comes before its children
        result[path] = result[tree.parent[path]]
    return result
