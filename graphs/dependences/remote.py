"""Remote calls and messages of queues: who takes something waits for the call that gives it. Both have the same id."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.dependences.rows import Signals
from scalana.graphs.readers.folder.records import Events
from scalana.runtime.operations import BY_NAME, GIVING, IN_VAIN, TAKING

SUBMIT, TAKE, REPLY, RESULT, GET = (BY_NAME[name].code for name in ("submit", "take", "reply", "result", "get"))


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
    others = _matched(events, np.flatnonzero(given), np.flatnonzero(taken & ~results))
    of_results = _matched(events, np.flatnonzero(given & ~submitted), np.flatnonzero(taken & results))
    source, row = np.concatenate((_let_go(events, call, others, of_results), others, of_results), axis=1)
    return Signals(call[source], call[row], events.operation[source].astype(np.int64))


def untaken(events: Events) -> int:
    """Calls whose result was waited for, but which no recorded process took: who did them has left no record. Servers
    that have a name are told by that (:mod:`scalana.graphs.dependences.servers`)."""
    of = {code: events.seq[(events.operation == code) & (events.seq > 0)] for code in (SUBMIT, TAKE, REPLY, RESULT)}
    asked = events.seq[(events.operation == RESULT) & (events.tag > 0)]
    awaited = np.setdiff1d(np.intersect1d(of[SUBMIT], of[RESULT]), asked)
    return len(np.setdiff1d(awaited, np.concatenate((of[TAKE], of[REPLY]))))


def _matched(events: Events, given: IntArray, taken: IntArray) -> IntArray:
    """Who took what was given, of some events that give and some that take: events of both, by row
    ``[2, found]``."""
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
    in_vain = (events.operation[rows] == GET) & (events.tag[rows] == IN_VAIN) & (after >= 0)
    giver = np.where(in_vain | (before < 0), after, before)
    found = ~gives & (giver >= 0)
    return np.stack((rows[giver[found]], rows[found]))


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


def _let_go(events: Events, call: IntArray, taken: IntArray, results: IntArray) -> IntArray:
    """Who submitted the call that let another one go on, which an event loop had under way, and who waits for the
    result of that: as rows of events ``[2, found]``.

    While it was under way the loop had nothing to do but to wait for a call (``calls.expected``), and the last that
    came before the reply was not its own: somebody gets what makes room in a full queue, or tells all that wait that it
    is ready. ``taken`` are those that submitted and took calls, ``results`` those that replied and took results, as
    :func:`_matched` gives them.
    """
    rows = np.flatnonzero(np.isin(events.operation, (TAKE, REPLY, GET)) & (events.seq > 0) & (call >= 0))
    rows = rows[np.lexsort((rows, events.exit_ns[rows], events.thread[rows]))]
    operation, place = events.operation[rows], np.arange(len(rows))
    # Of every call, where its thread began with it: the last time before, and the next.
    same = np.lexsort((place, events.seq[rows], events.thread[rows]))
    first = np.zeros(len(rows), np.int64)
    changes = np.diff(events.seq[rows[same]]) | np.diff(events.thread[rows[same]])
    first[1:] = np.maximum.accumulate(np.where(changes != 0, place[1:], 0))
    takes = operation[same] == TAKE
    before = np.maximum.accumulate(np.where(takes, place, -1))
    after = np.minimum.accumulate(np.where(takes, place, len(rows))[::-1])[::-1]
    began = np.full(len(rows), -1)
    began[same] = np.where(before >= first, same[np.maximum(before, 0)], -1)
    expects = np.zeros(len(rows), np.bool_)
    expects[same] = (after < len(rows)) & (first[np.minimum(after, len(rows) - 1)] == first)
    expects &= operation == GET

    last_call = np.maximum.accumulate(np.where(operation == TAKE, place, -1))
    last_idle = np.maximum.accumulate(np.where(expects, place, -1))
    found = (operation == REPLY) & (began >= 0) & (last_call > began) & (last_idle > began)
    # What was submitted last, of all that the call took that came last.
    submitted = np.full(int(call.max(initial=-1)) + 1, -1)
    order = np.argsort(events.enter_ns[taken[0]], kind="stable")
    submitted[call[taken[1, order]]] = taken[0, order]
    source = np.full(len(events), -1)
    source[rows[found]] = submitted[call[rows[last_call[found]]]]
    source[(source >= 0) & (events.operation[source] != SUBMIT)] = -1
    let_go = source[results[0]]
    kept = (let_go >= 0) & (events.thread[let_go] != events.thread[results[1]])
    return np.stack((let_go[kept], results[1, kept]))


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
