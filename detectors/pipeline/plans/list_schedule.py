"""List scheduling: every rank takes, whenever it is free, what a policy likes best of what is ready.

Weight gradients fill gaps. Memory is a limit that is kept, and never one that stops everything: a forward is begun only
if all microbatches that are under way can still be finished one after the other (the banker's algorithm, Dijkstra
1965), whatever the sizes and places of stages are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind, Program
from scalana.detectors.pipeline.plans.assignment import StageCosts
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray, IntArray


class Turn(IntEnum):
    """Which of a forward and a backward that are both ready goes first."""

    BACKWARD = 0
    ALTERNATE = 1
    FORWARD = 2


class Tie(IntEnum):
    """Which stage of a rank goes first."""

    ADVANCED = 0
    """The one whose microbatch has come farther."""
    BEHIND = 1
    READY = 2
    """The one that has been ready longest."""
    OLDEST = 3
    """The one with the smallest microbatch."""


class Split(IntEnum):
    """When a backward is split into I and W."""

    NEVER = 0
    ALWAYS = 1
    WHERE_AWAITED = 2
    """Where the rank before would be idle until the whole was done."""
    AT_THE_END = 3
    """In the last microbatches, as many as there are ranks."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a rank chooses."""

    turn: Turn = Turn.ALTERNATE
    forward: Tie = Tie.ADVANCED
    backward: Tie = Tie.ADVANCED
    split: Split = Split.ALWAYS
    gap: float = 0.5
    """A W is begun where the next action is further away than so much of it."""
    patience: float = 0.0
    """The preferred action is waited for as long as this share of the other one."""
    ahead: float = 1.5
    """Microbatches under way in a stage, over those that fill the pipeline; infinity for any number."""
    reserve: float = 1.0
    """Microbatches for whose later stages on the rank memory is kept free."""
    weights_first: bool = True
    """Whether W goes first where a forward waits for memory."""

    def numbers(self) -> FloatArray:
        """As the kernel takes it."""
        return np.array(
            [
                self.turn,
                self.forward,
                self.backward,
                self.split,
                self.gap,
                self.patience,
                self.reserve,
                self.weights_first,
            ],
            np.float64,
        )


@dataclass(frozen=True)
class Listing:
    """An order, and when it would be done by an engine that only computes and sends."""

    makespan_s: float
    """Infinity where it was given up, or memory does not suffice."""
    peak: FloatArray
    """The most activations that a rank holds ``[ranks]``."""
    first: IntArray
    kind: IntArray
    stage: IntArray
    microbatch: IntArray

    def program(self, merge: bool = True) -> Program:
        """The order as a program; with ``merge``, a W right after its I makes a whole backward of both."""
        kind, keep = self.kind.copy(), np.ones(len(self.kind), bool)
        if merge and len(kind) > 1:
            same = (self.stage[1:] == self.stage[:-1]) & (self.microbatch[1:] == self.microbatch[:-1])
            pair = np.flatnonzero((kind[:-1] == Kind.I) & (kind[1:] == Kind.W) & same)
            kind[pair], keep[pair + 1] = Kind.B, False
        upto = np.concatenate([[0], np.cumsum(keep)])
        return Program(
            upto[self.first].astype(np.int64),
            kind[keep],
            self.stage[keep],
            self.microbatch[keep],
            np.zeros(int(keep.sum()), bool),
        )


def under_way(costs: StageCosts, ahead: float, microbatches: int) -> IntArray:
    """How many microbatches may be between the forward and the backward of each stage ``[stages]``.

    Little's law: the time there and back over the time between two microbatches, times ``ahead``.
    """
    if ahead == np.inf:
        return np.full(len(costs.rank), microbatches, np.int64)
    there = costs.seconds[Kind.F] + costs.down_s
    back = np.minimum(costs.seconds[Kind.I], costs.seconds[Kind.B]) + costs.up_s
    way = np.cumsum((there + back)[::-1])[::-1]
    period = max(float(costs.load_s.max()), 1e-300)
    return np.clip(np.ceil(way / period * ahead - 1e-9), 1, microbatches).astype(np.int64)


def list_schedule(
    costs: StageCosts,
    microbatches: int,
    capacity: FloatArray,
    policy: Policy,
    give_up_s: float = np.inf,
    limit: IntArray | None = None,
) -> Listing:
    """An order of all actions by a policy, within ``capacity`` ``[ranks]``, what is static included.

    It is given up (with a makespan of infinity) where an action would begin after ``give_up_s``, and where memory does
    not suffice for a single microbatch. ``limit`` replaces what the policy says of microbatches under way
    ``[stages]``.
    """
    rank = costs.rank
    order = np.argsort(rank, kind="stable")
    first_stage = np.concatenate([[0], np.cumsum(np.bincount(rank, minlength=len(costs.static)))]).astype(np.int64)
    makespan, peak, taken, who, kind, stage, microbatch = _schedule(
        rank,
        first_stage,
        order,
        costs.seconds,
        costs.activation,
        capacity - costs.static,
        under_way(costs, policy.ahead, microbatches) if limit is None else limit,
        costs.down_s,
        costs.up_s,
        microbatches,
        policy.numbers(),
        give_up_s,
    )
    if makespan == np.inf:
        nothing = np.zeros(0, np.int64)
        return Listing(np.inf, peak, np.zeros(len(costs.static) + 1, np.int64), nothing, nothing, nothing)
    who = who[:taken]
    by_rank = np.argsort(who, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=len(costs.static)))])
    return Listing(
        float(makespan),
        peak,
        first.astype(np.int64),
        kind[:taken][by_rank],
        stage[:taken][by_rank],
        microbatch[:taken][by_rank],
    )


