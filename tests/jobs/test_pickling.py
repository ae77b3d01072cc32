"""Pickling for other processes, in whatever thread: at the line that hands the object over, with objects and bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalana import api
from tests.attempts import attempts
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.runtime import jobs

pytestmark = pytest.mark.slow

PROGRAM = PROGRAMS / "large_arguments.py"
CALLS = 12


@pytest.mark.parametrize(
    ("case", "what", "who"),
    [
        ("pool", "arguments", "the main process"),
        ("executor", "arguments", "the main process"),
        ("queue", "message", "the filler"),
    ],
)
def test_the_line_that_hands_it_over_is_named_with_the_bytes(case: str, what: str, who: str, tmp_path: Path) -> None:
    for attempt in attempts(3):
        done = jobs.run([sys.executable, PROGRAM, case], tmp_path / str(attempt))
        assert (done.returncode, done.stderr) == (0, "")
        analysis = api.analyze(tmp_path / str(attempt))
        found = [one for one in analysis.findings if one.evidence.serialising is not None]
        if found and analysis.ppg.run.names.many(found[0].ranks).startswith(who):
            break
    finding = found[0]
    assert (Path(finding.file).name, finding.line) == (PROGRAM.name, line_of(PROGRAM, f"<- {case}"))
    assert analysis.ppg.run.names.many(finding.ranks).startswith(who)  # on a busy machine, those who unpickle as well
    known = finding.evidence.serialising
    assert known is not None and known.pickled == what
    assert CALLS <= known.pickles < 2 * CALLS  # on a busy machine, small objects take long, too
    assert known.pickle_bytes == pytest.approx(CALLS * int(done.stdout), rel=0.01)
    assert "pickling" in analysis.to_text() and finding.advice


def test_results_are_pickled_in_workers_and_unpickled_by_a_thread(tmp_path: Path) -> None:
    done = jobs.run([sys.executable, PROGRAM, "results"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    spans = api.analyze(tmp_path).ppg.spans
    rows = spans.rows("serialisation")
    names = [spans.names[number] for number in spans.table.name[rows].tolist()]
    assert names.count("pickle result") >= CALLS and names.count("unpickle result") >= CALLS
    rows = rows[[name.endswith("result") for name in names]]
    assert set(spans.line[rows].tolist()) == {line_of(PROGRAM, "<- results")}
