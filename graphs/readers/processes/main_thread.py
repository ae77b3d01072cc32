"""Which of its threads a process is known by."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import ProcessRecord

_TAKE, _REPLY = BY_NAME["take"].code, BY_NAME["reply"].code


def is_called(record: ProcessRecord) -> bool:
    """Whether a process does what a framework calls it for: an actor, say, whatever it says to be itself."""
    return record.meta.get("part_source") == "framework" or "made_as" in record.meta


def main_thread(record: ProcessRecord) -> int:
    """The main thread of a process. Of one that a framework calls, that does its work elsewhere (an actor's event loop,
    or a thread of its pool), it is the thread that does most of it."""
    main = min((index for index, thread in record.threads.items() if thread.is_main), default=0)
    if is_called(record) and len(record.events):
        served_ns = _served_ns(record)
        if served_ns.any():
            return int(served_ns.argmax())
        calls = np.bincount(np.asarray(record.events.thread))
        if len(calls) <= main or not calls[main]:
            return int(calls.argmax())
    return main


def _served_ns(record: ProcessRecord) -> IntArray:
    """Time that each thread was at calls of others, each by itself; one that was never done lasts until the end. The
    first, which made the process what it is, is left out ``[threads]``."""
    events = record.events
    operation, seq, thread, enter_ns, duration_ns = (
        np.asarray(column).astype(np.int64)
        for column in (events.operation, events.seq, events.thread, events.enter_ns, events.duration_ns)
    )
    exit_ns = enter_ns + duration_ns
    takes, replies = (np.flatnonzero((operation == code) & (seq > 0)) for code in (_TAKE, _REPLY))
    # What else a call needs, results of others, is taken together with it, and told behind it.
    takes = takes[np.unique(np.stack((exit_ns[takes], thread[takes])), axis=1, return_index=True)[1]][1:]
    takes = takes[np.unique(np.stack((seq[takes], thread[takes])), axis=1, return_index=True)[1]]
    until_ns = np.full(len(takes), int(exit_ns.max()))
    _, take, reply = np.intersect1d(seq[takes], seq[replies], return_indices=True)
    until_ns[take] = enter_ns[replies[reply]]
    served = np.maximum(until_ns - exit_ns[takes], 0)
    return np.bincount(thread[takes], served, int(thread.max()) + 1).astype(np.int64)
