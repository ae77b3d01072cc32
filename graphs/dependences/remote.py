"""Remote calls and messages of queues: who takes something waits for the call that gives it. Both have the same id."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.columns import concatenate
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.dependences.rows import Signals
from scalana.graphs.readers.records import Events
from scalana.runtime.operations import BY_NAME, GIVING, IN_VAIN, TAKING

SUBMIT, TAKE, REPLY, RESULT = (BY_NAME[name].code for name in ("submit", "take", "reply", "result"))


def remote_signals(events: Events, call_of_event: IntArray) -> Signals:
    """Who took what was given by which call.

    Where an id was given several times (a task that is done again), what was given last before the end of the call that
    takes it, by another thread if one did; where it was given only later (a wait that was given up, the end of a pool
    that one call tells and another carries out), the first after that. But not for what takes no time, the start of a
    process: it was there before. A wait that is told to have ended in vain is for what was given after that, first of
    all.
    """
    call = _calls_of(events, call_of_event)
    known = (call >= 0) & (events.seq > 0)
    given, taken = (known & np.isin(events.operation, operations) for operations in (GIVING, TAKING))
    # A call and its result may have one id: who waits for the result does not wait for the call to be submitted.
    results = events.operation == RESULT
    submitted = events.operation == SUBMIT
    return concatenate(
        [
            _matched(events, call, np.flatnonzero(given), np.flatnonzero(taken & ~results)),
            _matched(events, call, np.flatnonzero(given & ~submitted), np.flatnonzero(taken & results)),
        ],
        Signals,
    )


def untaken(events: Events) -> int:
    """Calls whose result was waited for, but which no recorded process took: who did them has left no record."""
    of = {code: events.seq[(events.operation == code) & (events.seq > 0)] for code in (SUBMIT, TAKE, REPLY, RESULT)}
    awaited = np.intersect1d(of[SUBMIT], of[RESULT])
    return len(np.setdiff1d(awaited, np.concatenate((of[TAKE], of[REPLY]))))


def _matched(events: Events, call: IntArray, given: IntArray, taken: IntArray) -> Signals:
    """Who took what was given, of some events that give and some that take."""
    rows = np.concatenate((given, taken))
    gives = np.arange(len(rows)) < len(given)
    moment = np.where(gives, events.enter_ns[rows], events.exit_ns[rows])
    order = np.lexsort((~gives, moment, events.seq[rows]))
    rows, gives = rows[order], gives[order]
    thread, id_of = events.thread[rows], events.seq[rows]
    before = _last_given(gives, thread, id_of)
    after = _last_given(gives[::-1], thread[::-1], id_of[::-1])[::-1]
    after = np.where(after >= 0, len(rows) - 1 - after, -1)
    after[events.exit_ns[rows] == events.enter_ns[rows]] = -1
    in_vain = (events.tag[rows] == IN_VAIN) & (after >= 0)
    giver = np.where(in_vain | (before < 0), after, before)
    found = ~gives & (giver >= 0)
    source = rows[giver[found]]
    return Signals(call[source], call[rows[found]], events.operation[source].astype(np.int64))


def _last_given(gives: BoolArray, thread: IntArray, id_of: IntArray) -> IntArray:
    """For rows in the order of their ids, the last one up to each that gives what has its id, -1 for none: one of
    another thread, where there is one. Two that send each other the same do not take what they sent ``[rows]``."""
    last = np.maximum.accumulate(np.where(gives, np.arange(len(gives)), -1))
    giver = np.flatnonzero(gives)
    changes = np.ones(len(giver), np.bool_)
    changes[1:] = (np.diff(thread[giver]) != 0) | (np.diff(id_of[giver]) != 0)
    first = np.maximum.accumulate(np.where(changes, np.arange(len(giver)), 0))
    of_others = np.full(len(gives) + 1, -1)
    of_others[giver] = np.where(first > 0, giver[first - 1], -1)  # the last entry is of those without a giver
    own = (last >= 0) & (thread[last] == thread)
    other = np.where(own, of_others[last], last)
    other, last = (np.where((one >= 0) & (id_of[one] == id_of), one, -1) for one in (other, last))
    return np.where(other >= 0, other, last)


def _calls_of(events: Events, call_of_event: IntArray) -> IntArray:
    """The call of each event: of several things that were taken at once, there is but one."""
    order = np.lexsort((call_of_event < 0, -events.exit_ns, events.enter_ns, events.thread))
    same = np.zeros(len(order), np.bool_)
    same[1:] = np.isin(events.operation[order[1:]], TAKING) & (call_of_event[order[1:]] < 0)
    for column in (events.thread, events.enter_ns, events.exit_ns, events.operation):
        same[1:] &= column[order[1:]] == column[order[:-1]]
    lead = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    call = call_of_event.copy()
    call[order] = call_of_event[order[lead]]
    return call
