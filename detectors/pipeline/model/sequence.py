"""An order in which the operations of all ranks can be done, whatever they take: found once, walked by every replay.

Whether an operation can go on depends on what was done before it, not on when. So one pass finds the order of all
operations (or where ranks wait for each other for ever), and a replay goes through it without asking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import IntArray

CodeArray = npt.NDArray[np.int8]
RowArray = npt.NDArray[np.int32]
"""Numbers of rows, small: a replay reads them all."""

LEAVE = 9
"""Code of going on after a meeting, of which MEET is then the coming to it."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Operations in an order in which they can be done; what a replay reads lies in this order, one after the other.

    Codes are those of operations but for messages, which have them by what they change: 1 or 2 where one side is there
    first; 6 where the message begins to travel; 7 where others do, too, which were in line behind it; 8 where both
    sides are there, and another message of the link is not.
    """

    rank: RowArray
    """Of each stretch of operations ``[stretches]``."""
    until: RowArray
    """The place after its last operation ``[stretches]``."""
    operation: RowArray
    """``[places]``; a meeting stands there twice, when a rank comes to it and when it leaves."""
    code: CodeArray
    """``[places]``"""
    argument: RowArray
    """As of operations, messages by their place in ``message`` ``[places]``."""
    action: RowArray
    """Those that are run, in this order ``[actions]``."""
    message: RowArray
    """In the order in which they are first met ``[messages]``."""
    link: RowArray
    """Of each of these ``[messages]``."""
    queue: RowArray
    """The same messages by link, each in the order of sending ``[messages]``."""
    started: IntArray
    """How many messages begin to travel by each operation with code 7, in this order."""
    stopped: IntArray
    """The operation at which each rank stops ``[ranks]``; the end of its operations where nothing is in the way."""


class Lowered(NamedTuple):
    """Operations of which a sequence is sought; columns are those of :class:`.lowering.Operations`."""

    first: IntArray
    code: CodeArray
    argument: RowArray
    link: RowArray
    queue: RowArray
    queue_first: IntArray
    rendezvous: bool
    """Whether a message travels only once its receive is posted."""
    meetings: int


def find_sequence(lowered: Lowered) -> Sequence:
    """The sequence of some operations."""
    stretch, codes, started, stopped = _find(lowered)
    link, queue = lowered.link, lowered.queue
    until, operation, there, what, action, message, place = _arrange(stretch, codes, lowered.argument, len(link))
    return Sequence(
        stretch[:, 0].copy(),
        until,
        operation,
        there,
        what,
        action,
        message,
        link[message],
        place[queue],
        started,
        stopped,
    )


@compiled
def _arrange(
    stretch: RowArray, codes: CodeArray, argument: RowArray, messages: int
) -> tuple[RowArray, RowArray, CodeArray, RowArray, RowArray, RowArray, RowArray]:
    """Columns of a :class:`Sequence` (until, operation, code, argument, action, message), and the place of each
    message."""
    size = 0
    for row in range(len(stretch)):
        begin = stretch[row, 1]
        size += stretch[row, 2] - (begin if begin >= 0 else ~begin)
    until = np.empty(len(stretch), np.int32)
    operation = np.empty(size, np.int32)
    there = np.empty(size, np.int8)
    what = np.empty(size, np.int32)
    action = np.empty(size, np.int32)
    message = np.empty(messages, np.int32)
    place = np.full(messages, -1, np.int32)
    at, actions, met = 0, 0, 0
    for row in range(len(stretch)):
        begin = stretch[row, 1]
        leaves = begin < 0
        for i in range(begin if not leaves else ~begin, stretch[row, 2]):
            x = argument[i]
            operation[at] = i
            there[at] = LEAVE if leaves else codes[i]
            leaves = False
            if there[at] == 0:
                action[actions] = x
                actions += 1
            elif there[at] != 5 and there[at] != LEAVE:
                if place[x] < 0:
                    place[x] = met
                    message[met] = x
                    met += 1
                x = place[x]
            what[at] = x
            at += 1
        until[row] = at
    return until, operation, there, what, action[:actions].copy(), message[:met].copy(), place


@compiled
def _find(lowered: Lowered) -> tuple[RowArray, CodeArray, IntArray, IntArray]:
    """Stretches (rank, first operation, the one after the last; a first one below zero is ``~`` the meeting that the
    rank leaves), codes of operations, and ``started`` and ``stopped`` of a :class:`Sequence`."""
    first, code, argument, link, queue, queue_first, rendezvous, meetings = lowered
    ranks = len(first) - 1
    messages = len(link)
    codes = code.copy()
    stretch = np.empty((2 * len(code) + ranks, 3), np.int32)
    stretches = 0
    started = np.empty(len(code), np.int64)
    several = 0
    at = first[:-1].copy()
    sent = np.zeros(messages, np.bool_)
    posted = np.full(messages, not rendezvous)
    travels = np.zeros(messages, np.bool_)
    head = queue_first[:-1].copy()
    waiting = np.full(2 * messages, -1, np.int32)
    lacking = np.full(meetings, ranks)
    leaves = np.zeros(ranks, np.bool_)
    ready = np.arange(ranks + 1)  # what is written behind the last one does not count
    count = ranks
    while count:
        count -= 1
        rank = ready[count]
        i = at[rank]
        begin = i
        if leaves[rank]:
            begin = ~i
            i += 1
            leaves[rank] = False
        stopped = -1
        while i < first[rank + 1]:
            what, x = code[i], argument[i]
            if what >= 3 and what < 5 and not travels[x]:
                waiting[2 * x + what - 3] = rank
                break
            if what == 5:
                lacking[x] -= 1
                if not lacking[x]:
                    leaves[:] = True
                    ready[count : count + ranks] = np.arange(ranks)
                    count += ranks
                stopped = i
                i += 1
                break
            if what == 1 or what == 2:
                if what == 1:
                    sent[x] = True
                else:
                    posted[x] = True
                # Messages of a link travel one after the other, in the order of their sending.
                line = link[x]
                h = head[line]
                while h < queue_first[line + 1] and sent[queue[h]] and posted[queue[h]]:
                    m = queue[h]
                    travels[m] = True
                    ready[count] = waiting[2 * m]
                    count += waiting[2 * m] >= 0
                    ready[count] = waiting[2 * m + 1]
                    count += waiting[2 * m + 1] >= 0
                    h += 1
                # The first of them is this one: nothing else has changed.
                if h == head[line] + 1:
                    codes[i] = 6
                elif h > head[line]:
                    codes[i] = 7
                    started[several] = h - head[line]
                    several += 1
                elif sent[x] and posted[x]:
                    codes[i] = 8
                head[line] = h
            i += 1
        if i != begin:
            stretch[stretches] = rank, begin, i
            stretches += 1
        at[rank] = i if stopped < 0 else stopped
    return stretch[:stretches].copy(), codes, started[:several].copy(), at
