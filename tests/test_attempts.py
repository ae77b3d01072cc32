"""Second attempts are counted, and said at the end of a run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attempts import summary

pytest_plugins = ["pytester"]

TESTS = """
import pytest

from tests.attempts import attempts

made = []

@pytest.mark.measured
def test_is_spoilt_once(tmp_path):
    made.append(tmp_path)
    assert len(set(made)) == 2

jobs = []

@pytest.fixture(scope="module")
def job():
    jobs.append("recorded")
    yield len(jobs)
    jobs.append("ended")

def test_looks_at_the_first_job(job):
    assert job == 1

@pytest.mark.measured
def test_has_a_spoilt_job(job):
    assert jobs == ["recorded", "ended", "recorded"]

def test_looks_at_the_job_of_the_second_attempt(job):
    assert job == 3 and len(jobs) == 3

@pytest.fixture(scope="module")
def failing_job():
    jobs.append("failing")
    assert jobs.count("failing") == 2

@pytest.mark.measured
def test_has_a_job_that_fails_once(failing_job):
    pass

@pytest.mark.measured
def test_is_spoilt_always():
    assert False

@pytest.mark.measured
def test_is_spoilt_never():
    pass

def test_is_not_measured():
    made.append(None)
    assert made.count(None) == 1 and False

def test_needs_none():
    for number in attempts(3):
        break

def test_needs_two():
    for number in attempts(3):
        if number == 1:
            return
    assert False

def test_needs_more_than_it_has():
    for number in attempts(3):
        pass
    assert False
"""


HOOKS = "from tests.conftest import *"


def run(pytester: pytest.Pytester, *options: str) -> list[str]:
    """The lines that tell of second attempts."""
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers = measured")
    done = pytester.runpytest_subprocess(*options)
    done.assert_outcomes(passed=8, failed=3)
    begin = next(number for number, line in enumerate(done.outlines) if "second attempt" in line)
    return done.outlines[begin : begin + 7]


@pytest.mark.parametrize(
    "options", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)], ids=["alone", "distributed"]
)
def test_they_are_counted_and_said_at_the_end(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    first, *others = run(pytester, *options)
    assert first == "6 tests needed a second attempt:"
    assert [line.rpartition("::")[2] for line in others] == [
        "test_has_a_job_that_fails_once (2)",
        "test_has_a_spoilt_job (2)",
        "test_is_spoilt_always (2)",
        "test_is_spoilt_once (2)",
        "test_needs_more_than_it_has (3)",
        "test_needs_two (2)",
    ]


MEASURED = """
from pathlib import Path

import pytest

def test_is_well():
    pass

@pytest.mark.measured
def test_is_spoilt_by_others():
    tries = Path("tries")
    tries.write_text(tries.read_text() + "." if tries.exists() else ".")
    assert len(tries.read_text()) >= 3
"""
LOOP = """
import os

from tests.attempts import attempts

def test_uses_up_its_attempts():
    assert any("ALONE" in os.environ for _ in attempts(2))
"""


@pytest.mark.slow
def test_what_measures_decides_when_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    pytester.makeconftest(HOOKS)
    pytester.makeini("[pytest]\nmarkers = measured")
    pytester.makepyfile(test_measured=MEASURED, test_loop=LOOP)
    last = ("--last-failed", "--last-failed-no-failures", "none", "--alone")
    pytester.runpytest_subprocess().assert_outcomes(passed=1, failed=2)
    monkeypatch.setenv("ALONE", "yes")
    pytester.runpytest_subprocess(*last).assert_outcomes(passed=2)
    assert pytester.runpytest_subprocess(*last).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    pytester.makepyfile(test_other="def test_measures_nothing():\n    assert False")
    pytester.runpytest_subprocess().assert_outcomes(passed=3, failed=1)
    refused = pytester.runpytest_subprocess(*last)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*measure nothing: test_other.py::test_measures_nothing*"])


def test_where_none_was_needed_nothing_is_said() -> None:
    assert summary([]) == []
