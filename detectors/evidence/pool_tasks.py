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
class TaskTimes(Flat):
    """Seconds of a task of a pool, and tasks of a rank."""

    task_s_here: float
    task_s_others: float
    tasks_here: float
    tasks_others: float
