"""A pipeline that somebody wrote by hand, recognised by its messages alone.

What a chain of ranks does is a pipeline of training if every rank in the middle passes on what came (the k-th message
to the next rank follows the k-th from the one before, and the same backwards), what goes there comes back in the same
size, and it repeats. A halo exchange sends before it has received, a ring has no ends, a manager has many neighbours,
and a sweep in one direction has nothing that comes back: they are none. Two ranks, and all forwards before all
backwards, look like other programs as well (question and answer, sweeps there and back): they count only where
training is known.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scalana.detectors.pipeline.between_messages import NO_PAUSES, Events, PauseRows, Read, read_events
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray

USUAL = 0.5
"""Part of all steps from which a number of microbatches is the usual one."""


@dataclass(frozen=True)
class MessageRows:
    """Sends and receives in any order, ``[rows]`` all."""

    rank: IntArray
    peer: IntArray
    is_send: IntArray
    """1 for a send, 0 for a receive."""
    bytes: IntArray
    begin_s: FloatArray
    """When the call began; for one that does not block, when its result was asked for."""
    end_s: FloatArray
    """When the rank could go on."""

    def take(self, chosen: IntArray | BoolArray) -> MessageRows:
        """Some of the rows."""
        return MessageRows(*(getattr(self, column.name)[chosen] for column in fields(self)))


@dataclass(frozen=True)
class HandWritten:
    """A pipeline that was recognised."""

    ranks: tuple[int, ...]
    """The ranks in the order of their stages."""
    step: IntArray
    """Of every microbatch ``[microbatches]``."""
    events: Events
    """The messages of its training."""
    beside: Events
    """Those that are none of it."""

    @property
    def microbatches(self) -> IntArray:
        """How many every step has ``[steps]``."""
        return np.bincount(self.step)

    def read(self, pauses: PauseRows = NO_PAUSES) -> Read:
        """What it did; ``rank`` in it counts stages. Forwards and backwards between the same two messages are told
        apart by what they take elsewhere.

        ``pauses`` are what ranks did beside messages and computing.
        """
        place = np.full(max(*self.ranks, int(pauses.rank.max(initial=0))) + 1, -1, np.int64)
        place[list(self.ranks)] = np.arange(len(self.ranks))
        beside = self.beside
        pauses = pauses.on(place).with_others(beside.stage, beside.begin_s, beside.end_s)
        return read_events(self.events, len(self.ranks), self.step, pauses)


def recognise_messages(rows: MessageRows, training: bool = False) -> HandWritten | None:
    """The pipeline that these messages are; None if they may be anything else.

    ``training`` says that something else shows a training step (an optimizer, a loss): then what looks like other
    programs too is taken for a pipeline.
    """
    chain = _chain(rows)
    if chain is None or (len(chain) == 2 and not training):
        return None
    place = np.full(int(rows.rank.max()) + 1, -1, np.int64)
    place[chain] = np.arange(len(chain))
    events = _along(rows, place)
    trained = _trained(events)
    if trained is None or not (training or bool(trained.all())):
        return None
    events, beside = _without(events, trained)
    step = _steps(events)
    if step is None or not (training or _alternates(events)):
        return None
    if len(chain) == 2 and int(np.median(np.bincount(step))) == 1:
        return None  # a question, an answer
    events = events.take(events.number < len(step))
    if not _has_its_ends(events, len(chain), len(step)) or not _is_passed_on(events, len(chain), len(step)):
        return None
    return HandWritten(tuple(chain), step, events, beside)


def _chain(rows: MessageRows) -> list[int] | None:
    """The ranks in a line, from the one that sends before it receives anything; None if they are no line."""
    ranks = int(max(rows.rank.max(initial=0), rows.peer.max(initial=0))) + 1
    pairs = np.unique(np.concatenate((rows.rank * ranks + rows.peer, rows.peer * ranks + rows.rank)))
    near: dict[int, list[int]] = {}
    for pair in pairs.tolist():
        near.setdefault(pair // ranks, []).append(pair % ranks)
    ends = [rank for rank, peers in near.items() if len(peers) == 1]
    if len(ends) != 2 or any(len(peers) > 2 for peers in near.values()):
        return None
    opening = []
    for rank in ends:
        own = np.flatnonzero(rows.rank == rank)
        if len(own) and rows.is_send[own[np.lexsort((rows.end_s[own], rows.begin_s[own]))[0]]]:
            opening.append(rank)
    if len(opening) != 1:
        return None
    chain, before = [opening[0]], -1
    while len(chain) < len(near):
        following = [rank for rank in near[chain[-1]] if rank != before]
        if len(following) != 1:
            return None
        before = chain[-1]
        chain.append(following[0])
    return chain


def _along(rows: MessageRows, place: IntArray) -> Events:
    """The messages of a chain as events of its stages, in order."""
    stage, peer = place[rows.rank], place[rows.peer]
    order = np.lexsort((rows.end_s, rows.begin_s, stage))
    stage, peer, is_send = stage[order], peer[order], rows.is_send[order].astype(bool)
    backward = (peer == stage + 1) != is_send
    number = _occurrence((stage * 2 + backward) * 2 + is_send)
    return Events(stage, backward, is_send, number, rows.begin_s[order], rows.end_s[order], rows.bytes[order])


def _occurrence(key: IntArray) -> IntArray:
    """How many rows before each have the same key ``[rows]``."""
    order = np.argsort(key, kind="stable")
    size = np.bincount(key)
    size = size[size > 0]
    number = np.empty(len(key), np.int64)
    number[order] = np.arange(len(key)) - np.repeat(np.cumsum(size) - size, size)
    return number


def _trained(events: Events) -> BoolArray | None:
    """Which of the forwards that come to the last stage are followed by a backward there ``[forwards]``: those of an
    evaluation are not. None where more goes back than came.

    Backwards are those of the last forwards that have none yet: forwards of an evaluation may come before.
    """
    last = events.take(events.stage == int(events.stage.max(initial=0)))
    if not len(last.stage) or (last.backward != last.is_send).any():
        return None
    depth = np.cumsum(np.where(last.backward, -1, 1))
    if int(depth.min()) < 0:
        return None
    later = np.minimum.accumulate(depth[::-1])[::-1]
    return np.asarray((later < depth)[~last.backward])


def _without(events: Events, trained: BoolArray) -> tuple[Events, Events]:
    """The events of training, its forwards numbered anew, and all others."""
    known = np.where(events.backward, 0, np.minimum(events.number, len(trained) - 1))
    kept = events.backward | ((events.number < len(trained)) & trained[known])
    number = np.where(events.backward, events.number, (np.cumsum(trained) - 1)[known])
    return events.numbered(number).take(kept), events.take(~kept)


def _steps(events: Events) -> IntArray | None:
    """The step of every microbatch ``[microbatches]``: one ends when all that the first stage has sent has come back.

    What comes after the last end is left out. None where steps have no usual number of microbatches: nothing repeats.
    """
    first = events.stage == 0
    is_send = events.is_send[first]
    if (is_send == events.backward[first]).any():
        return None
    under_way = np.cumsum(np.where(is_send, 1, -1))
    ends = np.flatnonzero(under_way == 0)
    if len(ends) < 2 or int(under_way.min()) < 0:
        return None
    step = np.searchsorted(ends, np.flatnonzero(is_send[: ends[-1] + 1]))
    most = np.bincount(np.bincount(step)).max()
    return np.asarray(step, np.int64) if most > USUAL * len(ends) else None


def _alternates(events: Events) -> bool:
    """Whether the first stage goes on forwards after a backward, before all have come back: nothing but a pipeline
    keeps several under way so."""
    is_send = events.is_send[events.stage == 0]
    under_way = np.cumsum(np.where(is_send, 1, -1))
    return bool((is_send[1:] & ~is_send[:-1] & (under_way[:-1] > 0)).any())


def _has_its_ends(events: Events, stages: int, microbatches: int) -> bool:
    """Whether every stage has both ends of every microbatch, to every neighbour that it has."""
    count = np.bincount((events.stage * 2 + events.backward) * 2 + events.is_send, minlength=4 * stages)
    wanted = np.full((stages, 2, 2), microbatches)
    wanted[0, 0, 0] = wanted[0, 1, 1] = wanted[-1, 0, 1] = wanted[-1, 1, 0] = 0
    return bool((count.reshape(stages, 2, 2) == wanted).all())


def _is_passed_on(events: Events, stages: int, microbatches: int) -> bool:
    """Whether every stage sends on only what it has received, and what goes there comes back in its size."""
    begin, end, size = (np.zeros((stages, 2, 2, microbatches)) for _ in range(3))
    at = events.stage, events.backward.astype(int), events.is_send.astype(int), events.number
    begin[at], end[at], size[at] = events.begin_s, events.end_s, events.bytes
    came, went = 0, 1
    follows = [
        ((slice(1, -1), 0, came), (slice(1, -1), 0, went)),
        ((slice(1, -1), 1, came), (slice(1, -1), 1, went)),
        ((slice(0, -1), 0, went), (slice(0, -1), 1, came)),
        ((slice(-1, None), 0, came), (slice(-1, None), 1, went)),
    ]
    for earlier, later in follows:
        if (end[earlier] > end[later]).any() or (begin[earlier] > begin[later]).any():
            return False
    there, back = np.sort(size[:-1, 0, went]), np.sort(size[:-1, 1, came])
    return bool((there == back).all() and (np.sort(size[1:, 0, came]) == np.sort(size[1:, 1, went])).all())
