"""Clients of HTTP and their server, as processes of their own: the slow line of the server, and its seconds."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.analysis import Analysis
from scalana.report.findings.sentences import asking
from tests.attempts import attempts
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.runtime import jobs

pytestmark = pytest.mark.slow

PROGRAM = PROGRAMS / "http_requests.py"


def recorded(folder: Path, case: str) -> tuple[Analysis, float]:
    """What is said of a case, and how long its slow line slept in all."""
    done = jobs.run([sys.executable, PROGRAM, case], folder)
    assert done.returncode == 0 and done.stderr == ""
    return api.analyze(folder), float(json.loads(done.stdout)["slept_s"])


@pytest.mark.parametrize(
    ("case", "comment", "waiters"),
    [
        ("threads", "slow handler", 1),  # each client waits for a thread of its own
        ("uvicorn", "slow coroutine", 1),
        ("awaits", "slow await", 1),
    ],
)
def test_the_slow_line_of_a_server_is_named_with_its_seconds(
    case: str, comment: str, waiters: int, tmp_path: Path
) -> None:
    for attempt in attempts(3):
        analysis, slept_s = recorded(tmp_path / str(attempt), case)
        finding, names = analysis.findings[0], analysis.ppg.run.names
        assert not [warning for warning in analysis.ppg.run.warnings if "record" in warning]
        assert not len(analysis.ppg.servers)
        here = Path(finding.file).name, finding.line, names.many(finding.ranks)
        told = finding.evidence.as_dict().get("seconds_here")
        if here == (PROGRAM.name, line_of(PROGRAM, comment), "the server") and isinstance(told, float):
            if abs(told / slept_s - 1.0) <= 0.15 and finding.lost_s >= 0.85 * waiters * slept_s:
                return
    pytest.fail(f"{here}: {told} s, {finding.lost_s} s lost, and not {slept_s} s")


def test_ranks_that_wait_for_the_one_that_asks_wait_for_the_server(tmp_path: Path) -> None:
    """The first of two ranks asks, and broadcasts the answers: both wait for the line of the server."""
    for attempt in attempts(3):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        done = jobs.run([sys.executable, PROGRAM, "ranks"], tmp_path / str(attempt), environment)
        assert done.returncode == 0, done.stderr
        slept_s = float(json.loads(done.stdout)["slept_s"])
        analysis = api.analyze(tmp_path / str(attempt))
        finding = analysis.findings[0]
        here = Path(finding.file).name, finding.line, analysis.ppg.run.names.many(finding.ranks)
        if here == (PROGRAM.name, line_of(PROGRAM, "slow handler"), "the server"):
            assert finding.path[-2].operation == "result"
            if abs(finding.lost_s / (2 * slept_s) - 1.0) <= 0.15:
                return
    pytest.fail(f"{here}: {finding.lost_s} s, and not 2 x {slept_s} s")


def test_a_server_without_a_record_is_told_by_its_name(tmp_path: Path) -> None:
    for attempt in attempts(3):
        analysis, slept_s = recorded(tmp_path / str(attempt), "unrecorded")
        finding = analysis.findings[0]
        assert not [warning for warning in analysis.ppg.run.warnings if "without a record here" in warning]
        here = Path(finding.file).name, finding.line
        known = finding.evidence.as_dict().get("servers")
        if here == (PROGRAM.name, line_of(PROGRAM, "asks")) and isinstance(known, dict):
            ((name, seconds),) = known.items()
            assert name.startswith("127.0.0.1:") and name in asking(finding)
            if abs(seconds / slept_s - 1.0) <= 0.15:
                return
    pytest.fail(f"{here}: {known}, and not {slept_s} s")
