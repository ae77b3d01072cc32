"""Of a rank that hangs, the line is that of its main thread, or of the process or thread that this waits for; not that
of a thread which happens to be busy."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from tests.long import also
from tests.needs import torch_or_skip
from tests.runtime.jobs import PROGRAMS, forked

PROGRAM = PROGRAMS / "stuck_worker.py"


def line_with(text: str) -> int:
    """The number of the one line that ends so."""
    (number,) = (n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith(text))
    return number


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.parametrize("kind", ["loader", "pool", "threads", *also("executor", "child", "queue", "itself")])
def test_what_the_main_thread_waits_for_is_named(kind: str, tmp_path: Path) -> None:
    torch_or_skip()
    forked(2, PROGRAM.name, kind, record=tmp_path)
    report = scalana.analyze(tmp_path)
    (finding,) = (one for one in report.findings if one.kind == "hang")
    assert finding.ranks == [1]
    assert (Path(finding.file).name, finding.line, finding.function) == (
        PROGRAM.name,
        line_with("# stands here"),
        "stand",
    )
    waits_at = finding.evidence.waits_at
    if kind == "itself":
        assert waits_at is None
    else:
        articles = {"loader": "a ", "pool": "a ", "executor": "an ", "child": "a ", "queue": "a ", "threads": ""}
        assert waits_at is not None
        assert waits_at.line == line_with(f"# waits here for {articles[kind]}{kind}")
        assert "waits for its own process or thread" in finding.advice
