"""Answers of servers that left no record: waits for them stay with the line that waits, and are none of the run's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.detectors.when.server_waits import seconds_of
from scalana.graphs.dependences.servers import ServerWaits
from scalana.report.findings.sentences import asking
from scalana.runtime.record.format import EVENT_POST
from tests.graphs.runs import FILE, LINES, Rank, build

ROUNDS, ASKED_MS, WORK_MS = 6, 50.0, 5.0
SERVER = "10.0.0.2:8000"


def asked(folder: Path, recorded: bool, number: int = 7) -> Analysis:
    """A trainer that computes when an asker has its answer, of a server with a record or without.

    ``number`` is that of the server in the asker's record, 0 for a call that is no request to one.
    """
    names = ("asker", "trainer", "server") if recorded else ("asker", "trainer")
    told = {"world_size": None, "server 7": SERVER}
    asker, trainer, *servers = (
        Rank(folder, place, 1, role="member", meta={"part": name, **told}) for place, name in enumerate(names)
    )
    for call in range(1, ROUNDS + 1):
        begin = asker.now
        asker.call("submit", begin, "send", group=0, seq=call, flags=EVENT_POST)
        for server in servers:
            server.call("take", begin, "recv", group=0, seq=call)
            server.work("step", ASKED_MS)
            server.call("reply", server.now, "send", group=0, seq=call, flags=EVENT_POST)
        asker.call("result", begin + ASKED_MS, "load", group=0, seq=call, tag=number)
        asker.call("put", asker.now, "send", group=0, seq=100 + call, flags=EVENT_POST)
        trainer.call("get", asker.now, "recv", group=0, seq=100 + call)
        for rank in (asker, trainer):
            rank.work("mask", WORK_MS)
    for rank in (asker, trainer, *servers):
        rank.end()
    return analyze(build(folder))


def who(analysis: Analysis) -> list[str]:
    """The roles of the processes of the first finding."""
    return [analysis.ppg.run.names.role_of(rank) for rank in analysis.findings[0].ranks]


def test_a_wait_for_a_server_without_a_record_is_late_at_its_line_and_names_it(tmp_path: Path) -> None:
    analysis = asked(tmp_path, recorded=False)
    finding = analysis.findings[0]
    assert (finding.file, finding.line, who(analysis)) == (FILE, LINES["load"], ["asker"])
    seconds = ROUNDS * ASKED_MS * 1e-3
    assert finding.evidence.as_dict()["servers"] == {SERVER: pytest.approx(seconds)}
    assert finding.lost_s == pytest.approx(seconds)
    assert "without a record: 10.0.0.2:8000" in asking(finding)
    assert "server" in finding.advice
    assert not [warning for warning in analysis.ppg.run.warnings if "without a record here" in warning]
    assert analysis.ppg.metrics["comm_s"][:, finding.ranks].sum() == 0.0


def test_a_server_with_a_record_is_walked_back_to(tmp_path: Path) -> None:
    analysis = asked(tmp_path, recorded=True)
    assert not len(analysis.ppg.servers)
    finding = analysis.findings[0]
    assert (finding.line, who(analysis)) == (LINES["step"], ["server"])
    assert "servers" not in finding.evidence.as_dict()


def test_other_calls_without_an_answer_stay_calls_and_are_told(tmp_path: Path) -> None:
    analysis = asked(tmp_path, recorded=False, number=0)
    assert not len(analysis.ppg.servers)
    comm_s = analysis.ppg.metrics["comm_s"].sum(axis=0)
    assert comm_s.min() == pytest.approx(comm_s.max()) == pytest.approx(ROUNDS * ASKED_MS * 1e-3)
    assert [warning for warning in analysis.ppg.run.warnings if f"the results of {ROUNDS} calls" in warning]


def test_waits_for_one_server_that_overlap_count_once() -> None:
    rank, server = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1])
    waits = ServerWaits(rank, server, np.array([0.0, 1.0, 2.0, 5.0]), np.array([2.0, 4.0, 4.5, 6.0]), ["a", "b"])
    assert seconds_of(waits, 2, [0, 1]) == {"b": 2.25, "a": 1.0}
    assert seconds_of(waits, 2, [1]) == {"b": 1.0}
