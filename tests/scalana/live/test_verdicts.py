"""The verdict on a run that goes on: given once, and again where it changes for good."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.when.rank_work import RankWork
from scalana.live import follow
from scalana.live.step_history import RankHistory, StepHistory
from scalana.live.verdicts import Verdicts
from scalana.live.view import Analysed, Cause
from tests.scalana.live.growing import GrowingRun
from tests.scalana.recorded import PREPARE_LINE


def analysed(step_s: float = 0.1, line: int = 0, waiting: float = 0.5, last: int = 20, share: float = 0.9) -> Analysed:
    """The last 20 steps, with one cause in a line, or none."""
    cause = Cause("late-ranks", "", "train.py", line, f"f{line}", (2,), "rank 2", share, 0.3, 1, 0.0, False)
    parts = (("work", 1 - waiting), ("waiting", waiting))
    return Analysed(last - 19, last, step_s, parts, (cause,) if line else ())


def test_the_first_verdict() -> None:
    assert (
        Verdicts()
        .take(analysed(line=7), 0.0)
        .endswith(
            ": 100 ms a step, train.py:7 f7 on rank 2 makes the others wait 45 % of the time, 30 % shorter without it"
        )
    )
    quiet = Verdicts().take(analysed(waiting=0.02), 0.0)
    assert quiet.startswith("step 20, ") and "nothing stands out (ranks wait for each other 2.0 % of the time)" in quiet


def test_what_is_new_has_to_last() -> None:
    verdicts = Verdicts()
    assert verdicts.take(analysed(), 0.0)
    assert not verdicts.take(analysed(line=7), 0.0)
    assert not verdicts.take(analysed(), 0.0)  # it was one bad stretch
    assert not verdicts.take(analysed(line=7), 0.0)
    assert ": a new cause: 100 ms a step, train.py:7 f7" in verdicts.take(analysed(line=7), 0.0)
    assert not verdicts.take(analysed(line=7), 0.0)
    assert not verdicts.take(analysed(), 0.0)
    assert "the cause is gone" in verdicts.take(analysed(), 0.0)


def test_steps_that_become_slower() -> None:
    verdicts = Verdicts()
    verdicts.take(analysed(), 0.0)
    assert not verdicts.take(analysed(step_s=0.105), 0.0)
    assert not verdicts.take(analysed(step_s=0.15), 0.0)
    assert "steps take 1.5 times as long as at first" in verdicts.take(analysed(step_s=0.15), 0.0)
    assert not verdicts.take(analysed(step_s=0.2), 0.0)
    assert not verdicts.take(analysed(step_s=0.1), 0.0)
    assert "as short as at first again" in verdicts.take(analysed(step_s=0.1), 0.0)


def history_of(step_s: Sequence[float], every: int = 1) -> StepHistory:
    """Steps of these lengths; only each so manieth look saw any."""
    history, numbers = StepHistory(), range(len(step_s))
    for first in range(0, len(step_s), 20 * every):
        seen = {number: step_s[number] for number in numbers[first : first + 20]}
        history.add(seen, 1000.0 + sum(step_s[: first + len(seen)]))
    return history


def at(unix_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def test_steps_are_slower_since_a_step() -> None:
    """Also where it was between two looks."""
    slower = [*[0.1] * 100, *[0.15] * 40]
    assert history_of(slower).slower_since() == f"since step 100 ({at(1010.0)})"
    assert history_of([0.1] * 140).slower_since() == ""
    assert history_of(slower, every=3).slower_since() == f"since step 80 to 120 ({at(1013.0)})"
    assert history_of([0.1 + 0.001 * n for n in range(140)]).slower_since() == "more from step to step"


def test_a_verdict_says_since_when_steps_are_slower() -> None:
    verdicts, history = Verdicts(), history_of([*[0.1] * 100, *[0.15] * 40])
    verdicts.take(analysed(), 0.0, history)
    verdicts.take(analysed(step_s=0.15), 0.0, history)
    line = verdicts.take(analysed(step_s=0.15), 0.0, history)
    assert "steps take 1.5 times as long as at first, since step 100 (" in line


def test_small_causes_are_not_worth_a_line() -> None:
    verdicts = Verdicts()
    verdicts.take(analysed(), 0.0)
    assert not any(verdicts.take(analysed(line=7, waiting=0.04), 0.0) for _ in range(5))


def test_a_job_without_marked_steps_has_verdicts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps are those that communication shows; they have no numbers."""
    run, said = GrowingRun(tmp_path), []
    run.grow(40)
    monkeypatch.setattr(follow, "_UNMARKED_AFTER_S", 0.0)
    verdicts = follow._VerdictTimes(str(run.folder), follow.Orders(verdict_after=10), said.append)
    try:
        verdicts.look()
        verdicts.look()  # too early
    finally:
        verdicts.close()
    [line] = said
    assert f"job.py:{PREPARE_LINE} prepare on rank 1 makes the others wait" in line and not line.startswith("step")


def test_a_verdict_says_since_which_step_a_cause_costs_more() -> None:
    verdict, seen = analysed(line=7), time.localtime(3600.0)
    begun = replace(verdict.causes[0], since_step=12, since_unix_s=3600.0, begins=True)
    line = Verdicts().take(replace(verdict, causes=(begun,)), 0.0)
    assert f"makes the others wait 45 % of the time, since step 12 ({time.strftime('%H:%M:%S', seen)}), 30 %" in line


def test_a_verdict_on_a_rank_that_is_slow_as_a_whole_names_no_line() -> None:
    verdict, verdicts = analysed(line=7), Verdicts()
    whole = replace(verdict.causes[0], kind="slow-rank", what="Rank 2 is slow, from step 12 on.", is_whole=True)
    line = verdicts.take(replace(verdict, causes=(whole,)), 0.0)
    assert ": 100 ms a step, rank 2 is slow, from step 12 on: the others wait 45 % of the time" in line
    for line in (8, 9):  # where most of it shows is chance
        assert not verdicts.take(replace(verdict, causes=(replace(whole, file="a.py", line=line),)), 0.0)


def work_of(first: int, longer: float, ranks: int = 4, count: int = 20) -> RankWork:
    """Some steps in which rank 2 works longer."""
    number = np.arange(first, first + count)
    work_s = 0.1 + 0.001 * np.random.default_rng(first).random((count, ranks))
    work_s[:, 2] *= longer
    return RankWork(number, work_s, np.zeros((count, ranks)))


def test_earlier_looks_show_since_when_a_rank_is_slow() -> None:
    history = RankHistory()
    assert history.since([2]) is None
    for first, longer in ((0, 1.0), (20, 1.0), (40, 1.5), (55, 1.5)):  # looks overlap
        history.work = work_of(first, longer).after(history.work)
    assert history.work is not None and history.work.number.tolist() == list(range(75))
    assert history.since([2]) == 40 and history.since([1]) is None and history.since([1, 2]) is None
    assert history.work.last(30).number.tolist() == list(range(45, 75))
    assert len(work_of(80, 1.0, ranks=3).after(history.work)) == 20  # those of another job
