"""Requests to a Manager: how many, how long they take, and the line of the program that makes them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalana import api
from scalana.runtime.remote.managers import STRETCH_NS, Stretch
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.runtime import jobs

PROGRAM = PROGRAMS / "manager_requests.py"


def test_a_stretch_is_half_full_of_requests_at_least() -> None:
    stretch = Stretch((0, 0))
    for number in range(10):
        stretch.add((100 * number, 10 * number), (100 * number + 60, 10 * number + 5))
    assert (stretch.count, stretch.busy_ns, stretch.cpu_ns, stretch.until) == (10, 600, 50, (960, 95))
    assert not stretch.ends_before((1100, 0)) and stretch.ends_before((1300, 0))


@pytest.mark.slow
def test_workers_that_ask_a_manager_are_told_how_often_and_where(tmp_path: Path) -> None:
    done = jobs.run([sys.executable, PROGRAM], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = [line.split() for line in done.stdout.splitlines()]
    requests, spent_s = sum(int(one) for one, _ in told), sum(float(one) for _, one in told)
    analysis = api.analyze(tmp_path)
    finding = next(one for one in analysis.findings if one.evidence.serialising is not None)
    assert (Path(finding.file).name, finding.line) == (PROGRAM.name, line_of(PROGRAM, "<- asks"))
    known = finding.evidence.serialising
    assert known is not None and known.pickled == "requests"
    left = 4 * STRETCH_NS / 1e9  # what each worker has not written yet
    assert 0.8 * spent_s - left <= known.pickle_s <= 1.05 * spent_s
    assert 0.8 * requests <= known.pickles + left / (spent_s / requests) and known.pickles <= requests
    assert "Manager" in analysis.to_text() and "update" in finding.advice
