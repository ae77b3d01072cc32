"""The order of the tests, what their programs begin with, and which tests needed a second attempt."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

import pytest

from scalana.api import STRICT

from .attempts import (
    pytest_addoption,
    pytest_collection_finish,
    pytest_runtest_protocol,
    pytest_terminal_summary,
)
from .tools import fork_server

__all__ = [
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_runtest_protocol",
    "pytest_terminal_summary",
]
"""Hooks that stand elsewhere."""

LONGEST = (
    "tests/test_packaging.py",
    "tests/runtime/test_churn.py",
    "tests/jobs/",
    "tests/detectors/rl/",
    "tests/runtime/test_torch_comm.py",
    "tests/runtime/mpi/",
    "tests/runtime/pipeline/",
)
"""Come first, then all other files that have slow tests: with several files at a time, nobody waits for them at the
end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> tuple[int, bool]:
        longest = (number for number, name in enumerate(LONGEST) if item.nodeid.startswith(name))
        return next(longest, len(LONGEST)), item.path not in slow

    items.sort(key=place)


def pytest_configure() -> None:
    os.environ.setdefault(STRICT, "1")  # a part of an analysis that fails is an error here, and no warning
    if fork_server.VARIABLE not in os.environ:  # otherwise these are the tests of one of several processes
        os.environ[fork_server.VARIABLE] = tempfile.mkdtemp(prefix="scalana-servers-")
        os.environ[fork_server.OWNER] = str(os.getpid())
    # A shell without job control starts what it leaves in the background with these ignored, and programs inherit that.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # So does `nohup` with this one. What has a handler here is no more ignored by programs, and does not end the tests.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_unconfigure() -> None:
    if os.environ.get(fork_server.OWNER) == str(os.getpid()):
        shutil.rmtree(os.environ.pop(fork_server.VARIABLE), ignore_errors=True)
