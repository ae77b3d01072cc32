"""Loops in which generation goes on while others train: trajectories come from one queue, each to a place that is free
(list scheduling, Graham 1969), and trainers take the first so many that end. There is no rollout of a step in these:
what counts is when the last trajectory of each batch ends."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.rl.account import Prediction
from scalana.detectors.rl.advice import CHANGES
from scalana.detectors.rl.loop import Loop
from scalana.detectors.rl.phases import Doing
from scalana.detectors.thresholds.factors import DOUBLED
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import FloatArray

_TRAINER = (Doing.DATA, Doing.VERIFIER, Doing.LOG_PROB, Doing.TRAINING, Doing.WEIGHT_SYNC)
"""What a trainer does for a batch that it has."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Trajectories in the order in which they are handed out, and what becomes of them."""

    took_s: FloatArray
    """How long each is under way ``[trajectories]``."""
    tokens: FloatArray
    """``[trajectories]``"""
    free_s: FloatArray
    """When each place is free for the first time, since the loop began ``[places]``."""
    between_s: float
    """From the end of a trajectory to the begin of the next one at its place."""
    train_s: FloatArray
    """What trainers take for each batch ``[steps]``."""

    def updates_s(self) -> FloatArray:
        """When each batch has been trained on, since the loop began ``[steps]``."""
        places = self.free_s.tolist()
        heapq.heapify(places)
        ends = []
        for took in self.took_s.tolist():
            end = heapq.heappop(places) + took
            ends.append(end)
            heapq.heappush(places, end + self.between_s)
        batch = len(ends) // len(self.train_s)
        there_s = np.sort(ends)[batch - 1 :: batch][: len(self.train_s)]
        done, result = 0.0, []
        for there, train in zip(there_s.tolist(), self.train_s.tolist(), strict=True):
            done = max(done, there) + train
            result.append(done)
        return np.array(result)

    def longest_first(self) -> Queue:
        """The same with the longest handed out first."""
        order = np.argsort(-self.took_s, kind="stable")
        return replace(self, took_s=self.took_s[order], tokens=self.tokens[order])

    def capped(self, cap: float) -> Queue:
        """The same with so many tokens at most."""
        kept = np.minimum(self.tokens, cap)
        return replace(self, took_s=self.took_s * kept / self.tokens, tokens=kept)

    def more_places(self) -> Queue:
        """The same with twice as many places."""
        return replace(self, free_s=np.repeat(self.free_s, DOUBLED))


def runs_on(loop: Loop) -> bool:
    """Whether generation goes on when a step ends, whatever step its trajectories are for."""
    made, ends_s = loop.trajectories, loop.processes[0].bounds_s[1:-1]
    under_way = (made.start_s[:, None] < ends_s) & (made.end_s[:, None] > ends_s)
    return bool(len(ends_s)) and float(under_way.any(axis=0).mean()) >= MAJORITY


def queue_of(loop: Loop) -> Queue | None:
    """The queue of a loop with marks; None where processes that generate also train, steps await all of their
    trajectories, or not every step has some."""
    train = loop.that_train()
    if loop.timed or not len(train) or len(np.intersect1d(train, loop.that_generate())) or not runs_on(loop):
        return None
    made = loop.trajectories
    rows = loop.index.row[made.tokens[loop.index.row] > 0.0]
    rows = rows[np.argsort(made.start_s[rows], kind="stable")]
    if len(rows) < loop.steps:
        return None
    begin_s = float(np.median([loop.processes[rank].bounds_s[0] for rank in train.tolist()]))
    free_s, between_s = [], []
    for rank in np.unique(made.rank[rows]).tolist():
        first, gaps = _places(made.start_s[rows[made.rank[rows] == rank]], made.end_s[rows[made.rank[rows] == rank]])
        free_s += [max(each - begin_s, 0.0) for each in first]
        between_s += gaps
    doings = np.array(_TRAINER)
    own = loop.own_s[train][:, :, doings] + loop.call_s[train][:, :, doings]
    return Queue(
        made.end_s[rows] - made.start_s[rows],
        made.tokens[rows],
        np.array(free_s),
        float(np.median(between_s)) if between_s else 0.0,
        own.sum(axis=2).max(axis=0),
    )


def _places(start_s: FloatArray, end_s: FloatArray) -> tuple[list[float], list[float]]:
    """When each place of a process gets its first trajectory, and how long places are free between two of them."""
    free: list[float] = []
    first, gaps = [], []
    for start, end in zip(start_s.tolist(), end_s.tolist(), strict=True):
        if free and free[0] <= start:
            gaps.append(start - heapq.heappop(free))
        else:
            first.append(start)
        heapq.heappush(free, end)
    return first, gaps


def predictions(loop: Loop, queue: Queue, cap: float, lost: float) -> list[Prediction]:
    """What an average step would take with another order, shorter trajectories and more places.

    Args:
        loop: as it was recorded.
        queue: of the loop.
        cap: tokens of a trajectory at most.
        lost: the part of all tokens that is beyond; 0 where nothing is.
    """
    recorded_s = float(loop.step_s().sum())
    as_it_was = float(queue.updates_s()[-1])
    error = abs(as_it_was / max(recorded_s, 1e-12) - 1.0)
    tries = {"balance": queue.longest_first(), "more-rollouts": queue.more_places()}
    if lost > 0.0:
        tries["cap"] = queue.capped(cap)
    step_s = recorded_s / loop.steps
    return [
        Prediction(
            change,
            CHANGES[change].format(cap=cap, lost=lost),
            step_s * float(each.updates_s()[-1]) / max(as_it_was, 1e-12),
            error,
        )
        for change, each in tries.items()
    ]
