"""From a program to operations: what an engine does around its actions to send and receive, in which order.

What differs between engines (:mod:`.engines`) is when a receive is posted, when a send is waited for, and whether a
message travels before its receiver asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind, Program
from scalana.detectors.pipeline.model.engines import ENGINES, Engine
from scalana.detectors.pipeline.model.overlapped import each_message, emit_overlapped
from scalana.detectors.pipeline.model.sequence import CodeArray, Lowered, RowArray, Sequence, find_sequence
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import BoolArray, IntArray


class Code(IntEnum):
    """What an operation does."""

    RUN = 0
    """Compute an action."""
    SEND = 1
    """Hand a message to the link."""
    POST = 2
    """Say that a message may come."""
    RECEIVE = 3
    """Wait until a message is there."""
    COMPLETE = 4
    """Wait until a message of one's own has been taken."""
    MEET = 5
    """Wait until all ranks are here."""


@dataclass(frozen=True, slots=True)
class Operations:
    """What every rank does, in order, and the messages between them."""

    program: Program
    engine: Engine
    first: IntArray
    """Where the operations of a rank begin, and the end of all ``[ranks + 1]``."""
    code: CodeArray
    """A :class:`Code` each ``[operations]``."""
    argument: RowArray
    """The action of a RUN, the number of a MEET, the message of another ``[operations]``."""
    enter: IntArray
    """The first operation that is done for an action ``[actions]``."""
    run: IntArray
    """The operation that runs an action ``[actions]``."""
    receive: IntArray
    """The operation that waits for what an action needs; -1 if it needs no message ``[actions]``."""
    sender: IntArray
    """The action whose result a message is ``[messages]``."""
    receiver: IntArray
    """The action that needs a message ``[messages]``."""
    incoming: IntArray
    """The message that an action needs, -1 if none ``[actions]``."""
    outgoing: IntArray
    """The message that an action sends, -1 if none ``[actions]``."""
    link: RowArray
    """The link of a message: source rank x ranks + destination rank ``[messages]``."""
    queue: RowArray
    """The messages of one link after another, each in the order in which they are sent ``[messages]``."""
    queue_first: IntArray
    """Where the messages of a link begin in the queue ``[ranks * ranks + 1]``."""
    sequence: Sequence
    """An order in which they can be done."""
    meetings: int
    """How often all ranks meet."""

    @property
    def size(self) -> int:
        """How many operations there are."""
        return len(self.code)


def lower(
    program: Program,
    engine: Engine = ENGINES["ideal"],
    meet: IntArray | None = None,
    returns: IntArray | None = None,
) -> Operations:
    """The operations of a program as an engine carries it out.

    ``meet`` numbers the meetings of all ranks before an action ``[actions]``, -1 where there is none; a meeting stands
    once on every rank. ``returns`` are messages from the last stage to the first one, of a microbatch for an action
    ``[messages, 2]``.
    """
    sender, receiver = _messages(program)
    if returns is not None and len(returns):
        sender = np.concatenate((sender, program.position[Kind.F, -1, returns[:, 0]]))
        receiver = np.concatenate((receiver, returns[:, 1]))
    incoming = np.full(program.size, -1, np.int64)
    outgoing = np.full(program.size, -1, np.int64)
    incoming[receiver] = np.arange(len(receiver))
    outgoing[sender] = np.arange(len(sender))
    meet = np.full(program.size, -1, np.int64) if meet is None else meet
    posts = _early_posts(program, incoming, outgoing) if engine.early and engine.rendezvous else _NOWHERE
    if engine.ahead:
        units = _units(program)
        first, code, argument, enter = emit_overlapped(program.first, program.kind, *units, incoming, outgoing, meet)
    elif engine.batched:
        first, code, argument, enter = _emit_batched(program.first, *_units(program), incoming, outgoing, meet)
    else:
        held = _held_back(program) if engine.gradient_first else np.zeros(program.size, bool)
        actions = _Actions(program.first, program.kind, program.joined, incoming, outgoing, held, meet)
        first, code, argument, enter = _emit(actions, posts, int(engine.send_wait), engine.rendezvous)
    operations = np.arange(len(code))
    run = np.full(program.size, -1, np.int64)
    receive = np.full(program.size, -1, np.int64)
    run[argument[code == Code.RUN]] = operations[code == Code.RUN]
    receive[receiver[argument[code == Code.RECEIVE]]] = operations[code == Code.RECEIVE]
    link = (program.rank[sender] * program.ranks + program.rank[receiver]).astype(np.int32)
    sent = argument[code == Code.SEND]
    queue = sent[np.argsort(link[sent], kind="stable")].astype(np.int32)
    queue_first = np.concatenate([[0], np.cumsum(np.bincount(link, minlength=program.ranks**2))]).astype(np.int64)
    meetings = int(meet.max(initial=-1)) + 1
    lowered = Lowered(first, code, argument, link, queue, queue_first, engine.rendezvous, meetings)
    return Operations(
        program=program,
        engine=engine,
        first=first,
        code=code,
        argument=argument,
        enter=enter,
        run=run,
        receive=receive,
        sender=sender,
        receiver=receiver,
        incoming=incoming,
        outgoing=outgoing,
        link=link,
        queue=queue,
        queue_first=queue_first,
        sequence=find_sequence(lowered),
        meetings=meetings,
    )


