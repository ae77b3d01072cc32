"""What another distribution of the sequences of each step over the ranks would bring.

The sequences of all ranks are put together and dealt out again. What a rank computes then takes as much longer, or
shorter, as the fitted cost says, and the run is replayed so.
"""

from __future__ import annotations

import heapq

import numpy as np

from scalana.detectors.lengths.length_costs import LengthCost
from scalana.detectors.lengths.step_lengths import StepLengths
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline


def by_cost(cost: FloatArray, replicas: int) -> IntArray:
    """The replica of each sequence: the most expensive first, each to the one that has least (LPT, Graham 1969)
    ``[sequences]``."""
    load = [(0.0, replica) for replica in range(replicas)]
    dealt = np.zeros(len(cost), np.int64)
    for one in np.argsort(-cost, kind="stable").tolist():
        least, replica = load[0]
        dealt[one] = replica
        heapq.heapreplace(load, (least + float(cost[one]), replica))
    return dealt


def packed(lengths: StepLengths, cost: LengthCost) -> tuple[FloatArray, FloatArray]:
    """Sums of lengths and of their squares of every rank in each step if sequences are packed by cost, each
    ``[steps, ranks]``. The replica that has most keeps most: who computes it is of no matter."""
    calls, replica = lengths.calls, lengths.replicas()
    count = int(replica.max()) + 1
    first_of = np.array([int(np.flatnonzero(replica == one)[0]) for one in range(count)])
    tokens, squares = lengths.tokens.copy(), lengths.squares.copy()
    wanted = (lengths.row >= 0) & np.isin(calls.rank, first_of)
    order = np.flatnonzero(wanted)
    order = order[np.argsort(lengths.row[order], kind="stable")]
    edges = np.searchsorted(lengths.row[order], np.arange(len(tokens) + 1))
    before = cost.seconds(lengths.tokens, lengths.squares)[:, first_of]
    for step in range(len(tokens)):
        mine = order[edges[step] : edges[step + 1]]
        rows = np.concatenate([np.arange(calls.first[call], calls.first[call + 1]) for call in mine.tolist()])
        length, square = calls.length[rows], calls.square[rows]
        dealt = by_cost(cost.seconds(length, square), count)
        sums = [weighted_count(dealt, values, count) for values in (length, square)]
        after = np.argsort(cost.seconds(*sums), kind="stable")
        place = np.empty(count, np.int64)
        place[np.argsort(before[step], kind="stable")] = after
        tokens[step], squares[step] = (values[place][replica] for values in sums)
    return tokens, squares


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
