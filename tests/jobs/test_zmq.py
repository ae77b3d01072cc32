"""Real processes that talk by ZeroMQ: who makes the others wait is found on the other side of their sockets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalana import api
from tests.attempts import attempts
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.long import also_rows
from tests.runtime import jobs

pytestmark = pytest.mark.slow
pytest.importorskip("zmq")

PROGRAM = PROGRAMS / "zmq_messages.py"


@pytest.mark.parametrize(
    ("case", "comment", "who", "waiting"),
    [
        # The process between, and the main process, which waits for that one.
        ("pipeline", "slow producer", "the produce", 2),
        *also_rows(("command", "slow producer", "rank 2", 2)),
        # The main process, and the other worker.
        ("router", "slow worker", "the slow", 2),
        *also_rows(("publish", "slow publisher", "the main process", 2)),
        *also_rows(("proxy", "slow answer", "the answer", 1)),
        ("event_loop", "slow engine", "the generate", 1),
        *also_rows(("feeder", "slow feeder", "the main process", 1)),
        # The main process and both other threads of the engine, one of them not in the first round.
        ("threads", "slow step", "the engine", 3),
    ],
)
def test_the_other_side_is_named(case: str, comment: str, who: str, waiting: int, tmp_path: Path) -> None:
    told = []
    for attempt in attempts(3):
        folder = tmp_path / str(attempt)
        done = jobs.run([sys.executable, PROGRAM, case], folder)
        assert done.returncode == 0 and done.stderr == ""
        slept, analysis = float(done.stdout), api.analyze(folder)
        assert not [note for note in analysis.ppg.run.notes if "recorded" in note]
        finding = analysis.findings[0]
        place = Path(finding.file).name, finding.line, analysis.ppg.run.names.many(finding.ranks)
        told.append((*place, finding.lost_s, finding.saving_s))
        lost = 0.7 * waiting * slept <= finding.lost_s <= 1.25 * waiting * slept + 0.3
        named = place[:2] == (PROGRAM.name, line_of(PROGRAM, comment)) and place[2].lower().startswith(who)
        if named and lost and 0.5 * slept <= finding.saving_s <= 1.2 * slept:
            return
    pytest.fail(f"{told}, and not {who} at {comment}, {waiting} times {slept} s")
