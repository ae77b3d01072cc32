"""An order in which the operations of all ranks can be done, whatever they take: found once, walked by every replay.

Whether an operation can go on depends on what was done before it, not on when. So one pass finds the order of all
operations (or where ranks wait for each other for ever), and a replay goes through it without asking.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.types import IntArray

CodeArray = npt.NDArray[np.int8]
RowArray = npt.NDArray[np.int32]
"""Numbers of rows, small: a replay reads them all."""

STARTS = 6
"""Code of a SEND or a POST by which its message begins to travel: what it needs of the other side is there."""
STARTS_SEVERAL = 7
"""Of one by which others begin to travel, too, which were in line behind it."""
QUEUES = 8
"""Of one after which both sides are there, and another message of the link is not."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Stretches of operations, each of one rank, in an order in which they can be done."""

    stretch: RowArray
    """Rank, first operation and the one after the last; a first one below zero is ``~`` the meeting that the rank
    leaves and goes on from ``[stretches, 3]``."""
    code: CodeArray
    """Codes of operations, those of messages by what they change ``[operations]``."""
    started: IntArray
    """How many messages begin to travel by each operation with :data:`STARTS_SEVERAL`, in the order of being done."""
    stopped: IntArray
    """The operation at which each rank stops ``[ranks]``; the end of its operations where nothing is in the way."""


@numba.njit(cache=True)
def find_sequence(
    first: IntArray,
    code: CodeArray,
    argument: RowArray,
    link: RowArray,
    queue: RowArray,
    queue_first: IntArray,
    rendezvous: bool,
    meetings: int,
) -> tuple[RowArray, CodeArray, IntArray, IntArray]:
    """The columns of a :class:`Sequence`, from those of operations."""
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
    ready = np.arange(ranks)
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
                    for other in range(ranks):
                        leaves[other] = True
                        ready[count] = other
                        count += 1
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
                    for side in range(2):
                        other = waiting[2 * m + side]
                        if other >= 0:
                            ready[count] = other
                            count += 1
                    h += 1
                # The first of them is this one: nothing else has changed.
                if h == head[line] + 1:
                    codes[i] = STARTS
                elif h > head[line]:
                    codes[i] = STARTS_SEVERAL
                    started[several] = h - head[line]
                    several += 1
                elif sent[x] and posted[x]:
                    codes[i] = QUEUES
                head[line] = h
            i += 1
        if i != begin:
            stretch[stretches] = rank, begin, i
            stretches += 1
        at[rank] = i if stopped < 0 else stopped
    return stretch[:stretches].copy(), codes, started[:several].copy(), at