@compiled
def _can_finish(
    r: int,
    s: int,
    first_stage: IntArray,
    held: IntArray,
    begun: IntArray,
    freed: IntArray,
    size: FloatArray,
    left: float,
) -> bool:
    """Whether all microbatches of a rank can be finished one after the other once stage ``s`` has begun one more.

    ``left`` is the memory that is free then.
    """
    a, b = first_stage[r], first_stage[r + 1]
    whole = 0.0
    oldest, newest = 1 << 60, 0
    for j in range(a, b):
        k = held[j]
        whole += size[k]
        oldest = min(oldest, freed[k])
        newest = max(newest, begun[k] + (1 if k == s else 0))
    if left >= whole:
        return True
    tiny = 1e-9 * whole
    for m in range(oldest, newest):
        lacking, has = 0.0, 0.0
        for j in range(a, b):
            k = held[j]
            if m >= begun[k] + (1 if k == s else 0):
                lacking += size[k]
            elif m >= freed[k]:
                has += size[k]
        if lacking > left + tiny:
            return False
        left += has
        if left >= whole:
            return True
    return left >= whole - tiny


@compiled
def _better(tie: int, stage: int, ready: float, m: int, best: int, best_ready: float, best_m: int, sign: int) -> bool:
    """Whether a stage goes before the best so far; ``sign`` is 1 for forwards, whose farther stages are higher."""
    if best < 0:
        return True
    if tie == 0:
        return sign * stage > sign * best
    if tie == 1:
        return sign * stage < sign * best
    if tie == 2:
        return ready < best_ready or (ready == best_ready and sign * stage > sign * best)
    return m < best_m or (m == best_m and sign * stage > sign * best)


@compiled
def _choose(
    r: int,
    now: float,
    forward_last: bool,
    microbatches: int,
    first_stage: IntArray,
    held: IntArray,
    seconds: FloatArray,
    size: FloatArray,
    limit: IntArray,
    down: FloatArray,
    up: FloatArray,
    begun: IntArray,
    backed: IntArray,
    freed: IntArray,
    forward_end: FloatArray,
    backward_end: FloatArray,
    room: float,
    rule: FloatArray,
) -> tuple[float, int, int]:
    """When a rank begins what, and on which stage: 0 forward, 1 backward, 3 weights; begin infinity for nothing."""
    stages = len(size)
    turn, forward_tie, backward_tie = int(rule[0]), int(rule[1]), int(rule[2])
    f, f_ready, f_m = -1, np.inf, 0
    b, b_ready, b_m = -1, np.inf, 0
    next_f, next_f_ready, next_b, next_b_ready = -1, np.inf, -1, np.inf
    w, w_m, blocked = -1, 0, False
    later = 0.0
    for j in range(first_stage[r + 1] - 1, first_stage[r] - 1, -1):
        s = held[j]
        m = begun[s]
        if m < microbatches and m - backed[s] < limit[s] and (s == 0 or begun[s - 1] > m):
            ready = 0.0 if s == 0 else forward_end[s - 1, m] + down[s - 1]
            # A reservation is a wish: the oldest microbatch passes, so that all come to an end.
            wish = room >= size[s] + rule[6] * later or m == freed[s]
            if not (wish and room >= size[s] * (1 - 1e-9)):
                blocked = blocked or ready <= now
            elif not _can_finish(r, s, first_stage, held, begun, freed, size, room - size[s]):
                blocked = blocked or ready <= now
            elif ready <= now:
                if _better(forward_tie, s, ready, m, f, f_ready, f_m, 1):
                    f, f_ready, f_m = s, ready, m
            elif ready < next_f_ready:
                next_f, next_f_ready = s, ready
        later += size[s]
        m = backed[s]
        if m < begun[s] and (s == stages - 1 or backed[s + 1] > m):
            ready = forward_end[s, m] if s == stages - 1 else max(backward_end[s + 1, m] + up[s + 1], forward_end[s, m])
            if ready <= now:
                if _better(backward_tie, s, ready, m, b, b_ready, b_m, -1):
                    b, b_ready, b_m = s, ready, m
            elif ready < next_b_ready:
                next_b, next_b_ready = s, ready
        if freed[s] < backed[s] and (w < 0 or freed[s] < w_m):
            w, w_m = s, freed[s]
    if blocked and w >= 0 and rule[7] > 0:
        return now, 3, w
    backward_first = turn == 0 or (turn == 1 and forward_last)
    if f >= 0 and b >= 0:
        return (now, 1, b) if backward_first else (now, 0, f)
    if f >= 0:
        if backward_first and next_b_ready - now <= rule[5] * seconds[0, f]:
            return next_b_ready, 1, next_b
        return now, 0, f
    if b >= 0:
        if not backward_first and next_f_ready - now <= rule[5] * seconds[2, b]:
            return next_f_ready, 0, next_f
        return now, 1, b
    soonest = min(next_f_ready, next_b_ready)
    if w >= 0 and soonest - now >= rule[4] * seconds[3, w]:
        return now, 3, w
    if next_b_ready < next_f_ready or (next_b_ready == next_f_ready and backward_first):
        return next_b_ready, 1, next_b
    return next_f_ready, 0, next_f


