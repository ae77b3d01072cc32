"""Real pools, queues and pipes: who makes the others wait is found on the other side of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.analysis import Analysis
from tests.attempts import attempts
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.long import also_rows
from tests.runtime import jobs

pytestmark = pytest.mark.slow

PROGRAM = PROGRAMS / "remote_calls.py"


def recorded(folder: Path, *case: str) -> tuple[Analysis, float]:
    """What is said of a case, and how long it slept at its slow line."""
    done = jobs.run([sys.executable, PROGRAM, *case], folder)
    assert done.returncode == 0 and done.stderr == ""
    return api.analyze(folder), float(done.stdout)


@pytest.mark.parametrize(
    ("case", "comment", "who", "waiting"),
    [
        # The main process, and the two other workers, which have nothing to do.
        (("executor_slow_task",), "slow task", "worker", (3, 3)),
        *also_rows((("event_loop",), "slow task", "worker", (3, 3))),
        # Two workers, which are there from the second of four rounds on.
        *also_rows((("executor_slow_driver",), "slow driver", "the main process", (1.5, 1.5))),
        # A pool ends its workers as soon as it is left: it is not known that they waited up to then.
        *also_rows((("pool_map", "forkserver"), "slow task", "worker", (1, 3))),
        (("pool_imap", "fork"), "slow task", "worker", (1, 3)),
        (("queue_loader", "spawn"), "slow loader", "the loader", (1, 1)),
        *also_rows((("full_queue", "fork"), "slow writer", "the writer", (1, 1))),
        (("pipes", "fork"), "slow environment", "env", (3, 3)),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_the_other_side_is_named(
    case: tuple[str, ...], comment: str, who: str, waiting: tuple[float, float], tmp_path: Path
) -> None:
    least, most = waiting
    for attempt in attempts(2):
        analysis, slept = recorded(tmp_path / str(attempt), *case)
        finding = analysis.findings[0]
        place = Path(finding.file).name, finding.line
        if place != (PROGRAM.name, line_of(PROGRAM, comment)):  # on a busy machine it may be where processes start
            continue
        assert analysis.ppg.run.names.many(finding.ranks).startswith(who)
        assert not [note for note in analysis.ppg.run.notes if "recorded" in note]
        assert not [warning for warning in analysis.warnings if "killed" in warning]
        if case == ("executor_slow_task",):  # no order helps where one call takes longest
            assert "smaller pieces" in finding.advice and "longest first" not in finding.advice
        lost = 0.75 * least * slept <= finding.lost_s <= 1.25 * most * slept + 0.3
        if lost and 0.6 * slept <= finding.saving_s <= 1.1 * slept:
            break
    else:
        told = f"{place}: {finding.lost_s} s are told, and {finding.saving_s} s less"
        pytest.fail(f"{told}, and not {waiting} times {slept} s, and most of that")


@pytest.mark.parametrize("case", ["executor_balanced", "threads_balanced"])
def test_a_balanced_pool_has_no_finding(case: str, tmp_path: Path) -> None:
    for attempt in attempts(2):
        analysis, _ = recorded(tmp_path / str(attempt), case)
        if not analysis.findings:
            break
    assert [(f.file, f.line, f.lost_s) for f in analysis.findings] == []


@pytest.mark.measured
@pytest.mark.parametrize(
    ("case", "mended", "kind"),
    [
        (("executor_slow_workers", "2"), ("executor_slow_workers", "0"), "slow-worker"),
        (("executor_long_last",), ("executor_long_last", "first"), "late-ranks"),
        (("threads_long_last",), ("threads_long_last", "first"), "task-tail"),
    ],
)
def test_what_a_pool_saves_is_what_comes_out(
    case: tuple[str, ...], mended: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    """Two of five workers are slow, or the last calls are long: with that mended the pool takes as predicted."""
    for attempt in attempts(3):
        analysis, before_s = recorded(tmp_path / f"{attempt}", *case)
        after_s = float(jobs.run([sys.executable, PROGRAM, *mended]).stdout)
        finding = analysis.findings[0]
        assert finding.kind == kind
        pool, tail = finding.evidence.pool, finding.evidence.tail
        saving_s = pool.longest_first_s if pool is not None else finding.saving_s
        if kind != "slow-worker":
            assert "longest first" in finding.advice
            assert tail is not None and tail.tail_last.startswith("piece(milliseconds=500) #")
            assert tail.tail_last_begin_s > 0.1
        if abs((before_s - saving_s) / after_s - 1.0) <= 0.1:
            return
    pytest.fail(f"{before_s} s, {saving_s} s less are told, came out {after_s} s")
