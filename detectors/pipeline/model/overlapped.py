"""What Megatron's interleaved schedule sends and receives, where that overlaps with computing (`overlap_p2p_comm`)."""

from __future__ import annotations

import numpy as np

from scalana.detectors.pipeline.model.sequence import CodeArray, RowArray
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import BoolArray, IntArray


@compiled
def each_message(
    begin: int, end: int, message_of: IntArray, what: int, code: CodeArray, argument: RowArray, n: int
) -> int:
    """Write an operation for each message of some actions; the number of operations by then."""
    for action in range(begin, end):
        if message_of[action] >= 0:
            code[n], argument[n] = what, message_of[action]
            n += 1
    return n


@compiled
def emit_overlapped(
    first: IntArray,
    kind: IntArray,
    paired: BoolArray,
    ends: BoolArray,
    incoming: IntArray,
    outgoing: IntArray,
    meet: IntArray,
) -> tuple[IntArray, CodeArray, RowArray, IntArray]:
    """Operations of all ranks: first, code, argument, and the first operation of each action.

    While forwards alone, or backwards alone, follow each other, what lies between two of them is one batch that is
    waited for. Where a forward and a backward take turns, each sends what it made, asks for what the next of its
    direction needs, and waits until what the one before it sent is taken.
    """
    size = len(paired)
    code = np.empty(9 * size + 8, np.int8)
    argument = np.empty(9 * size + 8, np.int32)
    enter = np.full(size, -1, np.int64)
    firsts = np.zeros(len(first), np.int64)
    following = _same_direction(first, kind, ends)
    asked, there = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    n = 0
    for rank in range(len(first) - 1):
        sent = np.full(2, -1, np.int64)  # by direction, what is not known to be taken yet
        for action in range(first[rank], first[rank + 1]):
            way = int(kind[action] != 0)
            if meet[action] >= 0:
                code[n], argument[n] = 5, meet[action]
                n += 1
            if enter[action] < 0:
                enter[action] = n
            if not asked[action]:
                n = each_message(action, action + 1, incoming, 2, code, argument, n)
            if not there[action]:
                n = each_message(action, action + 1, incoming, 3, code, argument, n)
            code[n], argument[n] = 0, action
            n += 1
            n = each_message(action, action + 1, outgoing, 1, code, argument, n)
            after = following[action]
            if paired[action] or (action > first[rank] and paired[action - 1]):
                if after >= 0:
                    n = each_message(after, after + 1, incoming, 2, code, argument, n)
                    asked[after] = True
                if sent[way] >= 0:
                    code[n], argument[n] = 4, sent[way]
                    n += 1
                sent[way] = outgoing[action]
            else:
                batched = after == action + 1
                if batched:
                    enter[after] = n
                    n = each_message(after, after + 1, incoming, 2, code, argument, n)
                    asked[after] = True
                n = each_message(action, action + 1, outgoing, 4, code, argument, n)
                if batched and paired[after]:
                    # The first gradient is asked for when the batch is done.
                    n = each_message(after, after + 1, incoming, 3, code, argument, n)
                    there[after] = True
                    n = each_message(after + 1, after + 2, incoming, 2, code, argument, n)
                    asked[after + 1] = True
            if ends[action]:
                sent[:] = -1
        firsts[rank + 1] = n
    return firsts, code[:n].copy(), argument[:n].copy(), enter


@compiled
def _same_direction(first: IntArray, kind: IntArray, ends: BoolArray) -> IntArray:
    """The next action of the same direction in the same step, -1 if there is none ``[actions]``."""
    following = np.full(len(kind), -1, np.int64)
    for rank in range(len(first) - 1):
        last = np.full(2, -1, np.int64)
        for action in range(first[rank], first[rank + 1]):
            way = int(kind[action] != 0)
            if last[way] >= 0:
                following[last[way]] = action
            last[way] = action
            if ends[action]:
                last[:] = -1
    return following
