"""Recorded communication events -> calls that follow each other on their thread without overlap.

A record holds what was intercepted, at every layer: a barrier that is made of an allreduce, a post and the wait right
after it, a gradient reducer's collectives whose waiting happens unseen in C++. Here these become plain calls.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ..runtime.operations import BY_NAME
from .tables import BLOCKING, COMPLETION, LAUNCHED, POST, STATE_DISK, STATE_SLEEP, Events, Samples
from .timeline import IntArray

BoolArray = npt.NDArray[np.bool_]

WAIT = BY_NAME["wait"].code
STORE = BY_NAME["store"].code

_JOIN_NS = 50_000
"""A wait that follows its post within this time makes one blocking call with it."""
_SHORTEST_WAIT_NS = 20_000
"""Unseen waits below this are not worth a call: the clocks behind them are no better."""


@dataclass(slots=True)
class Spans:
    """Calls in the making, sorted by (thread, enter), free of overlap."""

    thread: IntArray
    """``[calls]``"""
    operation: IntArray
    """``[calls]``"""
    path: IntArray
    """``[calls]``"""
    enter_ns: IntArray
    """``[calls]``"""
    exit_ns: IntArray
    """``[calls]``"""
    cpu_enter_ns: IntArray
    """CPU clock of the thread, -1 where unknown ``[calls]``."""
    cpu_exit_ns: IntArray
    """Likewise at exit ``[calls]``."""
    nbytes: IntArray
    """``[calls]``"""
    post: IntArray
    """Event row whose arrival this call is, -1 for a wait ``[calls]``."""
    wait_first: IntArray
    """Into ``waits`` ``[calls + 1]``."""
    waits: IntArray
    """Event rows that a call waits for."""
    outer: IntArray
    """Event rows left out because others inside them stand for them."""

    def __len__(self) -> int:
        return len(self.thread)


def build_spans(events: Events, samples: Samples) -> Spans:
    """Turn recorded events into calls.

    ``samples`` (sorted by (thread, time)) only help to find waits that no event shows.
    """
    order = np.lexsort((-events.exit_ns, events.enter_ns, events.thread))
    inner = _innermost(events, order)
    left_out = np.setdiff1d(order, inner, assume_unique=True)
    kept = inner
    thread, enter, leave = events.thread[kept], events.enter_ns[kept], events.exit_ns[kept].copy()
    # Whatever still overlaps (clocks read out of order) ends where the next begins.
    same = thread[1:] == thread[:-1]
    leave[:-1] = np.where(same, np.minimum(leave[:-1], enter[1:]), leave[:-1])
    leave = np.maximum(leave, enter)

    completes = events.completes[kept]
    is_wait = (completes >= 0) | (events.operation[kept] == WAIT) | (events.flags[kept] & COMPLETION > 0)
    blocking = ~is_wait & (events.flags[kept] & POST == 0) & (events.flags[kept] & BLOCKING > 0)
    post = np.where(is_wait, -1, kept)
    waits_for = np.where(is_wait, completes, np.where(blocking, kept, -1))

    joined = _joined(thread, enter, leave, post, completes, is_wait, events)
    first, second = joined, joined + 1
    leave[first] = leave[second]
    waits_for[first] = kept[first]
    cpu_exit = events.cpu_exit_ns[kept].copy()
    cpu_exit[first] = cpu_exit[second]
    keep = np.ones(len(kept), np.bool_)
    keep[second] = False

    has_wait = keep & (waits_for >= 0)
    spans = Spans(
        thread=thread[keep],
        operation=events.operation[kept][keep],
        path=events.path[kept][keep],
        enter_ns=enter[keep],
        exit_ns=leave[keep],
        cpu_enter_ns=events.cpu_enter_ns[kept][keep],
        cpu_exit_ns=cpu_exit[keep],
        nbytes=events.nbytes[kept][keep],
        post=post[keep],
        wait_first=np.r_[0, np.cumsum(has_wait[keep])].astype(np.int64),
        waits=waits_for[has_wait],
        outer=left_out,
    )
    return _with_unseen_waits(spans, events, samples)


def _innermost(events: Events, order: IntArray) -> IntArray:
    """Rows of the events that contain no other, in ``order`` (by thread, enter, and the longer first).

    Look-ups in a store are details of what contains them: they never stand for it.
    """
    detail = _contained_stores(events, order)
    order = order[~detail]
    thread, enter, leave = events.thread[order], events.enter_ns[order], events.exit_ns[order]
    contains = np.zeros(len(order), np.bool_)
    contains[:-1] = (thread[1:] == thread[:-1]) & (enter[1:] < leave[:-1]) & (leave[1:] <= leave[:-1])
    return order[~contains]


def _contained_stores(events: Events, order: IntArray) -> BoolArray:
    """Which rows of ``order`` are store operations inside another event."""
    store = events.operation[order] == STORE
    if not store.any() or store.all():
        return np.zeros(len(order), np.bool_)
    leave = events.exit_ns[order]
    origin = int(leave.min())
    span = int(leave.max()) - origin + 2
    base = events.thread[order] * span
    reach = np.maximum.accumulate(np.where(store, base, base + leave - origin + 1))
    return np.asarray(store & (reach >= base + leave - origin + 1))


def _joined(
    thread: IntArray,
    enter: IntArray,
    leave: IntArray,
    post: IntArray,
    completes: IntArray,
    is_wait: BoolArray,
    events: Events,
) -> IntArray:
    """Rows of posts that are followed at once by their own wait."""
    follows = (thread[1:] == thread[:-1]) & (enter[1:] - leave[:-1] < _JOIN_NS)
    own = is_wait[1:] & (post[:-1] >= 0) & (completes[1:] == post[:-1])
    simple = np.zeros(len(post), np.bool_)
    simple[post >= 0] = (events.flags[post[post >= 0]] & POST) > 0
    return np.flatnonzero(follows & own & simple[:-1])


def _with_unseen_waits(spans: Spans, events: Events, samples: Samples) -> Spans:
    """Add a wait where C++ code waited for what it launched.

    The thread launches its last operation, finishes what is left to compute, and waits until all are complete. The
    CPU clock of the launching thread, read when an operation completed, tells how much of that stretch it did *not*
    run; that part, at the end, is the wait (less what it spent waiting for a core).
    """
    rows = np.flatnonzero(spans.post >= 0)
    event = spans.post[rows]
    seen = np.zeros(len(events), np.bool_)
    seen[events.completes[events.completes >= 0]] = True
    launched = (events.flags[event] & LAUNCHED > 0) & (events.done_cpu_ns[event] >= 0) & ~seen[event]
    rows = rows[launched]
    if len(rows) == 0:
        return spans
    done, done_cpu = events.done_ns[spans.post[rows]], events.done_cpu_ns[spans.post[rows]]
    # Launches in a row, all of which were still under way when the next was made, are waited for together.
    run = np.cumsum(np.r_[True, (rows[1:] != rows[:-1] + 1) | (spans.thread[rows[1:]] != spans.thread[rows[:-1]])])
    origin = int(done.min())
    span = int(done.max()) - origin + 2
    latest = np.maximum.accumulate(run * span + done - origin)
    starts = np.r_[True, (run[1:] != run[:-1]) | (latest[:-1] % span + origin <= spans.enter_ns[rows[1:]])]
    group = np.cumsum(starts) - 1
    groups = int(group[-1]) + 1
    by_done = np.lexsort((done, group))
    last_done = by_done[np.r_[np.flatnonzero(np.diff(group[by_done])), len(by_done) - 1]]
    last_post = rows[np.r_[np.flatnonzero(np.diff(group)), len(group) - 1]]

    end, end_cpu = done[last_done], done_cpu[last_done]
    following = np.minimum(last_post + 1, len(spans) - 1)
    bounded = (following > last_post) & (spans.thread[following] == spans.thread[last_post])
    end = np.where(bounded, np.minimum(end, spans.enter_ns[following]), end)
    begin, begin_cpu = spans.exit_ns[last_post], spans.cpu_exit_ns[last_post]
    thread = spans.thread[last_post]
    cored = _core_wait(samples, thread, begin, end)
    idle = np.minimum((end - begin) - np.maximum(end_cpu - begin_cpu, 0) - cored, end - begin)
    enter = end - idle
    real = (idle >= _SHORTEST_WAIT_NS) & ~_pausing(samples, thread, (enter + end) // 2)
    if bounded.any():
        real &= ~bounded | (end <= spans.enter_ns[following])

    members = np.flatnonzero(real[group])
    added = Spans(
        thread=thread[real],
        operation=np.full(int(real.sum()), WAIT, np.int64),
        path=spans.path[last_post][real],
        enter_ns=enter[real],
        exit_ns=end[real],
        cpu_enter_ns=end_cpu[real],
        cpu_exit_ns=end_cpu[real],
        nbytes=np.zeros(int(real.sum()), np.int64),
        post=np.full(int(real.sum()), -1, np.int64),
        wait_first=np.r_[0, np.cumsum(np.bincount(group, minlength=groups)[real])].astype(np.int64),
        waits=spans.post[rows[members]],
        outer=spans.outer[:0],
    )
    return _merged(spans, added)


def _merged(one: Spans, other: Spans) -> Spans:
    """Both, sorted by (thread, enter)."""
    both = Spans(
        *(np.concatenate((getattr(one, column.name), getattr(other, column.name))) for column in fields(Spans))
    )
    both.wait_first = np.concatenate((one.wait_first[:-1], len(one.waits) + other.wait_first))
    return select(both, np.lexsort((both.exit_ns, both.enter_ns, both.thread)))


def _core_wait(samples: Samples, thread: IntArray, begin: IntArray, end: IntArray) -> IntArray:
    """Time that a thread waited for a core between two moments, as far as its samples tell."""
    if len(samples) == 0:
        return np.zeros(len(thread), np.int64)
    total = np.cumsum(samples.core_wait_ns)
    low = _sample_after(samples, thread, begin)
    high = _sample_after(samples, thread, end)
    # Delays of the samples taken within; the last one's may reach a little beyond.
    return np.where(high > low, total[np.maximum(high - 1, 0)] - np.where(low > 0, total[low - 1], 0), 0)


def _pausing(samples: Samples, thread: IntArray, time: IntArray) -> BoolArray:
    """Whether a thread slept or used a disk by its own will at a moment."""
    if len(samples) == 0:
        return np.zeros(len(thread), np.bool_)
    at = np.minimum(_sample_after(samples, thread, time), len(samples) - 1)
    before = np.maximum(at - 1, 0)
    # The nearer of the samples around the moment.
    def distance(row: IntArray) -> IntArray:
        far = np.iinfo(np.int64).max
        return np.where(samples.thread[row] == thread, np.abs(samples.time_ns[row] - time), far)

    nearest = np.where(distance(before) < distance(at), before, at)
    state = samples.state[nearest]
    return np.asarray((samples.thread[nearest] == thread) & ((state == STATE_SLEEP) | (state == STATE_DISK)))


def _sample_after(samples: Samples, thread: IntArray, time: IntArray) -> IntArray:
    """Row of the first sample of ``thread`` later than ``time`` (or where it would stand)."""
    origin = min(int(samples.time_ns.min()), int(time.min()))
    span = max(int(samples.time_ns.max()), int(time.max())) - origin + 2
    keys = samples.thread * span + samples.time_ns - origin
    return np.searchsorted(keys, thread * span + time - origin, side="right")


def select(spans: Spans, rows: IntArray) -> Spans:
    """The given calls in the given order, with what they wait for."""
    size = np.diff(spans.wait_first)[rows]
    starts = np.r_[0, np.cumsum(size)].astype(np.int64)
    picked = np.repeat(spans.wait_first[:-1][rows] - starts[:-1], size) + np.arange(int(starts[-1]))
    return Spans(
        thread=spans.thread[rows],
        operation=spans.operation[rows],
        path=spans.path[rows],
        enter_ns=spans.enter_ns[rows],
        exit_ns=spans.exit_ns[rows],
        cpu_enter_ns=spans.cpu_enter_ns[rows],
        cpu_exit_ns=spans.cpu_exit_ns[rows],
        nbytes=spans.nbytes[rows],
        post=spans.post[rows],
        wait_first=starts,
        waits=spans.waits[picked],
        outer=spans.outer,
    )
