"""Generation on replicas, event by event: continuous batching, turns with tools, and trainers that make new weights.

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


class Rules(NamedTuple):
    """When what is begun, and how steps follow each other."""

    slots: int
    """Trajectories of a replica at once."""
    whole: bool
    """Whether a batch of a replica ends with its longest."""
    by_step: bool
    """Whether a trainer awaits the trajectories of its step; the first so many that end, else."""
    batch: int
    """How many."""
    in_flight: int
    """Trajectories of all replicas at once, at most."""
    behind: int
    """Updates that may be lacking when a trajectory of a step is begun."""
    in_turn: bool
    """Whether a step is begun when all trajectories of the one before have ended."""
    pauses: bool
    """Whether replicas stand still while trainers train, as they are the same devices."""


class Course(NamedTuple):
    """What happened."""

    begin_s: FloatArray
    """``[trajectories]``"""
    end_s: FloatArray
    """``[trajectories]``"""
    replica: IntArray
    """``[trajectories]``"""
    begin_version: IntArray
    """Updates that had been made ``[trajectories]``."""
    ready_s: FloatArray
    """When the trajectories of a batch were there ``[batches]``."""
    train_end_s: FloatArray
    """When the update that a batch is for was made ``[batches]``."""
    batch: IntArray
    """Batch that a trajectory was trained in ``[trajectories]``."""
    busy_s: FloatArray
    """How long each replica generated ``[replicas]``."""


class _State(NamedTuple):
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


@compiled
def _look_ahead(r: int, state: _State, costs: Costs) -> None:
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
def _advance(r: int, until_s: float, state: _State, costs: Costs, busy_s: FloatArray) -> None:
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
def _begin(r: int, trajectory: int, now: float, work: Work, state: _State, costs: Costs) -> None:
    """Give a trajectory a place."""
    place = state.taken[r]
    turn = work.first[trajectory]
    state.taken[r] += 1
    state.owner[r, place] = trajectory
    state.finish[r, place] = np.inf
    state.back_s[r, place] = now + costs.start_s + costs.read_s * work.read[turn]
    state.turn[trajectory] = turn
    state.left[trajectory] = work.tokens[turn]
    state.held[trajectory] = work.read[turn]


@compiled
def _join(r: int, place: int, state: _State) -> None:
    """Let a trajectory decode."""
    trajectory = state.owner[r, place]
    state.finish[r, place] = state.token[r] + state.left[trajectory]
    state.back_s[r, place] = np.inf
    state.active[r] += 1
    state.context[r] += state.held[trajectory]


@compiled
def _leave(r: int, place: int, state: _State) -> None:
    """Take a trajectory out of the batch, with what it has made."""
    trajectory = state.owner[r, place]
    made = state.left[trajectory] - max(state.finish[r, place] - state.token[r], 0.0)
    state.left[trajectory] -= made
    state.held[trajectory] += made
    state.finish[r, place] = np.inf
    state.active[r] -= 1
    state.context[r] = max(state.context[r] - state.held[trajectory], 0.0) if state.active[r] else 0.0


@compiled
def _free(r: int, place: int, state: _State) -> None:
    """Give a place back: the last one moves there."""
    last = state.taken[r] - 1
    state.owner[r, place] = state.owner[r, last]
    state.finish[r, place] = state.finish[r, last]
    state.back_s[r, place] = state.back_s[r, last]
    state.taken[r] = last


@compiled
def _happen(r: int, now: float, work: Work, state: _State, costs: Costs, ended: IntArray) -> int:
    """What happens on a replica at a time: turns end, trajectories join. Returns how many trajectories ended."""
    count, place = 0, 0
    one = costs.factor[r] * (costs.floor_s + costs.sequence_s * state.active[r] + costs.context_s * state.context[r])
    # What a clock can no longer tell from now is now, or the loop would not end.
    until = state.token[r] + max(1e-6, _SOON / one if one > 0.0 else np.inf)
    while place < state.taken[r]:
        trajectory = state.owner[r, place]
        if state.finish[r, place] < np.inf and state.finish[r, place] <= until:
            _leave(r, place, state)
            turn = state.turn[trajectory]
            if turn + 1 == work.first[trajectory + 1] and work.tool_s[turn] <= 0.0:
                ended[count] = trajectory
                count += 1
                _free(r, place, state)
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
                _free(r, place, state)
                continue
            _join(r, place, state)
        place += 1
    return count


@compiled
def _stretch(r: int, state: _State) -> None:
    """Let all that are about to decode on a replica begin with the last and end with the longest."""
    longest, begins = 0.0, 0.0
    for place in range(state.taken[r]):
        longest = max(longest, state.left[state.owner[r, place]])
        begins = max(begins, state.back_s[r, place])
    for place in range(state.taken[r]):
        state.left[state.owner[r, place]] = longest
        state.back_s[r, place] = begins


@compiled
def _has_place(r: int, state: _State, rules: Rules) -> bool:
    """Whether a replica can take a trajectory: not while a batch that ends as a whole is under way."""
    return state.taken[r] < rules.slots and not (rules.whole and state.active[r] > 0)


@compiled
def _freest(state: _State, rules: Rules) -> int:
    """The replica with the fewest trajectories that can take one, -1 for none."""
    best, least = -1, rules.slots
    for r in range(len(state.taken)):
        if state.taken[r] < least and _has_place(r, state, rules):
            best, least = r, state.taken[r]
    return best


@compiled
def _pause(now: float, until_s: float, state: _State, costs: Costs, busy_s: FloatArray) -> None:
    """Let all replicas stand still; what they had begun to generate is read again when they go on."""
    for r in range(len(state.taken)):
        _advance(r, now, state, costs, busy_s)
        for place in range(state.taken[r]):
            if state.finish[r, place] < np.inf:
                _leave(r, place, state)
                state.back_s[r, place] = until_s + costs.read_s * state.held[state.owner[r, place]]
            else:
                state.back_s[r, place] = max(state.back_s[r, place], until_s)
        state.clock[r] = max(until_s, state.clock[r])
        _look_ahead(r, state, costs)


class _Queue(NamedTuple):
    """What is still to be begun."""

    row: IntArray
    """Trajectories: those of each replica where they are pinned, or else all as one queue ``[trajectories]``."""
    head: IntArray
    """Where each queue is ``[queues]``."""
    end: IntArray
    """Where each queue ends ``[queues]``."""
    counts: IntArray
    """Trajectories that are begun and have not ended, updates made, batches that are ready, trajectories that have
    ended ``[4]``."""
    lacking: IntArray
    """Trajectories of each step that have not ended ``[steps]``."""


_FLYING, _VERSION, _READY, _ENDED = 0, 1, 2, 3


@compiled
def _may_begin(trajectory: int, work: Work, rules: Rules, queue: _Queue) -> bool:
    """Whether its time has come."""
    step = work.step[trajectory]
    if queue.counts[_FLYING] >= rules.in_flight or queue.counts[_VERSION] < step - rules.behind:
        return False
    return not rules.in_turn or step == 0 or queue.lacking[step - 1] == 0


@compiled
def _hand_out(now: float, work: Work, rules: Rules, costs: Costs, state: _State, queue: _Queue, course: Course) -> None:
    """Begin what can be begun."""
    pinned = len(queue.head) > 1
    for number in range(len(queue.head)):
        r = number if pinned else _freest(state, rules)
        while 0 <= r and queue.head[number] < queue.end[number] and _has_place(r, state, rules):
            trajectory = queue.row[queue.head[number]]
            if not _may_begin(trajectory, work, rules, queue):
                break
            queue.head[number] += 1
            queue.counts[_FLYING] += 1
            _advance(r, now, state, costs, course.busy_s)
            _begin(r, trajectory, now, work, state, costs)
            course.begin_s[trajectory] = now
            course.replica[trajectory] = r
            course.begin_version[trajectory] = queue.counts[_VERSION]
            if rules.whole:
                _stretch(r, state)
            _look_ahead(r, state, costs)
            if not pinned:
                r = _freest(state, rules)


@compiled
def _record(trajectory: int, now: float, work: Work, rules: Rules, queue: _Queue, course: Course) -> None:
    """Note that a trajectory has ended."""
    course.end_s[trajectory] = now
    course.batch[trajectory] = work.step[trajectory] if rules.by_step else queue.counts[_ENDED] // rules.batch
    queue.lacking[work.step[trajectory]] -= 1
    queue.counts[_FLYING] -= 1
    queue.counts[_ENDED] += 1


@compiled
def _is_ready(number: int, rules: Rules, queue: _Queue, trajectories: int) -> bool:
    """Whether a batch has all of its trajectories."""
    if rules.by_step:
        return queue.lacking[number] == 0
    return queue.counts[_ENDED] >= min((number + 1) * rules.batch, trajectories)


@compiled
def _soonest(state: _State) -> int:
    """The replica on which something happens next."""
    best = 0
    for r in range(1, len(state.next_s)):
        if state.next_s[r] < state.next_s[best]:
            best = r
    return best


@compiled
def _run(
    work: Work, costs: Costs, rules: Rules, train_s: FloatArray, state: _State, queue: _Queue, course: Course
) -> bool:
    """Run until all trajectories have ended; False where the rules let nothing begin."""
    ended = np.zeros(rules.slots, np.int64)
    trained_s = 0.0
    _hand_out(0.0, work, rules, costs, state, queue, course)
    while queue.counts[_ENDED] < len(work.step):
        r = _soonest(state)
        now, version = state.next_s[r], queue.counts[_VERSION]
        if version < queue.counts[_READY] and course.train_end_s[version] <= now:
            queue.counts[_VERSION] += 1
            _hand_out(course.train_end_s[version], work, rules, costs, state, queue, course)
            continue
        if now == np.inf:
            return False
        _advance(r, now, state, costs, course.busy_s)
        for number in range(_happen(r, now, work, state, costs, ended)):
            _record(ended[number], now, work, rules, queue, course)
        _look_ahead(r, state, costs)
        while queue.counts[_READY] < len(train_s) and _is_ready(queue.counts[_READY], rules, queue, len(work.step)):
            batch = queue.counts[_READY]
            queue.counts[_READY] += 1
            course.ready_s[batch] = now
            trained_s = max(trained_s, now) + train_s[batch]
            course.train_end_s[batch] = trained_s
            if rules.pauses:
                _pause(now, trained_s, state, costs, course.busy_s)
        _hand_out(now, work, rules, costs, state, queue, course)
    return True


def run(work: Work, costs: Costs, rules: Rules, train_s: FloatArray) -> Course | None:
    """Generate all trajectories, and train on them batch by batch.

    Args:
        work: what is to be generated, in the order in which it is begun.
        costs: of generation; as many replicas as it has factors.
        rules: of the policy.
        train_s: what each batch takes when its trajectories are there ``[batches]``.

    Returns:
        What happened; None where the rules let nothing begin.
    """
    count, replicas = len(work.step), len(costs.factor)
    slots = max(min(rules.slots, count), 1)
    rules = rules._replace(slots=slots)
    per_replica = (replicas, slots)
    state = _State(
        clock=np.zeros(replicas),
        token=np.zeros(replicas),
        active=np.zeros(replicas, np.int64),
        context=np.zeros(replicas),
        taken=np.zeros(replicas, np.int64),
        next_s=np.full(replicas, np.inf),
        owner=np.zeros(per_replica, np.int64),
        finish=np.full(per_replica, np.inf),
        back_s=np.full(per_replica, np.inf),
        left=np.zeros(count),
        held=np.zeros(count),
        turn=np.zeros(count, np.int64),
    )
    whole = np.array([0]), np.array([count])
    row, head, end = np.arange(count), *whole
    if (work.pinned >= 0).all() and replicas > 1:
        row = np.argsort(work.pinned, kind="stable")
        head, end = (np.searchsorted(work.pinned[row], np.arange(replicas), side=side) for side in ("left", "right"))
    steps = int(work.step.max(initial=-1)) + 1
    queue = _Queue(row, head, end, np.zeros(4, np.int64), np.bincount(work.step, minlength=steps))
    nothing, none = np.full(count, np.nan), np.full(count, -1)
    batches = np.full(len(train_s), np.inf)
    course = Course(
        nothing.copy(), nothing, none.copy(), none.copy(), batches.copy(), batches, none, np.zeros(replicas)
    )
    return course if _run(work, costs, rules, train_s, state, queue, course) else None
