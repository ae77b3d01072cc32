"""Second attempts: what measures seconds of a busy machine may be measured anew, and each time that it is, is counted.

A test that needs several attempts of a part goes over :func:`attempts`; one with the mark ``measured`` is run anew as a
whole, once, with what its fixtures make for it and for its module: a job that several tests look at is recorded anew.
Tests that come later look at the new one. What needed more than one attempt stands at the end of the output: a test
that does so each time has bounds that are too tight, or has found something.

Tests run several at a time, and what they measure is spoilt by the others first of all. So the tests of either kind
that failed decide in a last attempt, when the machine has nothing else to do: ``pytest --last-failed --alone``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.runner import CallInfo, runtestprotocol

PROPERTY = "attempts"
"""Of a test's report: how many attempts it made."""
MARK = "measured"
"""Of a test that measures seconds or shares of a program, which other things on the machine may spoil."""

_running: list[pytest.Item] = []


def attempts(most: int) -> Iterator[int]:
    """The numbers of a test's attempts, from 0; the test leaves the loop when one succeeded."""
    for number in range(most):
        if number:
            _count(number + 1)
        yield number


def _count(made: int) -> None:
    for item in _running:
        before = max((value for name, value in item.user_properties if name == PROPERTY), default=0)
        others = [entry for entry in item.user_properties if entry[0] != PROPERTY]
        item.user_properties[:] = [*others, (PROPERTY, max(made, before))]


def summary(reports: list[pytest.TestReport]) -> list[str]:
    """What is said at the end: how many tests needed a second attempt, and which."""
    made = {report.nodeid: dict(report.user_properties).get(PROPERTY) for report in reports}
    needed = {name: count for name, count in made.items() if isinstance(count, int)}
    if not needed:
        return []
    tests = "1 test" if len(needed) == 1 else f"{len(needed)} tests"
    return [f"{tests} needed a second attempt:", *(f"  {name} ({count})" for name, count in sorted(needed.items()))]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option for the last attempt."""
    parser.addoption("--alone", action="store_true", help="refuse tests that measure nothing: these have had their try")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuses the last attempt where a test failed that does not measure anything.

    Raises:
        UsageError: naming these tests.
    """
    others = [item.nodeid for item in session.items if not measures(item)]
    if session.config.getoption("--alone", False) and others:
        raise pytest.UsageError("these failed, and measure nothing: " + ", ".join(others))


def measures(item: pytest.Item) -> bool:
    """Whether a test has the mark, or is of a module whose tests make several attempts."""
    module = item.getparent(pytest.Module)
    return item.get_closest_marker(MARK) is not None or (module and getattr(module.obj, "attempts", None)) is attempts


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Runs a test, and remembers which one runs; one that measures gets a second attempt where the first fails."""
    _running[:] = [item]
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if item.get_closest_marker(MARK) and any(report.failed for report in reports) and _forget_module(item):
        _count(2)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    _running.clear()
    return True


def _forget_module(item: pytest.Item) -> bool:
    """Ends what fixtures have made for a test's module, so that it is made anew; whether that went well."""
    module = item.getparent(pytest.Module)
    around = module.parent if module else None
    end = item.session._setupstate.teardown_exact  # ends all that is not around the test that comes next
    return CallInfo.from_call(lambda: end(around), when="teardown").excinfo is None  # type: ignore[arg-type]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says at the end which tests needed a second attempt."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    for line in summary(reports):
        terminalreporter.write_line(line)
