"""Evidence about tasks that are handed out."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class LargeTasks(Flat):
    """Tasks that are far larger than their like."""

    large_tasks: int
    large_tasks_over_s: float


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """What another order of the tasks of a pool brings; 0 where that is not worth it."""

    workers: int
    tasks: int
    error: float
    """Of the replay of the pool."""
    longest_first_s: float
    halves_s: float


@dataclass(frozen=True, slots=True)
class TaskTail(Flat):
    """The tasks of a pool that take far longer than most, and the one that ends last."""

    tail_tasks: int
    """Tasks that take far longer than the median one."""
    tail_of: int
    """All tasks."""
    tail_percent: float
    """Part of the time of all tasks that these take."""
    tail_last: str
    """Name of the task that ends last: its call, or its number."""
    tail_rank: int | None
    """Of the process that does it; None where threads of one process share the tasks."""
    tail_last_begin_s: float
    """When it begins, after the first task was handed over."""
    tail_alone_s: float
    """How long it runs after all others have ended."""
    tail_workers: int
    tail_error: float
    """Of the replay of the pool."""
    longest_first_s: float
    """By how much earlier the pool would be done with the longest tasks first."""
    halves_s: float
    """The same with all tasks cut in half."""
    twice_the_workers_s: float | None = None
    """The same with twice as many workers; None where it is not known whether there are cores for them."""


@dataclass(frozen=True, slots=True)
class TaskTimes(Flat):
    """Seconds of a task of a pool, and tasks of a rank."""

    task_s_here: float
    task_s_others: float
    tasks_here: float
    tasks_others: float