@compiled
def _schedule(
    rank: IntArray,
    first_stage: IntArray,
    held: IntArray,
    seconds: FloatArray,
    size: FloatArray,
    capacity: FloatArray,
    limit: IntArray,
    down: FloatArray,
    up: FloatArray,
    microbatches: int,
    rule: FloatArray,
    give_up_s: float,
) -> tuple[float, FloatArray, int, IntArray, IntArray, IntArray, IntArray]:
    """Makespan, peaks, how many actions there are, and their ranks, kinds, stages and microbatches by begin."""
    ranks, stages = len(first_stage) - 1, len(rank)
    most = 3 * stages * microbatches
    who, kinds = np.empty(most, np.int64), np.empty(most, np.int64)
    of_stage, of_microbatch = np.empty(most, np.int64), np.empty(most, np.int64)
    peak = np.zeros(ranks)
    for r in range(ranks):
        whole = 0.0
        for j in range(first_stage[r], first_stage[r + 1]):
            whole += size[held[j]]
        if whole > capacity[r] * (1 + 1e-9):
            return np.inf, peak, 0, who, kinds, of_stage, of_microbatch
    begun, backed, freed = np.zeros(stages, np.int64), np.zeros(stages, np.int64), np.zeros(stages, np.int64)
    forward_end, backward_end = np.empty((stages, microbatches)), np.empty((stages, microbatches))
    free = np.zeros(ranks)
    used = np.zeros(ranks)
    last = np.zeros(ranks, np.bool_)
    begin = np.full(ranks, np.inf)
    what, which = np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
    split, taken = int(rule[3]), 0
    open_stages = stages
    makespan = 0.0
    for r in range(ranks):
        begin[r], what[r], which[r] = _choose(
            r, 0.0, False, microbatches, first_stage, held, seconds, size, limit, down, up, begun, backed, freed,
            forward_end, backward_end, capacity[r], rule,
        )  # fmt: skip
    while open_stages:
        r = 0
        for other in range(1, ranks):
            if begin[other] < begin[r]:
                r = other
        start, s = begin[r], which[r]
        if start > give_up_s or start == np.inf:
            return np.inf, peak, 0, who, kinds, of_stage, of_microbatch
        near = -1
        if what[r] == 0:
            m, kind = begun[s], 0
            end = start + seconds[0, s]
            forward_end[s, m] = end
            begun[s] += 1
            used[r] += size[s]
            peak[r] = max(peak[r], used[r])
            last[r] = True
            if s + 1 < stages:
                near = rank[s + 1]
        elif what[r] == 1:
            m = backed[s]
            whole = split == 0
            if split == 2:
                whole = s == 0 or free[rank[s - 1]] >= start + seconds[1, s]
            elif split == 3:
                whole = m < microbatches - ranks
            whole = whole and freed[s] == m
            kind = 1 if whole else 2
            end = start + seconds[kind, s]
            backward_end[s, m] = end
            backed[s] += 1
            if whole:
                freed[s] += 1
                used[r] -= size[s]
            last[r] = False
            if s > 0:
                near = rank[s - 1]
        else:
            m, kind = freed[s], 3
            end = start + seconds[3, s]
            freed[s] += 1
            used[r] -= size[s]
        if freed[s] == microbatches and kind != 0 and kind != 2:
            open_stages -= 1
        who[taken], kinds[taken], of_stage[taken], of_microbatch[taken] = r, kind, s, m
        taken += 1
        free[r] = end
        makespan = max(makespan, end)
        begin[r], what[r], which[r] = _choose(
            r, end, last[r], microbatches, first_stage, held, seconds, size, limit, down, up, begun, backed, freed,
            forward_end, backward_end, capacity[r] - used[r], rule,
        )  # fmt: skip
        if near >= 0 and near != r:
            begin[near], what[near], which[near] = _choose(
                near, free[near], last[near], microbatches, first_stage, held, seconds, size, limit, down, up, begun,
                backed, freed, forward_end, backward_end, capacity[near] - used[near], rule,
            )  # fmt: skip
    return makespan, peak, taken, who, kinds, of_stage, of_microbatch
