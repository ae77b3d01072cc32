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
    """What another order of the calls of a pool brings; 0 where that is not worth it."""

    workers: int
    tasks: int
    error: float
    """Of the replay of the pool."""
    longest_first_s: float
    halves_s: float


@dataclass(frozen=True, slots=True)
class TaskTail(Flat):
    """The calls of a pool that take far longer than most, and the one that ends last."""

    tail_tasks: int
    """Calls that take far longer than the median one."""
    tail_of: int
    """All calls."""
    tail_percent: float
    """Part of the time of all calls that these take."""
    tail_last: str
    """Name of the call that ends last."""
    tail_last_begin_s: float
    """When it begins, after the first call was handed over."""
    tail_alone_s: float
    """How long it runs after all others have ended."""
    tail_workers: int
    tail_error: float
    """Of the replay of the pool."""
    longest_first_s: float
    """By how much earlier the pool would be done with the longest calls first."""
    halves_s: float
    """The same with all calls cut in half."""
    twice_the_workers_s: float | None = None
    """The same with twice as many workers; None where it is not known whether there are cores for them."""


@dataclass(frozen=True, slots=True)
class TaskTimes(Flat):
    """Seconds of a task of a pool, and tasks of a rank."""

    task_s_here: float
    task_s_others: float
    tasks_here: float
    tasks_others: float
