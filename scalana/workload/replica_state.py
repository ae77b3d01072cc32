"""What replicas hold while a replay goes on, and what happens on one of them.

A replica runs until something of its own happens: a turn ends, or a tool or a prompt is done and its trajectory joins
the batch. In between its decoding steps take ``floor + sequence * b + context * K`` each, with ``b`` active
trajectories that hold ``K`` tokens, which grow by ``b`` each step; the sum over steps is a parabola, so that the time
of a number of steps, and the number of steps of a time, are exact but for the part of one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray, IntArray

_SOON = 1e-9


class Work(NamedTuple):
    """What is to be generated."""

    first: IntArray
    """Row of the first turn of each trajectory ``[trajectories + 1]``."""
    read: FloatArray
    """``[turns]``"""
    tokens: FloatArray
    """``[turns]``"""
    tool_s: FloatArray
    """``[turns]``"""
    step: IntArray
    """Batch that a trajectory is of, ascending in the order in which they are begun ``[trajectories]``."""
    pinned: IntArray
    """Replica that has to generate it, -1 for the one with the fewest ``[trajectories]``."""


class Costs(NamedTuple):
    """As in :class:`scalana.workload.costs.Decode`."""

    floor_s: float
    sequence_s: float
    context_s: float
    start_s: float
    read_s: float
    factor: FloatArray
    """``[replicas]``"""


class Course(NamedTuple):
    """What happened."""

    begin_s: FloatArray
    """``[trajectories]``"""
    end_s: FloatArray
    """``[trajectories]``"""
    replica: IntArray
    """``[trajectories]``"""
    begin_version: IntArray
    """Updates in the weights that it was begun with ``[trajectories]``."""
    ready_s: FloatArray
    """When the trajectories of a batch were there ``[batches]``."""
    train_end_s: FloatArray
    """When the update that a batch is for was made ``[batches]``."""
    batch: IntArray
    """Batch that a trajectory was trained in ``[trajectories]``."""
    busy_s: FloatArray
    """How long each replica generated ``[replicas]``."""


class State(NamedTuple):
    """Of replicas, and of their places."""

    clock: FloatArray
    """Until when each is simulated ``[replicas]``."""
    token: FloatArray
    """Decoding steps made ``[replicas]``."""
    active: IntArray
    """Trajectories that decode ``[replicas]``."""
    context: FloatArray
    """Tokens that these hold ``[replicas]``."""
    taken: IntArray
    """Places that are taken ``[replicas]``."""
    next_s: FloatArray
    """When something of its own happens next ``[replicas]``."""
    owner: IntArray
    """Trajectory of a place ``[replicas, slots]``."""
    finish: FloatArray
    """Decoding step with which its turn ends; infinite while it does not decode ``[replicas, slots]``."""
    back_s: FloatArray
    """When it joins the batch; infinite while it decodes ``[replicas, slots]``."""
    left: FloatArray
    """Tokens of its turn that are not made, while it does not decode ``[trajectories]``."""
    held: FloatArray
    """Tokens of context, likewise ``[trajectories]``."""
    turn: IntArray
    """Row of its turn ``[trajectories]``."""
    version: IntArray
    """Updates in the weights that a replica has ``[replicas]``."""
    quota: IntArray
    """Trajectories that it may still begin with these weights, where it takes a share at once ``[replicas]``."""
    open_s: FloatArray
    """When it has these weights ``[replicas]``."""

    @classmethod
    def of(cls, replicas: int, slots: int, trajectories: int) -> State:
        """Replicas without anything to do."""
        places = (replicas, slots)
        return cls(
            clock=np.zeros(replicas),
            token=np.zeros(replicas),
            active=np.zeros(replicas, np.int64),
            context=np.zeros(replicas),
            taken=np.zeros(replicas, np.int64),
            next_s=np.full(replicas, np.inf),
            owner=np.zeros(places, np.int64),
            finish=np.full(places, np.inf),
            back_s=np.full(places, np.inf),
            left=np.zeros(trajectories),
            held=np.zeros(trajectories),
            turn=np.zeros(trajectories, np.int64),
            version=np.zeros(replicas, np.int64),
            quota=np.zeros(replicas, np.int64),
            open_s=np.zeros(replicas),
        )


@compiled
def look_ahead(r: int, state: State, costs: Costs) -> None:
    """When something happens next on a replica."""
    soonest, least = np.inf, np.inf
    for place in range(state.taken[r]):
        least = min(least, state.finish[r, place])
        soonest = min(soonest, state.back_s[r, place])
    if least < np.inf:
        steps = max(least - state.token[r], 0.0)
        b = state.active[r]
        one = costs.floor_s + costs.sequence_s * b + costs.context_s * state.context[r]
        length = costs.factor[r] * steps * (one + costs.context_s * b * steps / 2)
        soonest = min(soonest, state.clock[r] + length)
    state.next_s[r] = soonest


@compiled
def advance(r: int, until_s: float, state: State, costs: Costs, busy_s: FloatArray) -> None:
    """Decode on a replica until a time."""
    length = until_s - state.clock[r]
    state.clock[r] = max(until_s, state.clock[r])
    b = state.active[r]
    if b == 0 or length <= 0.0:
        return
    busy_s[r] += length
    one = costs.factor[r] * (costs.floor_s + costs.sequence_s * b + costs.context_s * state.context[r])
    grows = costs.factor[r] * costs.context_s * b / 2
    if grows > 0.0:
        steps = 2.0 * length / (one + np.sqrt(one * one + 4.0 * grows * length))
    else:
        steps = length / one
    state.token[r] += steps
    state.context[r] += steps * b


@compiled
def begin(r: int, trajectory: int, now: float, work: Work, state: State, costs: Costs) -> None:
    """Give a trajectory a place."""
    place = state.taken[r]
    turn = work.first[trajectory]
    state.taken[r] += 1
    state.owner[r, place] = trajectory
    state.finish[r, place] = np.inf
    state.back_s[r, place] = max(now, state.open_s[r]) + costs.start_s + costs.read_s * work.read[turn]
    state.turn[trajectory] = turn
    state.left[trajectory] = work.tokens[turn]
    state.held[trajectory] = work.read[turn]


@compiled
def join(r: int, place: int, state: State) -> None:
    """Let a trajectory decode."""
    trajectory = state.owner[r, place]
    state.finish[r, place] = state.token[r] + state.left[trajectory]
    state.back_s[r, place] = np.inf
    state.active[r] += 1
    state.context[r] += state.held[trajectory]


@compiled
def leave(r: int, place: int, state: State) -> None:
    """Take a trajectory out of the batch, with what it has made."""
    trajectory = state.owner[r, place]
    made = state.left[trajectory] - max(state.finish[r, place] - state.token[r], 0.0)
    state.left[trajectory] -= made
    state.held[trajectory] += made
    state.finish[r, place] = np.inf
    state.active[r] -= 1
    state.context[r] = max(state.context[r] - state.held[trajectory], 0.0) if state.active[r] else 0.0


@compiled
def free(r: int, place: int, state: State) -> None:
    """Give a place back: the last one moves there."""
    last = state.taken[r] - 1
    state.owner[r, place] = state.owner[r, last]
    state.finish[r, place] = state.finish[r, last]
    state.back_s[r, place] = state.back_s[r, last]
    state.taken[r] = last


@compiled
def happen(r: int, now: float, work: Work, state: State, costs: Costs, ended: IntArray) -> int:
    """What happens on a replica at a time: turns end, trajectories join. Returns how many trajectories ended."""
    count, place = 0, 0
    one = costs.factor[r] * (costs.floor_s + costs.sequence_s * state.active[r] + costs.context_s * state.context[r])
    # What a clock can no longer tell from now is now, or the loop would not end.
    until = state.token[r] + max(1e-6, _SOON / one if one > 0.0 else np.inf)
    while place < state.taken[r]:
        trajectory = state.owner[r, place]
        if state.finish[r, place] < np.inf and state.finish[r, place] <= until:
            leave(r, place, state)
            turn = state.turn[trajectory]
            if turn + 1 == work.first[trajectory + 1] and work.tool_s[turn] <= 0.0:
                ended[count] = trajectory
                count += 1
                free(r, place, state)
                continue
            state.back_s[r, place] = now + work.tool_s[turn]
            if turn + 1 < work.first[trajectory + 1]:
                state.back_s[r, place] += costs.start_s + costs.read_s * work.read[turn + 1]
                state.left[trajectory] = work.tokens[turn + 1]
                state.held[trajectory] += work.read[turn + 1]
            state.turn[trajectory] = turn + 1
        elif state.back_s[r, place] <= now + _SOON:
            if state.turn[trajectory] == work.first[trajectory + 1]:  # its last tool is done
                ended[count] = trajectory
                count += 1
                free(r, place, state)
                continue
            join(r, place, state)
        place += 1
    return count


@compiled
def stretch(r: int, state: State) -> None:
    """Let all that are about to decode on a replica begin with the last and end with the longest."""
    longest, begins = 0.0, 0.0
    for place in range(state.taken[r]):
        longest = max(longest, state.left[state.owner[r, place]])
        begins = max(begins, state.back_s[r, place])
    for place in range(state.taken[r]):
        state.left[state.owner[r, place]] = longest
        state.back_s[r, place] = begins


@compiled
def hand_over(r: int, to: int, now: float, state: State, costs: Costs, busy_s: FloatArray) -> None:
    """Give all trajectories of a replica to another one, which reads again what they had generated."""
    advance(r, now, state, costs, busy_s)
    advance(to, now, state, costs, busy_s)
    while state.taken[r]:
        place, there = state.taken[r] - 1, state.taken[to]
        trajectory = state.owner[r, place]
        back_s = state.back_s[r, place]
        if state.finish[r, place] < np.inf:
            leave(r, place, state)
            back_s = now + costs.start_s + costs.read_s * state.held[trajectory]
        state.owner[to, there] = trajectory
        state.finish[to, there] = np.inf
        state.back_s[to, there] = back_s
        state.taken[to] += 1
        state.taken[r] = place
    look_ahead(r, state, costs)
    look_ahead(to, state, costs)
