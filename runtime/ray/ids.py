"""Ids of Ray's tasks and objects as ids of remote calls (:mod:`scalana.runtime.remote.calls`).

A task has 24 bytes, its last 4 the job and the 12 before these the actor. An object has those of the task that makes
it, and a number: 1 is what the task returns (2 and so on if it returns several things), higher ones are what it puts
into the object store while it runs. What a driver puts there counts from 1, as a driver returns nothing.
"""

from __future__ import annotations

from scalana.runtime.remote.calls import mixed

TASK_BYTES = 24
_JOB_BYTES = 4
_DRIVER = b"\xff" * (TASK_BYTES - _JOB_BYTES)
"""A driver's own task, but for the job."""
_MASK = (1 << 64) - 1


def of_task(task: bytes) -> int:
    """Id of a call, and of its result."""
    return mixed(_folded(task), 0)


def of_object(data: bytes) -> int:
    """Id of an object: of the call whose result it is, or its own."""
    task, number = data[:TASK_BYTES], int.from_bytes(data[TASK_BYTES:], "little")
    if number == 1 and not task.startswith(_DRIVER):
        return of_task(task)
    return mixed(_folded(task), number, 1)


def of_result(task: bytes, number: int) -> int:
    """Id of one of several things that a task returns, counted from 1."""
    return of_task(task) if number == 1 else mixed(_folded(task), number, 1)


def _folded(task: bytes) -> int:
    first, second, third = (int.from_bytes(task[at : at + 8], "little") for at in (0, 8, 16))
    # Tasks of one actor differ in the first; actors' creations and drivers do in the others.
    return (first ^ second * 0x9E3779B97F4A7C15 ^ third * 0xC2B2AE3D27D4EB4F) & _MASK
