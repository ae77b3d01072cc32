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

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.recognised.between_messages import Events
from scalana.detectors.pipeline.recognised.chains import CAME, Chain, steps_of
from scalana.detectors.pipeline.recognised.hypotheses import Hypothesis
from scalana.graphs.arrays.types import BoolArray, IntArray


def read_ring(chain: Chain) -> Iterator[Hypothesis]:
    """The interleaved pipelines that messages around a ring may be, with smaller rounds first."""
    events, places = chain.events, len(chain.ranks)
    step = steps_of(events)
    if step is None:
        return
    # All of the last whole step that goes over the edge after the first place.
    count = len(step)
    until_s = float(events.end_s[_side(events, True, CAME)][count - 1])
    wrapped = int((events.begin_s[_side(events, False, CAME)] < until_s).sum())
    fresh = count - wrapped
    if wrapped <= 0 or fresh <= 0 or count % fresh or count // fresh < 2:
        return
    chunks = count // fresh
    inside = events.number < np.where(_around(events, places), wrapped, count)
    sent = np.bincount(step)
    if (sent % chunks).any():
        return
    of_step = np.repeat(np.arange(len(sent)), sent // chunks)
    for size in range(1, int(sent.max()) // chunks + 1):
        labels = [_labels(sent // chunks, chunks, size, backward) for backward in (False, True)]
        told = _by_stages(events.take(inside), places, labels, chunks)
        found = replace(Hypothesis.of(chain, of_step, told), beside=events.take(~inside))
        if not found.is_complete():  # whatever the rounds
            return
        yield found


def _side(events: Events, backward: bool, went: int) -> IntArray:
    """The rows of the first place, one direction and side, in order."""
    return np.flatnonzero((events.place == 0) & (events.backward == backward) & (events.is_send == bool(went)))


def _around(events: Events, places: int) -> BoolArray:
    """Whether messages go between the last place and the first ``[events]``."""
    up = events.backward != events.is_send  # to or from the next place
    return np.asarray(np.where(up, events.place == places - 1, events.place == 0))


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
