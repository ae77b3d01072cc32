"""Where the wall time of a job went that was started several times: what was planted in its records comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.graphs.progress.attempt_times import Attempt, ranks_to_look_at, resumed
from scalana.graphs.progress.course import Course, course, largest_loss
from scalana.graphs.progress.rank_times import CheckpointFile
from scalana.runtime.record import layout
from tests.graphs.runs import build

from .restarted import STEP_MS, Driven, Started

DAY_S = 10**9
"""What the clocks of :mod:`tests.graphs.runs` begin with."""


def planted(folder: Path, reads: bool = True) -> Course:
    """Ten steps, a checkpoint and five more, which are lost; then ten, of which the first five are repeated."""
    first = Started(folder, 1, 1000).steps(10).file("save", "/ckpt.tmp", 5, 300).steps(5)
    ended = first.end(status=1, killed=1)
    second = Started(folder, 2, ended + 2000)
    if reads:
        second.file("load", "/ckpt", 5, 200)
    second.steps(10).in_functions(("main", "evaluate", "mask"), 400).steps(1)
    ended = second.end()
    info = {"command": ["x"], "start_unix_s": DAY_S + 0.5, "seconds": ended / 1000, "exit_code": 0}
    found = build(folder, **info).run.course
    assert found is not None
    return found


def test_parts_are_those_that_were_planted(tmp_path: Path) -> None:
    found = planted(tmp_path)
    assert [(one.from_step, one.again) for one in found.resumed] == [(0, 0), (10, 5)]
    assert [(one.steps, one.failure) for one in found.attempts] == [
        (15, "rank 0: exit code 1; rank 1 killed"),
        (11, ""),
    ]
    seconds = found.parts_s()
    expected = {
        "productive": (15 + 6) * STEP_MS / 1000,
        "again": 5 * STEP_MS / 1000,
        "start_up": 0.5 + 0.5 + 0.7,
        "checkpoints": 0.3,
        "evaluation": 0.4,
        "hangs": 0.0,
        "between": 2.0,
        "end": 0.5,
    }
    assert seconds == pytest.approx(expected, abs=0.011)  # two samples
    assert sum(seconds.values()) == pytest.approx(found.seconds)
    assert largest_loss(seconds) == "between"


def test_without_a_checkpoint_that_is_read_nothing_is_claimed(tmp_path: Path) -> None:
    found = planted(tmp_path, reads=False)
    assert [one.again for one in found.resumed] == [0, None] and not found.knows_again
    assert found.parts_s()["again"] == 0.0


def test_a_hang_is_what_somebody_saw(tmp_path: Path) -> None:
    first = Started(tmp_path, 1, 1000).steps(4)
    for rank in first.ranks:
        rank.sleep("load", 5000)
    first.steps(1).end()
    layout.write_json(
        layout.hangs_file(tmp_path), {"hangs": [{"since_unix_s": DAY_S + 2.0, "until_unix_s": DAY_S + 6.5}, "torn"]}
    )
    found = build(tmp_path).run.course
    assert found is not None and found.parts_s()["hangs"] == pytest.approx(4.5)
    layout.write_text(layout.hangs_file(tmp_path), "{")
    found = build(tmp_path).run.course
    assert found is not None and found.parts_s()["hangs"] == 0.0


def attempt(start_s: float, steps: int, *files: CheckpointFile, step_s: float = 1.0) -> Attempt:
    ends = start_s + step_s * np.arange(1, steps + 1)
    last = float(ends[-1]) if steps else float("nan")
    none = np.zeros((0, 2))
    first = start_s if steps else last
    return Attempt(start_s, last if steps else start_s + 1, first, last, ends, steps, steps > 0, none, none, files, "")


def saved(end_s: float, inode: int) -> CheckpointFile:
    return CheckpointFile(False, f"/{inode}", inode, end_s - 0.1, end_s)


def loaded(end_s: float, inode: int) -> CheckpointFile:
    return CheckpointFile(True, f"/{inode}", inode, end_s - 0.1, end_s)


def test_steps_are_counted_over_several_restarts() -> None:
    attempts = [
        attempt(0, 10, saved(4.5, 1), saved(8.5, 2)),
        attempt(20, 0),  # fails before its first step
        attempt(30, 3, loaded(29, 2)),  # goes on from step 8, and comes to 11
        attempt(40, 20, loaded(39, 1)),  # goes back to step 4
    ]
    assert [(one.from_step, one.again) for one in resumed(attempts)] == [(0, 0), (None, 0), (8, 2), (4, 7)]
    unseen = [attempts[0], attempt(50, 5), attempt(60, 5, loaded(59, 2))]
    assert [one.again for one in resumed(unseen)] == [0, None, None]
    base_model = [attempts[0], attempt(50, 5, loaded(49, 77))]  # no file of this job
    assert [one.again for one in resumed(base_model)] == [0, None]


def test_the_last_hour_and_the_worst() -> None:
    attempts = [attempt(0, 3600), attempt(5400, 7200)]
    found = course(attempts)
    assert found is not None and found.parts_s()["between"] == 1800
    last, least, since_s = found.hours() or (0, 0, 0)
    assert (last, least) == (1.0, 0.5)
    assert 1800 <= since_s <= 3600
    short = course([attempt(0, 100)])
    assert short is not None and short.hours() is None
    assert course([attempt(0, 0)]) is None


def test_a_step_under_way_is_no_end() -> None:
    running = attempt(0, 10)
    begun = Attempt(**{**{name: getattr(running, name) for name in Attempt.__slots__}, "end_s": 15.0})
    ended, going_on = course([begun]), course([begun], going_on=True)
    assert ended is not None and ended.parts_s()["end"] == 5
    assert going_on is not None and going_on.parts_s()["end"] == 0


def test_of_many_ranks_some_are_looked_at() -> None:
    assert ranks_to_look_at(4) == {0, 1, 2, 3}
    some = ranks_to_look_at(1024)
    assert len(some) == 16 and {0, 1023} <= some


def test_an_actor_that_is_started_again_begins_an_attempt(tmp_path: Path) -> None:
    """The driver goes on: its steps are divided. Ten steps, a checkpoint, four that are lost, and one that waits for
    the actor; the first four of these are repeated."""
    job = Driven(tmp_path).steps(10).file("save", 5).steps(4).dies(700, 500, 5).steps(9)
    run = build(tmp_path, start_unix_s=DAY_S + 0.5, seconds=(job.end() - 500) / 1000, exit_code=0).run
    found = run.course
    assert found is not None
    assert [(one.steps, one.failure) for one in found.attempts] == [(14, "Trainer 1 ended"), (10, "")]
    assert [(one.from_step, one.again) for one in found.resumed] == [(0, 0), (10, 4)]
    seconds = found.parts_s()
    # The step under way is made again: when it began is not known, so that it counts as start-up.
    assert seconds["productive"] == pytest.approx((14 + 6) * STEP_MS / 1000, abs=0.011)
    assert seconds["again"] == pytest.approx(3 * STEP_MS / 1000, abs=0.011)
    assert seconds["start_up"] == pytest.approx(0.5 + 0.5 + STEP_MS / 1000, abs=0.011)
    assert seconds["between"] == pytest.approx(0.7, abs=0.011)
    assert any("Trainer 1 ended after" in one and "started again, as Trainer 2" in one for one in run.warnings)


def test_an_actor_may_be_started_again_in_a_process_that_was_there_before(tmp_path: Path) -> None:
    job = Driven(tmp_path).steps(10).file("save", 5).steps(4).dies(700, 500, 5, early_ms=600).steps(9)
    found = build(tmp_path, start_unix_s=DAY_S + 0.5, seconds=(job.end() - 500) / 1000, exit_code=0).run.course
    assert found is not None
    assert [(one.steps, one.failure) for one in found.attempts] == [(14, "Trainer 1 ended"), (10, "")]
    seconds = found.parts_s()
    assert seconds["between"] == pytest.approx(0, abs=0.011)
    assert seconds["start_up"] == pytest.approx(0.5 + 0.7 + 0.5 + STEP_MS / 2000, abs=0.011)


def test_a_job_that_goes_on_without_an_actor_has_one_attempt(tmp_path: Path) -> None:
    for name, early_ms in (("later", None), ("early", 600.0)):
        (tmp_path / name).mkdir()
        Driven(tmp_path / name).steps(10).dies(1500, 500, 5, waits=False, early_ms=early_ms).steps(5).end()
        found = build(tmp_path / name).run.course
        assert found is not None and [one.steps for one in found.attempts] == [35], name