class _Posts(NamedTuple):
    """Receives that are posted early."""

    first: IntArray
    """Where those before an action begin ``[actions + 1]``; empty where they are posted just before use."""
    message: IntArray
    """``[posts]``"""


_NOWHERE = _Posts(np.zeros(0, np.int64), np.zeros(0, np.int64))


class _Actions(NamedTuple):
    """Actions, as compiled loops take them, ``[actions]`` each but for the first."""

    first: IntArray
    """Where those of a rank begin ``[ranks + 1]``."""
    kind: IntArray
    joined: BoolArray
    incoming: IntArray
    outgoing: IntArray
    held_back: BoolArray
    """Whether the message is sent only when the input of the next action is there."""
    meet: IntArray


def _held_back(program: Program) -> BoolArray:
    """Forwards that a backward follows in the next slot of the schedule: rank s has stages - s under way by then.

    With fewer microbatches the slots between are empty, and what was made is sent in one of these.
    """
    held = np.zeros(program.size, bool)
    under_way = program.microbatch[:-1] - program.microbatch[1:] + 1
    turns = (program.kind[:-1] == Kind.F) & ((program.kind[1:] == Kind.B) | (program.kind[1:] == Kind.I))
    turns &= program.rank[:-1] == program.rank[1:]
    held[:-1] = turns & (under_way == program.stages - program.stage[:-1])
    return held


