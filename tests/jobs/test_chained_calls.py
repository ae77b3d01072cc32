"""A thread of a pool that hands over the next call when a result comes back waits for that result."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.jobs.test_launching import PROGRAMS
from tests.runtime import jobs

pytestmark = pytest.mark.slow

CALLS = 20


def test_the_thread_that_submits_waits_for_each_result(tmp_path: Path) -> None:
    done = jobs.run([sys.executable, PROGRAMS / "chained_calls.py"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    calls = [call for record in jobs.records(tmp_path) for call in jobs.calls(record)]
    assert sum(call.operation == "result" and call.seconds >= 0.015 for call in calls) >= CALLS - 2
