"""What another distribution of the sequences of each step over the ranks would bring.

The sequences of all ranks are put together and dealt out again. What a rank computes then takes as much longer, or
shorter, as the fitted cost says, and the run is replayed so.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scalana.detectors.lengths.blocks import cut_in_line
from scalana.detectors.lengths.length_costs import LengthCost
from scalana.detectors.lengths.step_lengths import StepLengths
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Rule:
    """How sequences are dealt out to replicas: the largest first, each to the one that has least (LPT, Graham 1969)."""

    name: str
    by_tokens: bool = False
    """Whether tokens are what counts, rather than costs."""
    same_memory: bool = False
    """Whether no replica gets more tokens than any has now, as long as another one has room."""

    def dealt(self, cost: FloatArray, tokens: FloatArray, most_tokens: FloatArray) -> IntArray:
        """The replica of each sequence ``[sequences]``; ``most_tokens`` are those that each replica has room for
        ``[replicas]``."""
        size = tokens if self.by_tokens else cost
        room = (most_tokens if self.same_memory else np.full(len(most_tokens), np.inf)).tolist()
        load = [(0.0, replica) for replica in range(len(room))]
        dealt = np.zeros(len(cost), np.int64)
        for one in np.argsort(-size, kind="stable").tolist():
            full = []
            while load and room[load[0][1]] < tokens[one]:
                full.append(heapq.heappop(load))
            least, replica = heapq.heappop(load) if load else full.pop(int(np.argmax([room[at] for _, at in full])))
            dealt[one] = replica
            room[replica] -= float(tokens[one])
            for each in (*full, (least + float(size[one]), replica)):
                heapq.heappush(load, each)
        return dealt


BY_COST = Rule("by-cost")
RULES = (BY_COST, Rule("by-cost-same-memory", same_memory=True), Rule("by-tokens", by_tokens=True))
"""In the order in which a report names them."""
BLOCKS = "blocks"
"""Sequences are cut into blocks where they must be, for equal costs up to a tolerance."""
SPLIT = "split-evenly"
"""Sequences are cut, and all ranks have equal costs: a bound, as context parallelism has to communicate for it."""


def packed(lengths: StepLengths, cost: LengthCost, rule: Rule = BY_COST) -> tuple[FloatArray, FloatArray]:
    """Sums of lengths and of their squares of every rank in each step if sequences are dealt out anew, each
    ``[steps, ranks]``. The replica that has most keeps most: who computes it is of no matter."""
    replica = lengths.replicas()
    count = int(replica.max()) + 1
    tokens, squares = lengths.tokens.copy(), lengths.squares.copy()
    for step, length, square in _dealt_in_steps(lengths):
        dealt = rule.dealt(cost.seconds(length, square), length, np.full(count, lengths.tokens.max()))
        sums = [weighted_count(dealt, values, count) for values in (length, square)]
        place = _most_keep_most(cost.seconds(*sums), step, lengths, cost)
        tokens[step], squares[step] = (values[place][replica] for values in sums)
    return tokens, squares


@dataclass(frozen=True, slots=True)
class InBlocks:
    """Sequences that are cut into blocks where they must be (:mod:`~scalana.detectors.lengths.blocks`). Blocks of one
    are dealt from both of its ends, so that a share of its tokens costs that share."""

    seconds: FloatArray
    """``[steps, ranks]``"""
    tokens: FloatArray
    """``[steps, ranks]``"""
    received: FloatArray
    """Tokens whose keys and values a rank gets from others ``[steps, ranks]``."""


def in_blocks(lengths: StepLengths, cost: LengthCost) -> InBlocks:
    """The sequences of each step in parts of equal cost."""
    replica = lengths.replicas()
    count = int(replica.max()) + 1
    result = InBlocks(*(np.zeros(lengths.tokens.shape) for _ in range(3)))
    for step, length, square in _dealt_in_steps(lengths):
        order = np.argsort(-length, kind="stable")
        length, seconds = length[order], cost.seconds(length[order], square[order])
        pieces = cut_in_line(seconds, count)
        sequence, part = (np.array([getattr(one, name) for one in pieces]) for name in ("sequence", "part"))
        share = np.array([one.end - one.begin for one in pieces])
        sums = [
            weighted_count(part, values, count)
            for values in (share * seconds[sequence], share * length[sequence], (1.0 - share) * length[sequence])
        ]
        place = _most_keep_most(sums[0], step, lengths, cost)
        result.seconds[step], result.tokens[step], result.received[step] = (values[place][replica] for values in sums)
    return result


def _dealt_in_steps(lengths: StepLengths) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """The sequences of all replicas in each step: its number, their lengths and the squares of these."""
    calls, replica = lengths.calls, lengths.replicas()
    wanted = (lengths.row >= 0) & np.isin(calls.rank, _first_ranks(replica))
    order = np.flatnonzero(wanted)
    order = order[np.argsort(lengths.row[order], kind="stable")]
    edges = np.searchsorted(lengths.row[order], np.arange(len(lengths.tokens) + 1))
    for step in range(len(lengths.tokens)):
        mine = order[edges[step] : edges[step + 1]]
        rows = np.concatenate([np.arange(calls.first[call], calls.first[call + 1]) for call in mine.tolist()])
        yield step, calls.length[rows], calls.square[rows]


def _first_ranks(replica: IntArray) -> IntArray:
    """A rank of each replica."""
    return np.array([int(np.flatnonzero(replica == one)[0]) for one in range(int(replica.max()) + 1)])


def _most_keep_most(seconds: FloatArray, step: int, lengths: StepLengths, cost: LengthCost) -> IntArray:
    """Which of some parts each replica takes, if the one that has most in a step takes the part that costs most
    ``[replicas]``."""
    first_of = _first_ranks(lengths.replicas())
    before = cost.seconds(lengths.tokens[step], lengths.squares[step])[first_of]
    place = np.empty(len(first_of), np.int64)
    place[np.argsort(before, kind="stable")] = np.argsort(seconds, kind="stable")
    return place


def as_change(lengths: StepLengths, more_s: FloatArray, timeline: Timeline) -> Change:
    """A change that makes ranks work longer in steps, or shorter where it is negative ``[steps, ranks]``: each burst of
    a step in proportion to what it takes."""
    own = timeline.own
    bursts = len(timeline.calls) + len(timeline.locations)
    work_s = weighted_count(own.burst, own.seconds - own.core_wait_s, bursts)
    step, rank = lengths.steps_of_bursts(timeline)
    inside = np.flatnonzero(step >= 0)
    key = step[inside] * more_s.shape[1] + rank[inside]
    whole_s = weighted_count(key, work_s[inside], more_s.size)
    part = np.divide(more_s.ravel(), whole_s, out=np.zeros(more_s.size), where=whole_s > 0.0)
    removed = np.zeros(bursts)
    removed[inside] = -work_s[inside] * np.maximum(part[key], -1.0)
    return Change.of(removed)
