"""Requests to a Manager: how many, how long they take, and the line of the program that makes them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.annotate.serialising import REQUESTS
from scalana.detectors.evidence import Evidence, Serialising
from scalana.report.findings.sentences import serialising
from scalana.runtime.remote.managers import STRETCH_NS, Stretch
from tests.detectors.noise.test_contention import found
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
    spans = api.analyze(tmp_path).ppg.spans
    rows = spans.rows("serialisation", "pickle requests")
    assert set(spans.line[rows].tolist()) == {line_of(PROGRAM, "<- asks")}
    asked, asked_s = spans.integers("requests")[rows].sum(), spans.integers("busy_ns")[rows].sum() / 1e9
    left_s = 4 * STRETCH_NS / 1e9  # what each worker has not written yet
    assert 0.8 * spent_s - left_s <= asked_s <= 1.05 * spent_s
    assert 0 < asked <= requests


def test_requests_are_said_with_their_number_and_their_time() -> None:
    known = Serialising(REQUESTS, 24_000, 0, 3.5)
    finding = replace(found("late-ranks", 4.0), evidence=Evidence(serialising=known))
    assert "24,000 requests to the process of a multiprocessing Manager (3.50 s in all)" in serialising(finding)
