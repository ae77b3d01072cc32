"""An interleaved pipeline that somebody wrote by hand: ranks in a ring, each with several stages (chunks).

Stage ``s`` stands on place ``s % places``. So a forward goes around the ring once a chunk, and its gradient the same
way back. Between the places each message follows the one that made it, so that the k-th message is the same on all
edges of the ring; only the first place, where a new microbatch looks like one that has come around, and the last one
have to be told apart. Schedules go in rounds of so many microbatches through the first chunk, then through the next
(Narayanan et al., SC 2021: as many as there are ranks; Lamy-Poirier, MLSys 2023: all of them): the smallest rounds are
taken with which nothing is sent before it came.

A ring in which every rank sends before it has received (a halo, an allreduce, attention) has no first place; a token
that goes around alone has nothing that comes back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.pipeline.recognised.between_messages import Events
from scalana.detectors.pipeline.recognised.chains import CAME, WENT, has_its_ends, sides
from scalana.graphs.arrays.types import BoolArray, IntArray


@dataclass(frozen=True)
class Ring:
    """An interleaved pipeline."""

    step: IntArray
    """Of every microbatch ``[microbatches]``."""
    events: Events
    """Its messages, by chunk and microbatch."""
    beside: Events
    """Those after its last whole step."""


def read_ring(events: Events, places: int) -> Ring | None:
    """The pipeline that messages around a ring are; None if they are none."""
    step = _steps(events)
    if step is None:
        return None
    # All of the last whole step that goes over the edge after the first place.
    count = len(step)
    sides = [_side(events, 0, backward, went) for backward, went in ((False, WENT), (False, CAME))]
    until_s = float(events.end_s[_side(events, 0, True, CAME)][count - 1])
    wrapped = int((events.begin_s[sides[1]] < until_s).sum())
    fresh = count - wrapped
    if wrapped <= 0 or fresh <= 0 or count % fresh or count // fresh < 2:
        return None
    chunks = count // fresh
    kept = events.take(events.number < np.where(_around(events, places), wrapped, count))
    if not has_its_ends(kept, places, count, wrapped) or not _is_passed_on(kept, places, count):
        return None
    sent = np.bincount(step)
    if (sent % chunks).any():
        return None
    for size in range(1, int(sent.max()) // chunks + 1):
        labels = [_labels(sent // chunks, chunks, size, backward) for backward in (False, True)]
        told = _by_stages(kept, places, labels, chunks)
        if _can_be(told, places):
            left = events.take(events.number >= np.where(_around(events, places), wrapped, count))
            of_step = np.repeat(np.arange(len(sent)), sent // chunks)
            return Ring(of_step, told, left)
    return None


def _side(events: Events, place: int, backward: bool, went: int) -> IntArray:
    """The rows of one place, direction and side, in order."""
    return np.flatnonzero((events.place == place) & (events.backward == backward) & (events.is_send == bool(went)))


def _around(events: Events, places: int) -> BoolArray:
    """Whether messages go between the last place and the first ``[events]``."""
    up = events.backward != events.is_send  # to or from the next place
    return np.asarray(np.where(up, events.place == places - 1, events.place == 0))


def _steps(events: Events) -> IntArray | None:
    """The step of every message from the first place to the next ``[messages]``: one ends when all have come back; None
    unless there are two."""
    first = (events.place == 0) & (events.backward != events.is_send)
    is_send = events.is_send[first]
    under_way = np.cumsum(np.where(is_send, 1, -1))
    ends = np.flatnonzero(under_way == 0)
    if len(ends) < 2 or int(under_way.min()) < 0:
        return None
    return np.asarray(np.searchsorted(ends, np.flatnonzero(is_send[: ends[-1] + 1])), np.int64)


def _is_passed_on(events: Events, places: int, count: int) -> bool:
    """Whether the places between the first and the last send on only what has come, and what goes to the next one comes
    back from it in its size."""
    begin, end, size = sides(events, places, count)
    inner = slice(1, -1)
    if (end[inner, :, CAME] > end[inner, :, WENT]).any() or (begin[inner, :, CAME] > begin[inner, :, WENT]).any():
        return False
    there, back = np.sort(size[:-1, 0, WENT]), np.sort(size[:-1, 1, CAME])
    return bool((there == back).all())


def _labels(microbatches: IntArray, chunks: int, size: int, backward: bool) -> IntArray:
    """Chunk and microbatch (from the begin of the run) of every message after the first place, or before it backwards,
    in order ``[messages, 2]``."""
    found = []
    first = 0
    order = range(chunks - 1, -1, -1) if backward else range(chunks)
    for count in microbatches.tolist():
        for begin in range(first, first + count, size):
            every = np.arange(begin, min(begin + size, first + count))
            found += [np.column_stack((np.full(len(every), chunk), every)) for chunk in order]
        first += count
    return np.concatenate(found)


def _by_stages(events: Events, places: int, labels: list[IntArray], chunks: int) -> Events:
    """Events by their stages: those around the ring are for the next chunk, and backwards for the one before."""
    around = _around(events, places)
    chunk, number = np.zeros(len(events.place), np.int64), np.zeros(len(events.place), np.int64)
    for backward, label in ((False, labels[0]), (True, labels[1])):
        # What goes around: all but what ends there.
        passing = label[label[:, 0] != (0 if backward else chunks - 1)]
        for where, rows in ((around, passing), (~around, label)):
            mine = (events.backward == backward) & where
            chunk[mine], number[mine] = rows[events.number[mine]].T
    # Around the ring a message is for another chunk than the one that made it.
    moved = around & ~events.is_send
    chunk[moved] += np.where(events.backward[moved], -1, 1)
    return events.numbered(number, chunk)


def _can_be(events: Events, places: int) -> bool:
    """Whether on the first and the last place nothing is sent before it has come, nor a gradient before the forward."""
    chunks, numbers = int(events.chunk.max()) + 1, int(events.number.max()) + 1
    moment = np.full((2, 2, 2, chunks, numbers), np.nan)  # of the two places, both directions, both sides
    ends = (events.place == 0) | (events.place == places - 1)
    place = (events.place > 0).astype(int)
    at = place, events.backward.astype(int), events.is_send.astype(int), events.chunk, events.number
    moment[tuple(column[ends] for column in at)] = np.where(events.is_send, events.begin_s, events.end_s)[ends]
    late = moment[:, :, CAME] > moment[:, :, WENT]
    turned = moment[1, 0, CAME] > moment[1, 1, WENT]
    return not bool(late.any() or turned.any())
