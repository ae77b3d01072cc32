"""Processes that belong to a library and not to the program, which are left alone."""

from __future__ import annotations

import os

from scalana.runtime.typed import Sequence

WORKER = "/ray/_private/workers/default_worker.py"
"""What a process that Ray starts for tasks and actors runs."""
SPILLING = "--worker-type=SPILL_WORKER", "--worker-type=RESTORE_WORKER"
"""Workers of Ray that move objects to disk and back."""
PARTS = (
    "multiprocessing.resource_tracker",
    "/ray/_private/log_monitor.py",
    "/ray/_private/ray_process_reaper.py",
    "/ray/_private/runtime_env/agent/main.py",
    "/ray/_private/workers/setup_worker.py",
    "/ray/autoscaler/_private/monitor.py",
    "/ray/autoscaler/v2/monitor.py",
    "/ray/dashboard/agent.py",
    "/ray/dashboard/dashboard.py",
    "ray.util.client.server",
    "ray-dashboard-",
    *SPILLING,
)
"""Parts of a word in the command line of one of them."""
REPLACED = "/ray/_private/workers/setup_worker.py"
"""Becomes a worker of Ray by exec, and hands its environment on to it."""


def is_bookkeeping(command: Sequence[str]) -> bool:
    """Whether a command line is that of such a process."""
    return any(part in word for word in _words(command) for part in PARTS)


def is_task_worker(command: Sequence[str]) -> bool:
    """Whether it is that of a process that Ray starts for tasks and actors."""
    return any(WORKER in word for word in _words(command))


def leave_alone(command: Sequence[str], variable: str) -> None:
    """Take the variable that has processes recorded from the environment of what this one starts."""
    if not any(REPLACED in word for word in _words(command)):
        os.environ.pop(variable, None)


def _words(command: Sequence[str]) -> list[str]:
    return [word.replace("\\", "/") for word in command]
