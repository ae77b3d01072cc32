"""The calls of some ranks, each at its location, and the bursts between them: one portion of a run.

Everything here counts in the portion, but for the rows of events, which are those of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.columns import narrow, narrowed, take, wide, widened
from scalana.graphs.arrays.hashing import distinct, packed
from scalana.graphs.arrays.shards import Shard
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.calls.calls import WAIT, Spans, build_spans, select
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.folder.records import Events, Samples, Threads
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.runtime.operations import BY_NAME, GIVING, TAKING
from scalana.runtime.record.format import STATE_RUNNING

TAKE = BY_NAME["take"].code


@dataclass(slots=True)
class Located:
    """The calls and locations of a portion. Integers may be narrow."""

    shard: Shard
    spans: Spans
    """Sorted by (location, enter); ``post``, ``waits`` and ``outer`` are rows of the run's events."""
    location: IntArray
    """``[calls]``"""
    first: IntArray
    """Start of each location's calls ``[locations + 1]``."""
    threads: Threads
    """With their locations; ``process`` is the run's."""
    rank: IntArray
    """``[locations]``"""
    is_main: np.ndarray
    """``[locations]``"""
    start_ns: IntArray
    """``[locations]``"""
    end_ns: IntArray
    """``[locations]``"""
    path: IntArray
    """Call path of each kind of call: calls of one path that are there for one operation ``[kinds]``."""
    operation: IntArray
    """Its operation: of a wait, what it waits for, if that is one thing ``[kinds]``."""
    kind: IntArray
    """``[calls]``"""

    def __len__(self) -> int:
        return len(self.location)

    def let_go_of_calls(self) -> None:
        """Free what the run's table of calls holds from here on."""
        none = np.zeros(0, np.int64)
        self.spans = replace(
            self.spans, thread=none, enter_ns=none, exit_ns=none, nbytes=none, post=none, wait_first=none, waits=none
        )


def locate(data: Gathered, shard: Shard) -> Located:
    """Make calls of the events of a portion, and find the threads that are locations."""
    rows = shard.event_rows
    if len(data.unanswered):
        rows = rows[~data.unanswered[rows]]
    threads = take(data.threads, shard.threads)
    samples = samples_of(data, shard)
    events = _events_of(data, shard, rows)
    spans = build_spans(events)
    speaks = np.bincount(spans.thread, minlength=len(threads)) > 0
    thread = np.flatnonzero(speaks | threads.is_main)
    thread = thread[np.lexsort((thread, ~threads.is_main[thread], threads.rank[thread]))]
    threads.location = np.full(len(threads), -1, np.int64)
    threads.location[thread] = np.arange(len(thread))
    location = threads.location[spans.thread]
    if (location[1:] < location[:-1]).any():
        order = np.argsort(location, kind="stable")
        spans, location = select(spans, order), location[order]
    served = _served(threads, spans)
    _idle_from_the_start(spans, served & ~threads.is_main, data.start_ns[threads.process])
    start, end = _lifetimes(data, threads, thread, served, spans, samples)
    meant = spans.operation.copy()
    single = np.flatnonzero((meant == WAIT) & (np.diff(spans.wait_first) == 1))
    meant[single] = events.operation[spans.waits[spans.wait_first[single]]]
    _, one, kind = distinct(packed(spans.path, meant))
    path, operation = spans.path[one], meant[one]
    spans.post = np.where(spans.post >= 0, rows[spans.post], -1) if len(rows) else spans.post
    spans.waits, spans.outer = rows[spans.waits], rows[spans.outer]
    return Located(
        shard=shard,
        spans=narrowed(spans),
        location=narrow(location),
        first=np.searchsorted(location, np.arange(len(thread) + 1)).astype(np.int64),
        threads=threads,
        rank=threads.rank[thread],
        is_main=threads.is_main[thread],
        start_ns=start,
        end_ns=end,
        path=path,
        operation=operation,
        kind=narrow(kind),
    )


def samples_of(data: Gathered, shard: Shard) -> Samples:
    """The samples of a portion."""
    samples = widened(take(data.samples, shard.samples))
    samples.thread = samples.thread - shard.threads.start
    return samples


def _events_of(data: Gathered, shard: Shard, rows: IntArray) -> Events:
    """The events of a portion; ``completes`` are rows among them. What is only passed on stays narrow."""
    events = take(data.events, rows if len(shard.open_events) or len(data.unanswered) else shard.events)
    completes = events.completes.astype(np.int64)
    waits = np.flatnonzero(completes >= 0)
    completes[waits] = np.searchsorted(rows, completes[waits])
    return replace(
        events,
        thread=events.thread.astype(np.int64) - shard.threads.start,
        flags=wide(events.flags),
        enter_ns=wide(events.enter_ns),
        exit_ns=wide(events.exit_ns),
        cpu_enter_ns=wide(events.cpu_enter_ns),
        cpu_exit_ns=wide(events.cpu_exit_ns),
        completes=completes,
    )


