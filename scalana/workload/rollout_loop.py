"""Generation on replicas, event by event: continuous batching, turns with tools, and trainers that make new weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.workload.repacking import repack
from scalana.workload.replica_state import (
    Costs,
    Course,
    State,
    Work,
    advance,
    begin,
    happen,
    leave,
    look_ahead,
    stretch,
)


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
    share: int = 0
    """Trajectories that a replica begins with the weights that it gets when all of those before have ended; 0: as
    places become free, with the weights that there are."""
    few: int = 0
    """Trajectories that a replica may have where the tail is moved onto few of them; 0: it is not."""
    parts: int = 1
    """Parts of a batch that trainers take as their trajectories end."""
    pull_s: float = 0.0
    """What a replica takes to get weights for a share."""
    late_s: float = 0.0
    """From an update to when replicas can get its weights."""


class Training(NamedTuple):
    """What trainers take for each batch."""

    parts_s: FloatArray
    """In all of its parts ``[batches]``."""
    after_s: FloatArray
    """Once, when they are done with these ``[batches]``."""


@compiled
def _has_place(r: int, state: State, rules: Rules) -> bool:
    """Whether a replica can take a trajectory: not while a batch that ends as a whole is under way, or its share."""
    if rules.share > 0 and state.quota[r] == 0 and state.taken[r] > 0:
        return False
    return state.taken[r] < rules.slots and not (rules.whole and state.active[r] > 0)


@compiled
def _get_weights(r: int, now: float, version: int, state: State, rules: Rules) -> None:
    """Have a replica get weights: for its next share, if it takes shares."""
    if rules.share > 0:
        if state.quota[r] == 0 or state.taken[r] == 0:
            if version != state.version[r]:
                state.open_s[r] = now + rules.pull_s
            state.quota[r] = rules.share
            state.version[r] = version
        state.quota[r] -= 1
    else:
        state.version[r] = version


@compiled
def _freest(state: State, rules: Rules) -> int:
    """The replica with the fewest trajectories that can take one, -1 for none."""
    best, least = -1, rules.slots
    for r in range(len(state.taken)):
        if state.taken[r] < least and _has_place(r, state, rules):
            best, least = r, state.taken[r]
    return best


@compiled
def _pause(now: float, until_s: float, state: State, costs: Costs, busy_s: FloatArray) -> None:
    """Let all replicas stand still; what they had begun to generate is read again when they go on."""
    for r in range(len(state.taken)):
        advance(r, now, state, costs, busy_s)
        for place in range(state.taken[r]):
            if state.finish[r, place] < np.inf:
                leave(r, place, state)
                state.back_s[r, place] = until_s + costs.read_s * state.held[state.owner[r, place]]
            else:
                state.back_s[r, place] = max(state.back_s[r, place], until_s)
        state.clock[r] = max(until_s, state.clock[r])
        look_ahead(r, state, costs)


class _Queue(NamedTuple):
    """What is still to be begun."""

    row: IntArray
    """Trajectories: those of each replica where they are pinned, or else all as one queue ``[trajectories]``."""
    head: IntArray
    """Where each queue is ``[queues]``."""
    end: IntArray
    """Where each queue ends ``[queues]``."""
    counts: IntArray
    """Trajectories that are begun and have not ended, updates whose weights there are, batches that are ready,
    trajectories that have ended, parts of the next batch that are taken, trajectories that are begun ``[6]``."""
    lacking: IntArray
    """Trajectories of each step that have not ended ``[steps]``."""


_FLYING, _VERSION, _READY, _ENDED, _PART, _BEGUN = 0, 1, 2, 3, 4, 5


@compiled
def _may_begin(trajectory: int, work: Work, rules: Rules, queue: _Queue) -> bool:
    """Whether its time has come."""
    step = work.step[trajectory]
    if queue.counts[_FLYING] >= rules.in_flight or queue.counts[_VERSION] < step - rules.behind:
        return False
    return not rules.in_turn or step == 0 or queue.lacking[step - 1] == 0


@compiled
def _hand_out(now: float, work: Work, rules: Rules, costs: Costs, state: State, queue: _Queue, course: Course) -> None:
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
            queue.counts[_BEGUN] += 1
            advance(r, now, state, costs, course.busy_s)
            _get_weights(r, now, queue.counts[_VERSION], state, rules)
            begin(r, trajectory, now, work, state, costs)
            course.begin_s[trajectory] = now
            course.replica[trajectory] = r
            course.begin_version[trajectory] = state.version[r]
            if rules.whole:
                stretch(r, state)
            look_ahead(r, state, costs)
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
def _is_ready(number: int, rules: Rules, queue: _Queue, size: IntArray) -> bool:
    """Whether the next part of a batch has all of its trajectories."""
    part = queue.counts[_PART] + 1
    if rules.by_step:
        ended = size[number] - queue.lacking[number]
        return ended >= -(-part * size[number] // rules.parts)
    least = number * rules.batch + -(-part * rules.batch // rules.parts)
    return queue.counts[_ENDED] >= min(least, size.sum())


@compiled
def _train(now: float, free_s: float, training: Training, rules: Rules, queue: _Queue, course: Course) -> float:
    """Train on the next part of a batch; returns when trainers are free again."""
    batch = queue.counts[_READY]
    queue.counts[_PART] += 1
    until_s = max(free_s, now) + training.parts_s[batch] / rules.parts
    if queue.counts[_PART] == rules.parts:
        queue.counts[_PART] = 0
        queue.counts[_READY] += 1
        until_s += training.after_s[batch]
        course.ready_s[batch] = now
        course.train_end_s[batch] = until_s
    return until_s


@compiled
def _soonest(state: State) -> int:
    """The replica on which something happens next."""
    best = 0
    for r in range(1, len(state.next_s)):
        if state.next_s[r] < state.next_s[best]:
            best = r
    return best


@compiled
def _run(
    work: Work, costs: Costs, rules: Rules, training: Training, state: State, queue: _Queue, course: Course
) -> bool:
    """Run until all trajectories have ended; False where the rules let nothing begin."""
    ended, size = np.zeros(rules.slots, np.int64), queue.lacking.copy()
    trained_s, steps = 0.0, len(training.parts_s)
    _hand_out(0.0, work, rules, costs, state, queue, course)
    while queue.counts[_ENDED] < len(work.step):
        r = _soonest(state)
        now, version = state.next_s[r], queue.counts[_VERSION]
        if version < queue.counts[_READY] and course.train_end_s[version] + rules.late_s <= now:
            there_s = course.train_end_s[version] + rules.late_s
            queue.counts[_VERSION] += 1
            _hand_out(there_s, work, rules, costs, state, queue, course)
            continue
        if now == np.inf:
            return False
        advance(r, now, state, costs, course.busy_s)
        count = happen(r, now, work, state, costs, ended)
        for number in range(count):
            _record(ended[number], now, work, rules, queue, course)
        look_ahead(r, state, costs)
        while queue.counts[_READY] < steps and _is_ready(queue.counts[_READY], rules, queue, size):
            trained_s = _train(now, trained_s, training, rules, queue, course)
            if rules.pauses:
                _pause(now, trained_s, state, costs, course.busy_s)
        _hand_out(now, work, rules, costs, state, queue, course)
        if rules.few > 0 and count > 0:
            is_last = queue.counts[_BEGUN] == len(work.step)
            repack(r, rules.few, is_last, now, state, costs, course)
            _hand_out(now, work, rules, costs, state, queue, course)
    return True


def run(work: Work, costs: Costs, rules: Rules, training: Training) -> Course | None:
    """Generate all trajectories, and train on them batch by batch.

    Args:
        work: what is to be generated, in the order in which it is begun.
        costs: of generation; as many replicas as it has factors.
        rules: of the policy.
        training: what each batch takes when its trajectories are there.

    Returns:
        What happened; None where the rules let nothing begin.
    """
    count, replicas = len(work.step), len(costs.factor)
    slots = max(min(rules.slots, count), 1)
    rules = rules._replace(slots=slots)
    state = State.of(replicas, slots, count)
    whole = np.array([0]), np.array([count])
    row, head, end = np.arange(count), *whole
    if (work.pinned >= 0).all() and replicas > 1:
        row = np.argsort(work.pinned, kind="stable")
        head, end = (np.searchsorted(work.pinned[row], np.arange(replicas), side=side) for side in ("left", "right"))
    steps = int(work.step.max(initial=-1)) + 1
    queue = _Queue(row, head, end, np.zeros(6, np.int64), np.bincount(work.step, minlength=steps))
    nothing, none = np.full(count, np.nan), np.full(count, -1)
    batches = np.full(len(training.parts_s), np.inf)
    course = Course(
        nothing.copy(), nothing, none.copy(), none.copy(), batches.copy(), batches, none, np.zeros(replicas)
    )
    return course if _run(work, costs, rules, training, state, queue, course) else None
