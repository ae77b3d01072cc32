"""The tasks of a pool that take far longer than most, by name; and pools of threads, whose calls are known by marks.

Of a pool of processes it is recorded which tasks it did; marks add their names. Threads of a pool belong to one
process: there marks are all that is known, and list scheduling replays them as it does those of processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scalana.detectors.evidence import TaskTail
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.factors import DOUBLED, FAR_MORE
from scalana.detectors.thresholds.limits import TASKS_REPLAYED
from scalana.detectors.whatif.call_pools import CallPool, Round, Tasks, lag_s, pool_of
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.tasks import NamedTasks


def tail_of(pool: CallPool, named: NamedTasks, rank_of_worker: IntArray | None, cores: int) -> TaskTail:
    """The tail of the round of a pool that ends with the longest stretch of one task alone; one without a mark is
    called by its number in the round.

    Args:
        pool: its rounds.
        named: all calls with a name; those of a pool of threads are the rows of ``take``.
        rank_of_worker: of each worker of a pool of processes; None for a pool of threads.
        cores: that its workers may use, 0 where that is not known.
    """
    best = max(pool.rounds, key=_alone_s)
    tasks = best.tasks
    last = int(tasks.end_s.argmax())
    rank = None if rank_of_worker is None else int(rank_of_worker[tasks.worker[last]])
    if rank is None:
        task = int(tasks.take[last])
    else:
        task = named.at(rank, float(tasks.begin_s[last]), float(tasks.end_s[last]))
    seconds = np.concatenate([one.tasks.task_s for one in pool.rounds])
    long = seconds > FAR_MORE * float(np.median(seconds))
    return TaskTail(
        tail_tasks=int(long.sum()),
        tail_of=len(seconds),
        tail_percent=100.0 * float(seconds[long].sum() / seconds.sum()),
        tail_last=named.name(task) if task >= 0 else f"task #{last}",
        tail_rank=rank,
        tail_last_begin_s=float(tasks.begin_s[last]) - best.begin_s,
        tail_alone_s=_alone_s(best),
        tail_workers=len(pool.workers),
        tail_error=pool.error,
        longest_first_s=_saved_s(pool, lambda one: one.task_s, longest_first=True),
        halves_s=_saved_s(pool, lambda one: np.repeat(one.task_s / DOUBLED, DOUBLED)),
        twice_the_workers_s=_with_more_s(pool, named if rank_of_worker is None else None, cores),
    )


def thread_pools(named: NamedTasks) -> list[CallPool]:
    """The pools of threads of all processes: their calls know when they were handed over."""
    here = np.flatnonzero(~np.isnan(named.given_s))
    pools = []
    for rank in np.unique(named.rank[here]).tolist():
        mine = here[named.rank[here] == rank]
        if SEVERAL <= len(np.unique(named.lane[mine])) < len(mine) <= TASKS_REPLAYED:
            pool = pool_of([one for one in _rounds(named, mine) if len(one.free_s) >= SEVERAL])
            pools += [pool] if pool is not None else []
    return pools


def _rounds(named: NamedTasks, rows: IntArray) -> list[Round]:
    """Calls of threads that were under way together."""
    rows = rows[np.lexsort((named.start_s[rows], named.given_s[rows]))]
    reached = np.maximum.accumulate(named.end_s[rows])
    starts = np.append(0, np.flatnonzero(named.given_s[rows][1:] >= reached[:-1]) + 1)
    found = []
    for begin, end in zip(starts, np.append(starts[1:], len(rows)), strict=True):
        some = rows[begin:end]
        none = np.full(len(some), -1)
        lane = named.lane[some]
        tasks = Tasks(none, none, lane, some, none, named.given_s[some], named.start_s[some], named.end_s[some])
        free_s = dict.fromkeys(np.unique(lane).tolist(), float(tasks.given_s.min()))
        found.append(Round(tasks, free_s, lag_s(tasks, free_s)))
    return found


def idle_s(pool: CallPool) -> float:
    """Worker-seconds without a call, from the last one of each worker to the end of its round."""
    idle = 0.0
    for one in pool.rounds:
        for worker in one.free_s:
            mine = one.tasks.end_s[one.tasks.worker == worker]
            idle += one.end_s - (float(mine.max()) if len(mine) else one.begin_s)
    return idle


def _alone_s(one: Round) -> float:
    """How long the last call of a round runs after all others."""
    ends = np.sort(one.tasks.end_s)
    return float(ends[-1] - max(ends[-2], one.tasks.begin_s[one.tasks.end_s.argmax()])) if len(ends) > 1 else 0.0


def _saved_s(pool: CallPool, changed_s: Callable[[Tasks], FloatArray], longest_first: bool = False) -> float:
    """By how much earlier the rounds of a pool would be done, together."""
    saved = 0.0
    for one in pool.rounds:
        seconds = changed_s(one.tasks)
        given_s = None if pool.knows_ahead else np.repeat(one.tasks.given_s, len(seconds) // len(one.tasks))
        saved += max(one.again_s(pool.knows_ahead) - one.done_s(seconds, given_s, longest_first), 0.0)
    return saved


def _with_more_s(pool: CallPool, named: NamedTasks | None, cores: int) -> float | None:
    """The same with twice as many workers, which compute no more at a time than there are cores."""
    if named is None or not cores:
        return None
    saved = 0.0
    for one in pool.rounds:
        cpu_s = float(np.nansum(named.cpu_s[one.tasks.take]))
        more = {-1 - worker: one.begin_s for worker in range(len(pool.workers))}
        done_s = replace(one, free_s={**one.free_s, **more}).again_s(pool.knows_ahead)
        saved += max(one.again_s(pool.knows_ahead) - max(done_s, one.begin_s + cpu_s / cores), 0.0)
    return saved
