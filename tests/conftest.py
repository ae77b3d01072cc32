"""The order of the tests, what their programs begin with, and which tests needed a second attempt."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from scalana.api import STRICT

from .attempts import (
    measures,
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

COMPUTES = "computes"
"""The mark of tests that the whole suite leaves to the time that all others do not use."""
COMPUTING = (
    "tests/detectors/",
    "tests/frontend/models/",
    "tests/frontend/python/",
    "tests/graphs/adjust/",
    "tests/graphs/attribution/",
    "tests/graphs/bursts/",
    "tests/graphs/calls/",
    "tests/graphs/dependences/",
    "tests/graphs/readers/",
    "tests/graphs/steps/",
    "tests/graphs/structure/",
    "tests/importers/",
    "tests/workload/",
)
"""Where fast tests get this mark: they compute in their own process, and wait for nothing."""
COMPUTING_LONG = (
    "tests/detectors/delays/test_classes.py",
    "tests/detectors/pipeline/test_culprits.py",
    "tests/detectors/pipeline/test_messages.py",
    "tests/detectors/pipeline/test_plans.py",
    "tests/detectors/pipeline/test_schedules.py",
    "tests/detectors/pipeline/test_simulate.py",
    "tests/detectors/runs/test_scaling_models.py",
    "tests/frontend/models/",
    "tests/frontend/python/test_build.py",
    "tests/graphs/dependences/test_matching.py",
    "tests/graphs/test_operator_costs.py",
    "tests/importers/test_flight_damage.py",
    "tests/runtime/pipeline/test_layers.py",
    "tests/runtime/test_record_format.py",
    "tests/scalana/test_pipeline_command.py",
    "tests/scalana/test_scaling_command.py",
    "tests/workload/test_played.py",
)
"""Where all tests do, slow ones, too."""

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")  # no test fails for the time that it takes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    measuring = {item.path for item in items if measures(item)}
    for item in items:
        where = COMPUTING_LONG if item.get_closest_marker("slow") else COMPUTING + COMPUTING_LONG
        if item.nodeid.startswith(where) and item.path not in measuring:
            item.add_marker(COMPUTES)

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
