"""One job at a time is recorded, while what looks at others gives way.

The tests of samples run in two processes. A job has the machine to itself but for what the other process compiles and
analyses meanwhile, which gets what the job leaves of the cores: by the niceness of its session, or of its thread where
sessions have none.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tests.tools import fork_server
from tests.tools.give_way import lower_session

T = TypeVar("T")

NICENESS = 15
_starter = ThreadPoolExecutor(1)
"""A thread that does not give way, nor do jobs that it starts in sessions of their own."""


def is_one_of_several() -> bool:
    """Whether this is one of several test processes."""
    return "PYTEST_XDIST_WORKER" in os.environ


def give_way() -> None:
    """From now on this process, if it is one of several, comes after jobs of :func:`alone`."""
    if is_one_of_several():
        _starter.submit(threading.get_ident).result()  # begins as this process is now
        lower_session(NICENESS)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def alone(job: Callable[[], T]) -> T:
    """What a job returns, during which no other one runs. The job begins a session of its own."""
    if not is_one_of_several():
        return job()
    with open(Path(os.environ[fork_server.VARIABLE]) / "alone.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _starter.submit(job).result()
