"""List scheduling: every rank takes, whenever it is free, what a policy likes best of what is ready.

Weight gradients fill gaps. Memory is a limit that is kept, and never one that stops everything: a forward is begun only
if all microbatches that are under way can still be finished one after the other (the banker's algorithm, Dijkstra
1965), whatever the sizes and places of stages are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

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


STAGE = np.dtype(
    [
        ("rank", np.int64),
        ("size", np.float64),
        ("limit", np.int64),
        ("down_s", np.float64),
        ("up_s", np.float64),
        ("begun", np.int64),
        ("backed", np.int64),
        ("freed", np.int64),
    ]
)
"""What a schedule knows of a stage: what a microbatch holds from its forward until its backward is done, how many may
be under way, what a message takes to the next stage and to the one before; and how many forwards, backwards and weight
gradients have begun."""
RANK = np.dtype(
    [
        ("first", np.int64),
        ("end", np.int64),
        ("capacity", np.float64),
        ("used", np.float64),
        ("peak", np.float64),
        ("free_s", np.float64),
        ("forward_last", np.bool_),
    ]
)
"""What it knows of a rank: where its stages begin and end among those by rank, memory, when it is free, and whether
what it did last was a forward."""

_Table = npt.NDArray[Any]
"""Rows of :data:`STAGE` or :data:`RANK`."""
_Candidate = tuple[int, float, int]
"""A stage, when it is ready, and the microbatch that is next there; the stage is -1 for none."""


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
    stages, ranks = np.zeros(len(costs.rank), STAGE), np.zeros(len(costs.static), RANK)
    stages["rank"], stages["size"], stages["down_s"], stages["up_s"] = (
        costs.rank, costs.activation, costs.down_s, costs.up_s,
    )  # fmt: skip
    stages["limit"] = under_way(costs, policy.ahead, microbatches) if limit is None else limit
    ends = np.cumsum(np.bincount(costs.rank, minlength=len(ranks)))
    ranks["end"][:], ranks["first"][1:], ranks["capacity"] = ends, ends[:-1], capacity - costs.static
    makespan, who, kind, stage, microbatch = _schedule(
        ranks,
        np.argsort(costs.rank, kind="stable"),
        stages,
        costs.seconds,
        np.empty((2, len(stages), microbatches)),
        policy.numbers(),
        give_up_s,
    )
    if makespan == np.inf:
        nothing = np.zeros(0, np.int64)
        return Listing(np.inf, ranks["peak"].copy(), np.zeros(len(ranks) + 1, np.int64), nothing, nothing, nothing)
    by_rank = np.argsort(who, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=len(ranks)))]).astype(np.int64)
    peak = ranks["peak"].copy()
    return Listing(float(makespan), peak, first, kind[by_rank], stage[by_rank], microbatch[by_rank])


@compiled
def _can_finish(ranks: _Table, held: IntArray, stages: _Table, r: int, s: int, left: float) -> bool:
    """Whether all microbatches of a rank can be finished one after the other once stage ``s`` has begun one more.

    ``left`` is the memory that is free then.
    """
    a, b = ranks[r].first, ranks[r].end
    whole = 0.0
    oldest, newest = 1 << 60, 0
    for j in range(a, b):
        k = held[j]
        whole += stages[k].size
        oldest = min(oldest, stages[k].freed)
        newest = max(newest, stages[k].begun + (1 if k == s else 0))
    if left >= whole:
        return True
    tiny = 1e-9 * whole
    for m in range(oldest, newest):
        lacking, has = 0.0, 0.0
        for j in range(a, b):
            k = held[j]
            if m >= stages[k].begun + (1 if k == s else 0):
                lacking += stages[k].size
            elif m >= stages[k].freed:
                has += stages[k].size
        if lacking > left + tiny:
            return False
        left += has
        if left >= whole:
            return True
    return left >= whole - tiny


@compiled
def _better(tie: int, one: _Candidate, best: _Candidate, sign: int) -> bool:
    """Whether a stage goes before the best so far; ``sign`` is 1 for forwards, whose farther stages are higher."""
    (stage, ready, m), (best_stage, best_ready, best_m) = one, best
    if best_stage < 0:
        return True
    if tie == 0:
        return sign * stage > sign * best_stage
    if tie == 1:
        return sign * stage < sign * best_stage
    if tie == 2:
        return ready < best_ready or (ready == best_ready and sign * stage > sign * best_stage)
    return m < best_m or (m == best_m and sign * stage > sign * best_stage)


@compiled
def _choose(
    ranks: _Table,
    held: IntArray,
    stages: _Table,
    seconds: FloatArray,
    ends: FloatArray,
    rule: FloatArray,
    r: int,
) -> tuple[float, int, int]:
    """When a rank begins what, and on which stage: 0 forward, 1 backward, 3 weights; begin infinity for nothing."""
    last, microbatches = len(stages) - 1, ends.shape[2]
    now, forward_last, room = ranks[r].free_s, ranks[r].forward_last, ranks[r].capacity - ranks[r].used
    turn, forward_tie, backward_tie = int(rule[0]), int(rule[1]), int(rule[2])
    f, f_ready, f_m = -1, np.inf, 0
    b, b_ready, b_m = -1, np.inf, 0
    next_f, next_f_ready, next_b, next_b_ready = -1, np.inf, -1, np.inf
    w, w_m, blocked = -1, 0, False
    later = 0.0
    for j in range(ranks[r].end - 1, ranks[r].first - 1, -1):
        s = held[j]
        m = stages[s].begun
        if m < microbatches and m - stages[s].backed < stages[s].limit and (s == 0 or stages[s - 1].begun > m):
            ready = 0.0 if s == 0 else ends[0, s - 1, m] + stages[s - 1].down_s
            # A reservation is a wish: the oldest microbatch passes, so that all come to an end.
            wish = room >= stages[s].size + rule[6] * later or m == stages[s].freed
            if not (wish and room >= stages[s].size * (1 - 1e-9)):
                blocked = blocked or ready <= now
            elif not _can_finish(ranks, held, stages, r, s, room - stages[s].size):
                blocked = blocked or ready <= now
            elif ready <= now:
                if _better(forward_tie, (s, ready, m), (f, f_ready, f_m), 1):
                    f, f_ready, f_m = s, ready, m
            elif ready < next_f_ready:
                next_f, next_f_ready = s, ready
        later += stages[s].size
        m = stages[s].backed
        if m < stages[s].begun and (s == last or stages[s + 1].backed > m):
            ready = ends[0, s, m]
            if s < last:
                ready = max(ends[1, s + 1, m] + stages[s + 1].up_s, ready)
            if ready <= now:
                if _better(backward_tie, (s, ready, m), (b, b_ready, b_m), -1):
                    b, b_ready, b_m = s, ready, m
            elif ready < next_b_ready:
                next_b, next_b_ready = s, ready
        if stages[s].freed < stages[s].backed and (w < 0 or stages[s].freed < w_m):
            w, w_m = s, stages[s].freed
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
    ranks: _Table,
    held: IntArray,
    stages: _Table,
    seconds: FloatArray,
    ends: FloatArray,
    rule: FloatArray,
    give_up_s: float,
) -> tuple[float, IntArray, IntArray, IntArray, IntArray]:
    """Makespan, and of all actions by begin their ranks, kinds, stages and microbatches; no actions where it is given
    up. ``held`` are the stages by rank, ``ends`` is where ends of forwards and backwards are written ``[2, stages,
    microbatches]``."""
    microbatches, none = ends.shape[2], np.zeros(0, np.int64)
    for r in range(len(ranks)):
        whole = 0.0
        for j in range(ranks[r].first, ranks[r].end):
            whole += stages[held[j]].size
        if whole > ranks[r].capacity * (1 + 1e-9):
            return np.inf, none, none, none, none
    most = 3 * len(stages) * microbatches
    who, kinds = np.empty(most, np.int64), np.empty(most, np.int64)
    of_stage, of_microbatch = np.empty(most, np.int64), np.empty(most, np.int64)
    begin = np.full(len(ranks), np.inf)
    what, which = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    split, taken, open_stages = int(rule[3]), 0, len(stages)
    makespan = 0.0
    for r in range(len(ranks)):
        begin[r], what[r], which[r] = _choose(ranks, held, stages, seconds, ends, rule, r)
    while open_stages:
        r = 0
        for other in range(1, len(ranks)):
            if begin[other] < begin[r]:
                r = other
        start, s = begin[r], which[r]
        if start > give_up_s or start == np.inf:
            return np.inf, none, none, none, none
        near = -1
        if what[r] == 0:
            m, kind = stages[s].begun, 0
            end = start + seconds[0, s]
            ends[0, s, m] = end
            stages[s].begun += 1
            ranks[r].used += stages[s].size
            ranks[r].peak = max(ranks[r].peak, ranks[r].used)
            ranks[r].forward_last = True
            if s + 1 < len(stages):
                near = stages[s + 1].rank
        elif what[r] == 1:
            m = stages[s].backed
            whole_backward = split == 0
            if split == 2:
                whole_backward = s == 0 or ranks[stages[s - 1].rank].free_s >= start + seconds[1, s]
            elif split == 3:
                whole_backward = m < microbatches - len(ranks)
            whole_backward = whole_backward and stages[s].freed == m
            kind = 1 if whole_backward else 2
            end = start + seconds[kind, s]
            ends[1, s, m] = end
            stages[s].backed += 1
            if whole_backward:
                stages[s].freed += 1
                ranks[r].used -= stages[s].size
            ranks[r].forward_last = False
            if s > 0:
                near = stages[s - 1].rank
        else:
            m, kind = stages[s].freed, 3
            end = start + seconds[3, s]
            stages[s].freed += 1
            ranks[r].used -= stages[s].size
        if stages[s].freed == microbatches and kind != 0 and kind != 2:
            open_stages -= 1
        who[taken], kinds[taken], of_stage[taken], of_microbatch[taken] = r, kind, s, m
        taken += 1
        ranks[r].free_s = end
        makespan = max(makespan, end)
        begin[r], what[r], which[r] = _choose(ranks, held, stages, seconds, ends, rule, r)
        if near >= 0 and near != r:
            begin[near], what[near], which[near] = _choose(ranks, held, stages, seconds, ends, rule, near)
    return makespan, who[:taken], kinds[:taken], of_stage[:taken], of_microbatch[:taken]
