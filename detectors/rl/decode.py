"""How long generation takes: a model fitted to the run itself, and rollouts simulated with it.

A decoding step in which ``b`` trajectories are active takes ``floor_s + sequence_s * b``, and gives each of them one
token; before its first, a trajectory takes ``start_s`` (its prompt is read). All are fitted to the trajectories that
were recorded, never assumed; so is by how much each process is slower than is usual, at the same lengths and the same
company.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.loop import Trajectories
from scalana.detectors.thresholds.counts import LEAST_KNEE
from scalana.detectors.thresholds.differences import CONSTANT
from scalana.detectors.thresholds.factors import SLOW_PROCESS
from scalana.detectors.thresholds.limits import ROUNDS_OF_FIT
from scalana.graphs.arrays.least_squares import not_negative
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(slots=True)
class Decoding:
    """The model of a run."""

    floor_s: float
    """Seconds of a token of a trajectory that is alone, less :attr:`sequence_s`."""
    sequence_s: float
    """What each active trajectory adds."""
    start_s: float
    """What comes before the first token."""
    factor: FloatArray
    """How much longer a process takes than the model says; the median is 1 ``[ranks]``."""
    slots: int
    """Trajectories that a process had active at once, at most."""
    whole_batches: bool
    """Whether batches end as a whole, with their longest."""

    @property
    def knee(self) -> float:
        """Trajectories below which a process is under-batched: half of the throughput that it comes to with ever more,
        8, or half of the most that it had, whichever is least."""
        half = self.floor_s / self.sequence_s if self.sequence_s > 0.0 else np.inf
        return min(half, LEAST_KNEE, self.slots / 2)

    @classmethod
    def of_times(cls, ranks: int) -> Decoding:
        """Of trajectories whose lengths are what they took, in milliseconds, one after the other."""
        return cls(1e-3, 0.0, 0.0, np.ones(ranks), 1, False)

    def times(self, factor: float) -> Decoding:
        """The same with other processes as the usual ones, which take so many times as long."""
        costs = self.floor_s * factor, self.sequence_s * factor, self.start_s * factor
        return Decoding(*costs, self.factor / factor, self.slots, self.whole_batches)

    def seconds(self, tokens: Sequence[float]) -> float:
        """How long a process that is not slow takes for trajectories of these lengths, in this order."""
        if not len(tokens):
            return 0.0
        if self.whole_batches:
            parts = [tokens[at : at + self.slots] for at in range(0, len(tokens), self.slots)]
            return sum(max(part) * (self.floor_s + self.sequence_s * len(part)) + self.start_s for part in parts)
        return max(self.ends_s(tokens))

    def ends_s(self, tokens: Sequence[float]) -> list[float]:
        """When trajectories end that start in this order as places become free ``[trajectories]``."""
        waiting = list(range(len(tokens)))[::-1]
        active: list[tuple[float, int]] = []
        ends = [0.0] * len(tokens)
        token = now = 0.0
        while waiting or active:
            while waiting and len(active) < self.slots:
                number = waiting.pop()
                heapq.heappush(active, (token + tokens[number], number))
            until, number = heapq.heappop(active)
            now += (until - token) * (self.floor_s + self.sequence_s * (len(active) + 1))
            token = until
            ends[number] = now + self.start_s
        return ends


def fit_decoding(trajectories: Trajectories, ranks: int) -> Decoding | None:
    """Fit the model to the trajectories of a run; None where their tokens are not known."""
    known = ~np.isnan(trajectories.tokens) & (trajectories.tokens > 0) & (trajectories.end_s > trajectories.start_s)
    if not known.any():
        return None
    whole = trajectories.batch >= 0
    slots = 1
    active_of = {}
    for rank in range(ranks):
        mine = np.flatnonzero(known & ~whole & (trajectories.rank == rank))
        active_of[rank] = _Active.of(trajectories.start_s[mine], trajectories.end_s[mine])
        slots = max(slots, active_of[rank].most)
    floor, slope, start, factor = 1.0, 0.0, 0.0, np.ones(ranks)
    batches = _batches(trajectories, known & whole)
    if batches is not None:
        slots = max(slots, int(batches[2].max()))
    for _ in range(ROUNDS_OF_FIT):
        rank_of: list[IntArray] = []
        length_s: list[FloatArray] = []
        columns: list[FloatArray] = []
        for rank in range(ranks):
            mine = np.flatnonzero(known & ~whole & (trajectories.rank == rank))
            mean = active_of[rank].mean_by_token(trajectories.start_s[mine], trajectories.end_s[mine], floor, slope)
            tokens = trajectories.tokens[mine]
            rank_of.append(np.full(len(mine), rank))
            length_s.append(trajectories.end_s[mine] - trajectories.start_s[mine])
            columns.append(np.stack((tokens, tokens * mean, np.ones(len(tokens))), axis=1))
        if batches is not None:
            rank_of.append(batches[0])
            length_s.append(batches[3])
            columns.append(np.stack((batches[1], batches[1] * batches[2], np.ones(len(batches[1]))), axis=1))
        (floor, slope, start), factor = fit_speeds(
            np.concatenate(columns), np.concatenate(length_s), np.concatenate(rank_of), ranks
        )
    return Decoding(float(floor), float(slope), float(start), factor, slots, batches is not None)


def fit_speeds(work: FloatArray, seconds: FloatArray, rank: IntArray, ranks: int) -> tuple[FloatArray, FloatArray]:
    """Fit seconds as costs times work, none of them negative, and as how much slower each process is.

    Args:
        work: what was to do, by kinds of cost ``[rows, costs]``.
        seconds: what it took ``[rows]``.
        rank: whose it was ``[rows]``.
        ranks: how many processes there are.

    Returns:
        The costs ``[costs]``, and the factors, of which the median is 1 ``[ranks]``. A process is compared where others
        had as much to do: if its work is always more than theirs, or always less, what longer work takes cannot be told
        from how fast it is, and its factor is 1.
    """
    factor = np.ones(ranks)
    costs = np.zeros(work.shape[1])
    for _ in range(ROUNDS_OF_FIT):
        costs = not_negative(work, seconds / factor[rank], CONSTANT)
        model = np.maximum(work @ costs, 1e-12)
        ratio = seconds / model
        factor = np.ones(ranks)
        rows = [np.flatnonzero((rank == r) & _as_others(model, rank == r)) for r in range(ranks)]
        compared = [r for r in range(ranks) if len(rows[r])]
        if compared:
            median = np.array([np.median(ratio[rows[r]]) for r in compared])
            factor[compared] = median / np.median(median)
    return costs, np.maximum(factor, 1e-6)


def _as_others(model: FloatArray, mine: BoolArray) -> BoolArray:
    """Where the work, by what it should take, is about as much as some that others have ``[rows]``."""
    others = model[~mine]
    if not len(others):
        return np.ones(len(model), np.bool_)
    return np.asarray((model * SLOW_PROCESS >= others.min()) & (model <= others.max() * SLOW_PROCESS))


def _batches(trajectories: Trajectories, rows: BoolArray) -> tuple[IntArray, FloatArray, FloatArray, FloatArray] | None:
    """Of batches that end as a whole: process, longest, how many, seconds, each ``[batches]``; None without any."""
    if not rows.any():
        return None
    keys = np.stack((trajectories.rank[rows], trajectories.batch[rows]), axis=1)
    distinct, number = np.unique(keys, axis=0, return_inverse=True)
    number = number.reshape(-1)
    longest, seconds = np.zeros(len(distinct)), np.zeros(len(distinct))
    np.maximum.at(longest, number, trajectories.tokens[rows])
    np.maximum.at(seconds, number, trajectories.end_s[rows] - trajectories.start_s[rows])
    return distinct[:, 0], longest, np.bincount(number).astype(np.float64), seconds


@dataclass(slots=True)
class _Active:
    """How many trajectories are active over time."""

    time_s: FloatArray
    """Where it changes ``[times]``."""
    count: FloatArray
    """From there on ``[times]``."""

    @classmethod
    def of(cls, start_s: FloatArray, end_s: FloatArray) -> _Active:
        """Count them."""
        time, number = np.unique(np.concatenate((start_s, end_s)), return_inverse=True)
        change = np.bincount(number, np.repeat([1.0, -1.0], [len(start_s), len(end_s)]), len(time))
        return cls(time, np.cumsum(change))

    @property
    def most(self) -> int:
        """At once."""
        return int(round(self.count.max(initial=0.0)))

    def mean_by_token(self, start_s: FloatArray, end_s: FloatArray, floor: float, slope: float) -> FloatArray:
        """How many are active on average over the tokens, not the time, of some trajectories ``[trajectories]``."""
        if not len(start_s):
            return np.zeros(0)
        length = np.diff(self.time_s)
        speed = 1.0 / np.maximum(floor + slope * self.count[:-1], 1e-12)
        tokens = np.concatenate(([0.0], np.cumsum(speed * length)))
        company = np.concatenate(([0.0], np.cumsum(speed * self.count[:-1] * length)))
        made = np.interp(end_s, self.time_s, tokens) - np.interp(start_s, self.time_s, tokens)
        seen = np.interp(end_s, self.time_s, company) - np.interp(start_s, self.time_s, company)
        return seen / np.maximum(made, 1e-12)

    def seconds_below(self, most: float, begin_s: float, end_s: float) -> float:
        """Seconds in which at least one, but fewer than ``most``, are active."""
        if not len(self.time_s):
            return 0.0
        length = np.minimum(self.time_s[1:], end_s) - np.maximum(self.time_s[:-1], begin_s)
        few = (self.count[:-1] > 0.5) & (self.count[:-1] < most - 1e-9)
        return float(np.maximum(length, 0.0)[few].sum())


def active_of(trajectories: Trajectories, rank: int) -> _Active:
    """How many trajectories of a process are active over time."""
    mine = trajectories.rank == rank
    return _Active.of(trajectories.start_s[mine], trajectories.end_s[mine])


def longest_first(tokens: FloatArray, ranks: int) -> list[list[int]]:
    """Which trajectories each process gets if the longest are given out first, each to the one with the fewest tokens
    so far (LPT, Graham 1969) ``[ranks][trajectories]``."""
    order = np.argsort(-tokens, kind="stable")
    return [order[part].tolist() for part in free_first(tokens[order], ranks)]


def free_first(tokens: FloatArray, ranks: int) -> list[list[int]]:
    """The same if they are given out in their order, each to the process with the fewest tokens so far."""
    given: list[list[int]] = [[] for _ in range(ranks)]
    load = [(0.0, rank) for rank in range(ranks)]
    for number in range(len(tokens)):
        so_far, rank = heapq.heappop(load)
        given[rank].append(number)
        heapq.heappush(load, (so_far + float(tokens[number]), rank))
    return given


def dealt(group: IntArray, ranks: int) -> list[list[int]]:
    """Which trajectories each process gets if those of a group are dealt out like cards ``[ranks][trajectories]``."""
    order = np.argsort(group, kind="stable")
    return [order[rank::ranks].tolist() for rank in range(ranks)]
