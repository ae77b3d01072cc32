"""Recorded communication events -> calls that follow each other on their thread without overlap.

A record holds what was intercepted, at every layer: a barrier that is made of an allreduce, a post and the wait right
after it, look-ups in a store. Here these become plain calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.readers.folder.records import Events
from scalana.runtime.operations import BY_NAME, TAKING
from scalana.runtime.record.format import EVENT_BLOCKING, EVENT_COMPLETION, EVENT_LEVEL_SHIFT, EVENT_POST

WAIT = BY_NAME["wait"].code
STORE = BY_NAME["store"].code

_JOIN_NS = 50_000
"""A wait that follows its post within this time makes one blocking call with it."""


@dataclass(slots=True)
class Spans(ColumnTable):
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
    level: IntArray
    """One in 2^level of such calls was written, when this one was ``[calls]``."""


def build_spans(events: Events) -> Spans:
    """Turn recorded events into calls."""
    order = _nesting_order(events)
    starts = _starts_call(events, order)
    lead = order[starts]
    kept = _innermost(events, lead)
    inner = np.zeros(len(events), np.bool_)
    inner[kept] = True
    left_out = lead[~inner[lead]]
    thread, enter, leave = events.thread[kept], events.enter_ns[kept], events.exit_ns[kept].copy()
    # Whatever still overlaps (clocks read out of order) ends where the next begins.
    same = thread[1:] == thread[:-1]
    leave[:-1] = np.where(same, np.minimum(leave[:-1], enter[1:]), leave[:-1])
    leave = np.maximum(leave, enter)

    completes = events.completes[kept]
    is_wait = (completes >= 0) | (events.operation[kept] == WAIT) | (events.flags[kept] & EVENT_COMPLETION > 0)
    blocking = ~is_wait & (events.flags[kept] & EVENT_POST == 0) & (events.flags[kept] & EVENT_BLOCKING > 0)
    post = np.where(is_wait, -1, kept)
    waits_for = np.where(is_wait, completes, np.where(blocking, kept, -1))

    size = np.diff(np.r_[np.flatnonzero(starts), len(order)])
    alone = np.ones(len(events), np.bool_)
    alone[lead] = size == 1
    joined = _joined(thread, enter, leave, post, np.where(alone[kept], completes, -1), is_wait, events)
    first, second = joined, joined + 1
    leave[first] = leave[second]
    waits_for[first] = kept[first]
    cpu_exit = events.cpu_exit_ns[kept].copy()
    cpu_exit[first] = cpu_exit[second]
    keep = np.ones(len(kept), np.bool_)
    keep[second] = False

    # What each call waits for: itself, the post that it completes, or all those of a waitall.
    position = np.full(len(events), -1, np.int64)
    position[kept[keep]] = np.arange(int(keep.sum()))
    single = keep & (waits_for >= 0)
    leader = np.repeat(lead, size)
    more = np.flatnonzero((leader != order) & (position[leader] >= 0) & (events.completes[order] >= 0))
    owner = np.concatenate((position[kept[single]], position[leader[more]]))
    waited = np.concatenate((waits_for[single], events.completes[order[more]]))
    by_owner = np.argsort(owner, kind="stable")
    return Spans(
        thread=thread[keep],
        operation=events.operation[kept][keep],
        path=events.path[kept][keep],
        enter_ns=enter[keep],
        exit_ns=leave[keep],
        cpu_enter_ns=events.cpu_enter_ns[kept][keep],
        cpu_exit_ns=cpu_exit[keep],
        nbytes=events.nbytes[kept][keep],
        post=post[keep],
        wait_first=np.searchsorted(owner[by_owner], np.arange(int(keep.sum()) + 1)).astype(np.int64),
        waits=waited[by_owner],
        outer=left_out,
        level=events.flags[kept][keep] >> EVENT_LEVEL_SHIFT,
    )


def _nesting_order(events: Events) -> IntArray:
    """Rows by thread and enter; of those that begin together the longer first, but for those that take no time: they
    come before."""
    if len(events) == 0:
        return np.zeros(0, np.int64)
    origin = int(events.enter_ns.min())
    key = events.thread * (int(events.enter_ns.max()) - origin + 1) + (events.enter_ns - origin)
    order = np.argsort(key, kind="stable")
    if (key[order[1:]] == key[order[:-1]]).any():
        order = np.lexsort((-events.exit_ns, events.exit_ns > events.enter_ns, key))
    return order


def _starts_call(events: Events, order: IntArray) -> BoolArray:
    """Which rows of ``order`` start a call: completions with the same times are one call that completes several, and
    so are events that take several things at once."""
    starts = np.ones(len(order), np.bool_)
    completes = (events.completes[order] >= 0) | np.isin(events.operation[order], TAKING)
    starts[1:] = ~(completes[1:] & completes[:-1])
    for column in (events.thread, events.enter_ns, events.exit_ns):
        starts[1:] |= column[order[1:]] != column[order[:-1]]
    return starts


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
    """Rows of posts that are followed at once by their own wait, and by nothing in between that was not written."""
    follows = (thread[1:] == thread[:-1]) & (enter[1:] - leave[:-1] < _JOIN_NS)
    own = is_wait[1:] & (post[:-1] >= 0) & (completes[1:] == post[:-1])
    simple = np.zeros(len(post), np.bool_)
    flags = events.flags[post[post >= 0]]
    simple[post >= 0] = ((flags & EVENT_POST) > 0) & (flags >> EVENT_LEVEL_SHIFT == 0)
    return np.flatnonzero(follows & own & simple[:-1])


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
        level=spans.level[rows],
    )
