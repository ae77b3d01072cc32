"""Second attempts: what measures seconds of a busy machine may be measured anew, and each time that it is, is counted.

A test that needs several attempts goes over :func:`attempts`. What needed more than one stands at the end of the
output: a test that does so each time has bounds that are too tight, or has found something.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

PROPERTY = "attempts"
"""Of a test's report: how many attempts it made."""

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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Remembers which test runs."""
    _running[:] = [item]
    yield
    _running.clear()


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
