"""A run that goes on: its report, and what ``scalana watch`` shows of it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scalana.live.draw import Shown, lines
from scalana.live.look import Looker
from scalana.live.stacks import alike
from scalana.report.text.paint import Paint
from tests.scalana.command import command
from tests.scalana.live.growing import GrowingRun
from tests.scalana.recorded import PREPARE_LINE, REDUCE_LINE

SO_FAR = "the run is still going on; this is what it has recorded until"


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    """With 20 of its 40 steps."""
    made = GrowingRun(tmp_path)
    made.grow(20, torn=9)
    return made


def test_report_of_a_run_that_goes_on(run: GrowingRun) -> None:
    done = command("report", run.folder)
    assert done.returncode == 0
    assert SO_FAR in done.stdout.splitlines()[2]
    assert f"job.py:{PREPARE_LINE}" in done.stdout
    assert "has no end" not in done.stdout and "torn" not in done.stdout
    assert json.loads(command("report", "--format", "json", run.folder).stdout)["run"]["going_on"] is True


def test_report_of_one_that_has_ended_or_was_killed(run: GrowingRun) -> None:
    for file in (run.folder / "records").iterdir():
        os.utime(file, (0, 0))  # nobody writes to it
    killed = command("report", run.folder).stdout
    assert SO_FAR not in killed and "has no end" in killed and "torn" in killed
    run.end()
    assert SO_FAR not in command("report", run.folder).stdout
    assert "going_on" not in json.loads(command("report", "--format", "json", run.folder).stdout)["run"]


def test_a_picture_as_json(run: GrowingRun) -> None:
    found = json.loads(command("watch", "--json", run.folder).stdout)
    assert found["schema"] == "scalana.watch/1"
    assert (found["run"]["ranks"], found["run"]["going_on"], found["run"]["exit_code"]) == (2, True, None)
    [cause] = found["causes"]
    assert (cause["root"]["file"], cause["root"]["line"], cause["ranks"]) == ("job.py", PREPARE_LINE, [1])
    assert cause["lost_share"] > 0.9
    assert abs(sum(found["last_steps"]["shares"].values()) - 1) < 0.01
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]


def test_a_picture_on_a_narrow_terminal(run: GrowingRun) -> None:
    with Looker(str(run.folder), 20) as looker:
        view = looker.look()
        for width, height in ((80, 24), (60, 12), (100, 0)):
            drawn = lines(view, width, height, Paint(False), Shown())
            assert all(len(line) <= width for line in drawn)
    text = "\n".join(drawn)
    assert f"job.py:{PREPARE_LINE}" in text and "rank 1" in text


def test_looks_follow_the_run(run: GrowingRun) -> None:
    with Looker(str(run.folder), 10) as looker:
        windows = []
        for blocks in (10, 20, 40):
            run.grow(blocks)
            analysed = looker.look().analysed
            assert analysed is not None and [cause.line for cause in analysed.causes] == [PREPARE_LINE]
            windows.append((analysed.steps, analysed.first_step))
        assert windows[-1] == (10, None)  # nobody marks its steps: they have no numbers
        kept = looker.look(analyse=False)
        assert kept.analysed == analysed
        run.end()
        over = looker.look()
    assert (over.going_on, over.exit_code) == (False, 0)
    assert {rank.state for rank in over.moment.ranks} == {"ended"}
    assert "ended with exit code 0" in "\n".join(lines(over, 80, 24, Paint(False), Shown()))


def test_ranks_in_the_same_place_share_a_line(run: GrowingRun) -> None:
    with Looker(str(run.folder), 10) as looker:
        ranks = looker.look().moment.ranks
    several = [*ranks, *(rank for rank in ranks[:1] for _ in range(3))]
    assert [len(group) for group in alike(several)] in ([1, 4], [5])
    assert {rank.stack.place[1] for rank in ranks} <= {PREPARE_LINE, REDUCE_LINE}


def test_what_cannot_be_watched(tmp_path: Path) -> None:
    done = command("watch", "--once", tmp_path / "nowhere")
    assert done.returncode == 1 and "nowhere" in done.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    done = command("watch", "--once", empty)
    assert done.returncode == 1 and "contains no records" in done.stderr
    assert command("watch", "--every", "0", empty).returncode == 2
    assert command("watch", "--last", "none", empty).returncode == 2


def test_keys(run: GrowingRun) -> None:
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "scalana", "watch", str(run.folder)]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    watching = subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    seen = _read_until(ours, b"job.py")
    for key, answer in ((b" ", b"paused"), (b"r", b"rank 0"), (b"s", b"q quit")):
        os.write(ours, key)
        seen = _read_until(ours, answer)
        assert answer in seen
    os.write(ours, b"q")
    _read_until(ours, b"never said")  # to the end
    assert watching.wait(60) == 0
    os.close(ours)


def _read_until(terminal: int, awaited: bytes) -> bytes:
    seen, until = b"", time.monotonic() + 120
    while awaited not in seen and time.monotonic() < until:
        try:
            if select.select([terminal], [], [], 1.0)[0]:
                seen += os.read(terminal, 65536)
        except OSError:  # its other end is closed
            break
    return seen