def _units(program: Program) -> tuple[BoolArray, BoolArray]:
    """Whether a forward and the backward after it are one to Megatron's interleaved schedule, and whether a step ends
    with an action ``[actions]`` each.

    A rank begins with so many forwards alone (Narayanan et al., SC 2021: twice the ranks after it, and all chunks but
    one of as many microbatches as there are ranks); then each comes with a backward, until only backwards are left.
    """
    forward = (program.kind == Kind.F).astype(np.int64)
    alone = 2 * (program.ranks - 1 - program.stage % program.ranks)
    alone += (program.stages // program.ranks - 1) * program.ranks
    under_way = np.cumsum(2 * forward - 1)
    start = np.concatenate([[0], under_way])[program.first[:-1]]
    under_way -= np.repeat(start, np.diff(program.first))
    paired = np.zeros(program.size, bool)
    paired[:-1] = (forward[:-1] == 1) & (forward[1:] == 0) & (program.rank[:-1] == program.rank[1:])
    paired &= under_way == alone + 1
    return paired, under_way == 0


@compiled
def _emit_batched(
    first: IntArray,
    paired: BoolArray,
    ends: BoolArray,
    incoming: IntArray,
    outgoing: IntArray,
    meet: IntArray,
) -> tuple[IntArray, CodeArray, RowArray, IntArray]:
    """As :func:`_emit`: after each action or pair its messages and those that the next one needs in one batch."""
    size = len(paired)
    code = np.empty(9 * size + 8, np.int8)
    argument = np.empty(9 * size + 8, np.int32)
    enter = np.empty(size, np.int64)
    firsts = np.zeros(len(first), np.int64)
    n = 0
    for rank in range(len(first) - 1):
        at, end = first[rank], first[rank + 1]
        over = at
        while True:
            # The actions from `over` to `at` were run; those from `at` to `stop` are the next.
            stop = at if at == end else at + 1 + int(paired[at])
            begins = at == end or at == first[rank] or ends[at - 1]
            n = each_message(over, at, outgoing, 1, code, argument, n)
            if not begins:
                enter[at] = n
                n = each_message(at, stop, incoming, 2, code, argument, n)
            n = each_message(over, at, outgoing, 4, code, argument, n)
            if at == end:
                break
            if begins:
                if meet[at] >= 0:
                    code[n], argument[n] = 5, meet[at]
                    n += 1
                enter[at] = n
                n = each_message(at, stop, incoming, 2, code, argument, n)
            n = each_message(at, stop, incoming, 3, code, argument, n)
            for action in range(at, stop):
                if action > at:
                    enter[action] = n
                code[n], argument[n] = 0, action
                n += 1
            over, at = at, stop
        firsts[rank + 1] = n
    return firsts, code[:n].copy(), argument[:n].copy(), enter


def _messages(program: Program) -> tuple[IntArray, IntArray]:
    """Sender and receiver (actions) of every message: between neighbouring stages on different ranks."""
    apart = program.rank_of_stage[1:] != program.rank_of_stage[:-1]
    forward, back = program.position[Kind.F], program.backward
    pairs = [(forward[:-1][apart], forward[1:][apart]), (back[1:][apart], back[:-1][apart])]
    sender = np.concatenate([pair[0].ravel() for pair in pairs])
    receiver = np.concatenate([pair[1].ravel() for pair in pairs])
    return sender[sender >= 0], receiver[sender >= 0]


@compiled
def _emit(
    actions: _Actions, posts: _Posts, send_wait: int, rendezvous: bool
) -> tuple[IntArray, CodeArray, RowArray, IntArray]:
    """Operations of all ranks: first, code, argument, and the first operation of each action."""
    first, kind, joined, incoming, outgoing, held_back, meet = actions
    post_first, post_message = posts
    size = len(kind)
    code = np.empty(9 * size + 8, np.int8)
    argument = np.empty(9 * size + 8, np.int32)
    enter = np.empty(size, np.int64)
    firsts = np.zeros(len(first), np.int64)
    early = len(post_first) > 0
    n = 0
    held = np.empty(2, np.int64)  # messages of an overlapped pair, sent after the second
    for rank in range(len(first) - 1):
        open_message, open_forward, held_count, kept = -1, False, 0, -1
        for action in range(first[rank], first[rank + 1]):
            if meet[action] >= 0:
                if open_message >= 0:
                    code[n], argument[n] = 4, open_message
                    n += 1
                    open_message = -1
                code[n], argument[n] = 5, meet[action]
                n += 1
            enter[action] = n
            forward = kind[action] == 0
            message = incoming[action]
            if early:
                for i in range(post_first[action], post_first[action + 1]):
                    code[n], argument[n] = 2, post_message[i]
                    n += 1
            elif message >= 0 and rendezvous:
                # In one batch with a send that is still open; otherwise the send is waited for first or later.
                if open_message >= 0 and (send_wait == 4 or (send_wait == 1 and forward == open_forward)):
                    code[n], argument[n] = 4, open_message
                    n += 1
                    open_message = -1
                code[n], argument[n] = 2, message
                n += 1
            turned = forward != open_forward and kind[action] != 3
            if open_message >= 0 and (send_wait == 1 or send_wait == 4 or (send_wait >= 2 and turned)):
                code[n], argument[n] = 4, open_message
                n += 1
                open_message = -1
            if message >= 0:
                code[n], argument[n] = 3, message
                n += 1
            if kept >= 0:
                code[n], argument[n] = 1, kept
                code[n + 1], argument[n + 1] = 4, kept
                n += 2
                kept = -1
            code[n], argument[n] = 0, action
            n += 1
            if outgoing[action] >= 0:
                held[held_count] = outgoing[action]
                held_count += 1
            if joined[action]:
                continue
            if held_back[action] and held_count == 1:
                kept, held_count = held[0], 0
            for i in range(held_count):
                if open_message >= 0 and send_wait == 2:
                    code[n], argument[n] = 4, open_message
                    n += 1
                code[n], argument[n] = 1, held[i]
                n += 1
                if send_wait > 0 and rendezvous:
                    open_message, open_forward = held[i], forward
            held_count = 0
        if open_message >= 0:
            code[n], argument[n] = 4, open_message
            n += 1
        firsts[rank + 1] = n
    return firsts, code[:n].copy(), argument[:n].copy(), enter


def _early_posts(program: Program, incoming: IntArray, outgoing: IntArray) -> _Posts:
    """Which receives are posted before an action, as torch lowers an order: first ``[actions + 1]`` and messages.

    torch goes round the ranks; where the next action of a rank can be placed, its sends are, and the receives of these
    at the end of what has been placed on the other rank so far. The reduction of a stage's gradients, after its last
    action, and giving up its weights take a turn each (ranks with more than three stages shard more often: left out
    here).
    """
    receiver = np.full(int(max(incoming.max(initial=-1), outgoing.max(initial=-1))) + 1, -1, np.int64)
    receiver[incoming[incoming >= 0]] = np.flatnonzero(incoming >= 0)
    final = np.full(program.stages, -1, np.int64)
    final[program.stage] = np.arange(program.size)  # the last one counts
    reduces = np.zeros(program.size, bool)
    reduces[final[final >= 0]] = True
    before = _place(program.first, program.joined, incoming, outgoing, receiver, program.rank, reduces)
    order = np.lexsort((before[1], before[0]))  # by action, and in the order of placing
    order = order[before[0][order] >= 0]
    counts = np.bincount(before[0][order], minlength=program.size)
    return _Posts(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), order.astype(np.int64))


@compiled
def _place(
    first: IntArray,
    joined: BoolArray,
    incoming: IntArray,
    outgoing: IntArray,
    receiver: IntArray,
    rank_of: IntArray,
    reduces: BoolArray,
) -> IntArray:
    """Before which action each receive is posted, and when it was placed ``[2, messages]``."""
    ranks = len(first) - 1
    following = first[:-1].copy()
    placed = np.full((2, len(receiver)), -1, np.int64)
    turns = np.zeros(ranks, np.int64)
    count = 0
    progress = True
    while progress:
        progress = False
        for rank in range(ranks):
            begin = following[rank]
            if begin == first[rank + 1]:
                continue
            if turns[rank]:
                turns[rank] -= 1
                progress = True
                continue
            end = begin + 1
            while joined[end - 1]:
                end += 1
            ready = True
            for action in range(begin, end):
                message = incoming[action]
                ready &= message < 0 or placed[0, message] >= 0
            if not ready:
                continue
            following[rank] = end
            progress = True
            for action in range(begin, end):
                turns[rank] += 2 * reduces[action]
                message = outgoing[action]
                if message >= 0:
                    other = rank_of[receiver[message]]
                    placed[0, message] = following[other]
                    placed[1, message] = count
                    count += 1
    return placed