def _is_first(threads: Threads) -> BoolArray:
    """Main threads that their processes began with: a process may be known by another one of its threads, whose rests
    are as those of the others ``[threads]``."""
    first = np.append(True, np.diff(threads.process) != 0)[: len(threads)]
    return np.asarray(threads.is_main & first)


def _served(threads: Threads, spans: Spans) -> BoolArray:
    """Threads that have calls, but none that are not remote calls ``[threads]``."""
    served = np.bincount(spans.thread, minlength=len(threads)) > 0
    served[spans.thread[~np.isin(spans.operation, (*GIVING, *TAKING))]] = False
    return served


def _idle_from_the_start(spans: Spans, served: BoolArray, start_ns: IntArray) -> None:
    """Let threads that first do what they are called for wait for it since their process began ``[threads]``: whatever
    made that call later, they did not."""
    if served.any():
        _, first = np.unique(spans.thread, return_index=True)
        first = first[served[spans.thread[first]] & (spans.operation[first] == TAKE)]
        spans.enter_ns[first] = np.minimum(spans.enter_ns[first], start_ns[spans.thread[first]])
        spans.cpu_enter_ns[first] = -1


def _lifetimes(
    data: Gathered, threads: Threads, thread: IntArray, served: BoolArray, spans: Spans, samples: Samples
) -> tuple[IntArray, IntArray]:
    """Start and end of each location ``[locations]``, whose threads are ``thread``.

    The time of other threads than the main one is known from their first sign of life to their last. A thread that does
    but what others call it for rests before its first call and after its last.
    """
    awake = ~served[samples.thread] | (samples.state == STATE_RUNNING)
    first = np.full(len(threads), np.iinfo(np.int64).max, np.int64)
    last = np.full(len(threads), np.iinfo(np.int64).min, np.int64)
    for of, begin, end in (
        (samples.thread[awake], samples.time_ns[awake], samples.time_ns[awake]),
        (spans.thread, spans.enter_ns, spans.exit_ns),
    ):
        np.minimum.at(first, of, begin)
        np.maximum.at(last, of, end)
    process, other = threads.process[thread], ~threads.is_main[thread] | (served & ~_is_first(threads))[thread]
    speaks = np.bincount(spans.thread, minlength=len(threads))[thread] > 0
    start = np.where(other, first[thread], data.start_ns[process])
    end = np.where(other, last[thread], data.end_ns[process])
    start = np.minimum(start, np.where(speaks, first[thread], start))
    end = np.maximum(end, np.where(speaks, last[thread], end))
    return start, end


def bursts_of(
    located: Located, enter_ns: IntArray, exit_ns: IntArray, vertex: IntArray, places: Places, enclosing: IntArray
) -> Bursts:
    """The stretches between calls. Gap ``i`` of a location comes before its call ``i``.

    ``enter_ns``, ``exit_ns`` and ``vertex`` are those of the calls ``[calls]``, ``enclosing`` what
    :func:`outside_communication` gives.
    """
    spans = widened(located.spans)
    location = located.location.astype(np.int64)
    n, count = len(location), len(located.rank)
    before_call = np.arange(n) + location  # bursts in order: one more for every location before
    tail = located.first[1:] + np.arange(count)
    head = located.first[:-1] + np.arange(count)
    size = n + count

    def column(fill: int = -1) -> IntArray:
        return np.full(size, fill, np.int64)

    of, start, end, cpu_from, cpu_to = column(), column(), column(), column(), column()
    before, after, number, path = column(), column(), column(), column()
    of[before_call], of[tail] = location, np.arange(count)
    number[before_call], number[tail] = np.arange(n), n + np.arange(count)
    start[before_call + 1], end[before_call] = exit_ns, enter_ns
    start[head], end[tail] = located.start_ns, located.end_ns
    cpu_from[before_call + 1], cpu_to[before_call] = spans.cpu_exit_ns, spans.cpu_enter_ns
    before[before_call + 1], after[before_call] = vertex, vertex
    # Where nothing else is known, a burst goes to the code around the next call, or else the last.
    path[before_call + 1] = spans.path
    path[before_call] = spans.path
    known = path >= 0
    cpu = np.where((cpu_from >= 0) & (cpu_to >= 0), np.maximum(cpu_to - cpu_from, 0), -1)
    return Bursts(
        location=of,
        start_ns=start,
        end_ns=np.maximum(end, start),
        cpu_ns=cpu,
        before=before,
        after=after,
        number=number,
        default_vertex=np.where(known, enclosing[places.vertex[path]], 0),
        default_line=np.where(known, places.line[path], 0),
    )


def outside_communication(psg: PSG) -> IntArray:
    """The innermost vertex at or above each one that is not inside a communication call ``[vertices]``."""
    result = np.arange(len(psg.vertices), dtype=np.int64)
    for vertex in psg.vertices:
        parent = vertex.parent
        if parent >= 0 and (vertex.kind is VertexKind.COMM or result[parent] != parent):
            result[vertex.index] = result[parent]
    return result
