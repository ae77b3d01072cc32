"""Pools of processes that get tasks: what they were given in which order, and what another order would bring.

Tasks that one process hands over (calls, messages of a task farm), and that whichever of some others is free takes
next, are done again here by *list scheduling* (R. L. Graham, 1969): the next task goes to the worker that is free
first. In the recorded order this must give the recorded end, or else it is no such pool (of actors each has calls of
its own) and nothing is told of it. Other orders then say what the last, long tasks cost: the longest first (LPT), and
tasks of half the length.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.wait_states import givers
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.differences import TRUSTED_REPLAY
from scalana.detectors.thresholds.limits import TASKS_REPLAYED
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME, OPERATIONS, Waits

_SUBMIT, _TAKE, _REPLY = (BY_NAME[name].code for name in ("submit", "take", "reply"))
_WAITING = [row.code for row in OPERATIONS if row.waits != Waits.NOBODY]


@dataclass(frozen=True, slots=True)
class Tasks:
    """Calls that processes have taken and done, one row each, in the order in which they were handed over."""

    giver: IntArray
    """Location that handed it over, -1 where it was taken from a counter ``[tasks]``."""
    site: IntArray
    """Vertex of the call that did ``[tasks]``."""
    worker: IntArray
    """Location that did it ``[tasks]``."""
    take: IntArray
    """The call with which this began with it ``[tasks]``."""
    reply: IntArray
    """The call with which it ended ``[tasks]``."""
    given_s: FloatArray
    """When it was handed over ``[tasks]``."""
    begin_s: FloatArray
    end_s: FloatArray

    def __len__(self) -> int:
        return len(self.giver)

    @property
    def task_s(self) -> FloatArray:
        """Seconds of each ``[tasks]``."""
        return self.end_s - self.begin_s

    def some(self, rows: IntArray) -> Tasks:
        """Some of them."""
        return Tasks(*(getattr(self, name)[rows] for name in Tasks.__slots__))


@dataclass(slots=True)
class Round:
    """Tasks of a pool that were under way together: none had been handed over before, none was left after."""

    tasks: Tasks
    free_s: dict[int, float]
    """When each worker was free to begin, by its location."""
    lag_s: float
    """What passes between the end of a task and the begin of the next, where that is there already."""

    @property
    def begin_s(self) -> float:
        """When the first task was handed over."""
        return float(self.tasks.given_s.min())

    @property
    def end_s(self) -> float:
        """When the last was done."""
        return float(self.tasks.end_s.max())

    @property
    def has_several(self) -> bool:
        """Whether some process does more than one task."""
        return len(np.unique(self.tasks.worker)) < len(self.tasks)

    def known_ahead(self) -> Round:
        """The same, with all tasks known from its begin on: what passes until one is handed out belongs to the lag."""
        tasks = replace(self.tasks, given_s=np.full(len(self.tasks), self.begin_s))
        return replace(self, tasks=tasks, lag_s=lag_s(tasks, self.free_s))

    def again_s(self, knows_ahead: bool) -> float:
        """When the last task is done, of those that were recorded."""
        return self.done_s(self.tasks.task_s, None if knows_ahead else self.tasks.given_s)

    def error_s(self, knows_ahead: bool) -> float:
        """By how much that differs from what was recorded."""
        return abs(self.end_s - self.again_s(knows_ahead))

    def done_s(self, task_s: FloatArray, given_s: FloatArray | None = None, longest_first: bool = False) -> float:
        """When the last of some tasks is done.

        Args:
            task_s: seconds of each, in the order in which they are handed over ``[tasks]``.
            given_s: when each is handed over; None where all are known from the begin of the round on ``[tasks]``.
            longest_first: hand over the longest first of those that are known.
        """
        known = np.full(len(task_s), self.begin_s) if given_s is None else given_s
        free = [(at, worker) for worker, at in self.free_s.items()]
        heapq.heapify(free)
        waiting: list[tuple[float, int]] = []
        done, number = self.begin_s, 0
        for _ in range(len(task_s)):
            now, worker = heapq.heappop(free)
            if not waiting:
                now = max(now, float(known[number]))
            while number < len(task_s) and known[number] <= now:
                heapq.heappush(waiting, (-float(task_s[number]) if longest_first else 0.0, number))
                number += 1
            _, task = heapq.heappop(waiting)
            end = max(now, float(known[task])) + self.lag_s + float(task_s[task])
            done = max(done, end)
            heapq.heappush(free, (end, worker))
        return done


@dataclass(slots=True)
class CallPool:
    """Processes of which whichever is free takes the next task."""

    workers: frozenset[int]
    """Their locations."""
    rounds: list[Round]
    knows_ahead: bool
    """Whether tasks are done as if all of a round were known at its begin, or else as they were handed over."""
    error: float
    """How far the replay of what was recorded is off, as a part of the recorded time."""

    @property
    def tasks(self) -> int:
        """How many it does."""
        return sum(len(each.tasks) for each in self.rounds)

    def saved_s(
        self, timeline: Timeline, changed_s: Callable[[Tasks], FloatArray], longest_first: bool = False
    ) -> float:
        """Seconds that who handed over waits less, over all rounds, in another order or with other tasks; those by
        which the rounds end earlier, where nobody hands over.

        ``changed_s(tasks)`` are the seconds of the tasks of a round in order, or of as many pieces of each as there are
        times that many.
        """
        saved = 0.0
        for each in self.rounds:
            tasks = each.tasks
            changed = changed_s(tasks)
            pieces = len(changed) // len(tasks)
            given_s = None if self.knows_ahead else np.repeat(tasks.given_s, pieces)
            less_s = each.again_s(self.knows_ahead) - each.done_s(changed, given_s, longest_first)
            if less_s > 0.0:
                giver = int(tasks.giver[0])
                saved += less_s if giver < 0 else _waited_s(timeline, giver, each.end_s - less_s, each.end_s)
        return saved


def find_call_pools(timeline: Timeline) -> list[CallPool]:
    """All pools of a run, none if it has more than :data:`TASKS_REPLAYED`. O(calls log calls), and O(tasks log
    tasks)."""
    tasks = find_tasks(timeline)
    if len(tasks) > TASKS_REPLAYED:
        return []
    found = (pool_of(rounds_of(tasks.some(rows), timeline)) for rows in _by_pool(tasks))
    return [pool for pool in found if pool is not None]


def pool_of(rounds: list[Round]) -> CallPool | None:
    """The pool that does all tasks of some rounds; None where it is known of less than most of them how they come to be
    done when they were."""
    count = sum(len(one.tasks) for one in rounds)
    rounds = [one for one in rounds if one.has_several]
    workers = frozenset(worker for one in rounds for worker in one.free_s)
    if len(workers) < SEVERAL:
        return None
    for ahead in (True, False):
        # Not of rounds in which processes start, or who hands over does other things.
        alike = [each for each in rounds if each.error_s(ahead) <= TRUSTED_REPLAY * (each.end_s - each.begin_s)]
        if sum(len(each.tasks) for each in alike) > MAJORITY * count:
            recorded_s = sum(each.end_s - each.begin_s for each in alike)
            error = sum(each.error_s(ahead) for each in alike) / recorded_s
            return CallPool(workers, alike, ahead, error)
    return None


def _waited_s(timeline: Timeline, giver: int, begin_s: float, end_s: float) -> float:
    """Seconds that the process of a location waits for others within a stretch of time: it may hand over by one thread
    and wait in another."""
    calls, rank = timeline.calls, timeline.locations.rank
    most_s = 0.0
    for location in np.flatnonzero(rank == rank[giver]).tolist():
        mine = slice(int(calls.first[location]), int(calls.first[location + 1]))
        inside = np.minimum(calls.exit_s[mine], end_s) - np.maximum(calls.enter_s[mine], begin_s)
        most_s = max(most_s, float(inside[(inside > 0.0) & np.isin(calls.operation[mine], _WAITING)].sum()))
    return most_s


def find_tasks(timeline: Timeline) -> Tasks:
    """The tasks that main threads of processes have taken and done, without what overlaps."""
    calls = timeline.calls
    served = timeline.locations.is_main[calls.location]
    rows = np.flatnonzero(np.isin(calls.operation, (_TAKE, _REPLY)) & served)
    takes = np.flatnonzero(calls.operation[rows[:-1]] == _TAKE) if len(rows) else rows
    # Several results may be handed over at the end of one task, and a process may begin for one that it then takes.
    takes = takes[calls.operation[rows[takes + 1]] == _REPLY]
    takes = takes[calls.location[rows[takes]] == calls.location[rows[takes + 1]]]
    take, reply = rows[takes], rows[takes + 1]
    given = _given_by(timeline, take)
    known = given >= 0
    take, reply, given = take[known], reply[known], given[known]
    order = np.lexsort((calls.exit_s[take], calls.enter_s[given]))
    take, reply, given = take[order], reply[order], given[order]
    return Tasks(
        calls.location[given].astype(np.int64),
        calls.vertex[given].astype(np.int64),
        calls.location[take].astype(np.int64),
        take,
        reply,
        calls.enter_s[given],
        calls.exit_s[take],
        calls.enter_s[reply],
    )


def _given_by(timeline: Timeline, take: IntArray) -> IntArray:
    """The call that handed over what each of some calls took, -1 where it is not known ``[takes]``."""
    calls, instances = timeline.calls, timeline.instances
    result = np.full(len(take), -1, np.int64)
    if not len(take):
        return result
    giver = givers(timeline)
    count = calls.wait_first[take + 1] - calls.wait_first[take]
    for place in range(int(count.max(initial=0))):
        has = np.flatnonzero((place < count) & (result < 0))
        instance = calls.waits[calls.wait_first[take[has]] + place]
        submitted = instances.operation[instance] == _SUBMIT
        result[has[submitted]] = giver[instance[submitted]]
    return result


def _by_pool(tasks: Tasks) -> list[IntArray]:
    """The tasks of each pool: those handed over at one line, with others that the same processes do for the same."""
    home: dict[tuple[int, int, int], int] = {}
    parent: list[int] = []

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    def number(key: tuple[int, int, int]) -> int:
        if key not in home:
            home[key] = len(parent)
            parent.append(len(parent))
        return home[key]

    giver, site, worker = tasks.giver.tolist(), tasks.site.tolist(), tasks.worker.tolist()
    mine = [number((0, by, at)) for by, at in zip(giver, site, strict=True)]
    for one, by, who in zip(mine, giver, worker, strict=True):
        parent[root(number((1, by, who)))] = root(one)
    pools: dict[int, list[int]] = defaultdict(list)
    for row, one in enumerate(mine):
        pools[root(one)].append(row)
    return [np.array(rows) for rows in pools.values()]


def rounds_of(tasks: Tasks, timeline: Timeline, apart: bool = True) -> list[Round]:
    """The rounds of some tasks; all as one where these are not taken ``apart``."""
    reached = np.maximum.accumulate(tasks.end_s)
    starts = np.append(0, np.flatnonzero(apart & (tasks.given_s[1:] >= reached[:-1])) + 1)
    workers = np.unique(tasks.worker)
    enter_s, first_free = timeline.calls.enter_s, {}
    for worker in workers.tolist():
        first_free[worker] = float(enter_s[tasks.take[tasks.worker == worker]].min())
    rounds = []
    for begin, end in zip(starts, np.append(starts[1:], len(tasks)), strict=True):
        some = tasks.some(np.arange(begin, end))
        start_s, end_s = float(some.given_s.min()), float(some.end_s.max())
        free_s = {who: max(start_s, at) for who, at in first_free.items() if at < end_s}
        rounds.append(Round(some, free_s, lag_s(some, free_s)))
    return rounds


def lag_s(tasks: Tasks, free_s: dict[int, float]) -> float:
    """The usual time from when a worker is free, and its next task there, to its begin."""
    lags, free = [], dict(free_s)
    for row in np.argsort(tasks.begin_s, kind="stable").tolist():
        worker = int(tasks.worker[row])
        lags.append(float(tasks.begin_s[row]) - max(free[worker], float(tasks.given_s[row])))
        free[worker] = float(tasks.end_s[row])
    return max(0.0, float(np.median(lags)))
