"""Jobs that were started without scalana, looked at from outside. Only processes of the test itself are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalana.attach import spy
from scalana.attach.comparison import compared
from scalana.attach.processes import Process, sorted_out
from scalana.attach.stacks import own_frame
from scalana.errors import CommandError
from tests.scalana.command import command

JOB = """
import sys, time
def early(): time.sleep(300)
def late(): time.sleep(300)
print("up", flush=True)
late() if sys.argv[1] == "2" else early()
"""
FAKE = """#!{python}
import json, sys
words = sys.argv[1:]
pid = int(words[words.index("--pid") + 1])
if {denied}:
    sys.exit("Error: Permission denied (os error 13)")
line = 4 if pid == {slow} else 3
frames = [("sleep", "/usr/lib/python3.11/time.py", 1), ("late" if line == 4 else "early", "/job/train.py", line)]
if words[0] == "dump":
    frames = [dict(name=name, filename=file, line=at) for name, file, at in frames]
    print(json.dumps([dict(os_thread_id=pid, thread_name="MainThread", active=False, frames=frames)]))
else:
    path = ";".join(f"{{name}} ({{file}}:{{at}})" for name, file, at in reversed(frames))
    text = f"thread ({{pid}}): MainThread;{{path}} 80\\nthread (1): other;run (/job/train.py:9) 100\\n"
    text += f"thread ({{pid}}): MainThread;main (/job/train.py:7) 20\\n"
    open(words[words.index("--output") + 1], "w").write(text)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[list[int]]:
    """Three ranks that sleep, the last of them in another line."""
    program = tmp_path / "train.py"
    program.write_text(JOB)
    ranks = []
    for rank in "012":
        given = {"RANK": rank, "WORLD_SIZE": "3", "LOCAL_RANK": rank}
        words = [sys.executable, str(program), rank]
        ranks.append(subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **given}, cwd=tmp_path))
    try:
        for one in ranks:
            assert one.stdout is not None and one.stdout.readline() == b"up\n"
        yield [one.pid for one in ranks]
    finally:
        for one in ranks:
            one.kill()
            one.communicate()


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, slow: int, denied: str = "False") -> None:
    """Have a program in place of py-spy that knows what it is to print; ``slow`` is in another line."""
    file = folder / "py-spy"
    file.write_text(FAKE.format(python=sys.executable, slow=slow, denied=denied))
    file.chmod(0o755)
    monkeypatch.setattr(spy, "program", lambda: str(file))


def test_ranks_are_grouped_and_compared(job: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, job[2])
    done = command("attach", "--seconds", "1", *job)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 ranks at ")
    assert done.stdout.index("  rank 2: ") < done.stdout.index("  ranks 0, 1: ")
    assert "rank 2 0 %, the others 80 %" in done.stdout and "rank 2 80 %, the others 0 %" in done.stdout
    assert "all 3 ranks 20 %" in done.stdout


def test_the_same_as_data(job: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, job[2])
    found = json.loads(command("attach", "--json", "--seconds", "1", *job).stdout)
    assert found["schema"] == "scalana.attach/1"
    assert [(one["rank"], one["pid"], one["stack"][0]["line"]) for one in found["processes"]] == [
        (0, job[0], 3), (1, job[1], 3), (2, job[2], 4),
    ]  # fmt: skip
    assert [(one["line"], one["different"]) for one in found["lines"]] == [(3, [2]), (4, [2]), (7, [])]
    assert found["lines"][0]["shares"] == {"0": 0.8, "1": 0.8, "2": 0.0}


def test_processes_that_cannot_be_read(job: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, 0, "True")
    done = command("attach", *job)
    assert done.returncode == 1 and "ptrace_scope" in done.stderr and "SYS_PTRACE" in done.stderr
    fake(tmp_path, monkeypatch, 0, f"pid == {job[1]}")
    some = command("attach", *job)
    assert some.returncode == 0 and some.stdout.startswith("2 ranks") and f"process {job[1]}: " in some.stderr


def test_what_cannot_be_attached_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    fake(tmp_path, monkeypatch, 0)
    done = command("attach", ended.pid)
    assert done.returncode == 1 and f"{ended.pid}: no such process" in done.stderr
    assert command("attach", "--seconds", "0", ended.pid).returncode == 2
    monkeypatch.undo()
    monkeypatch.setattr(spy.shutil, "which", lambda name: None)
    monkeypatch.setattr(spy.sys, "executable", str(tmp_path / "bin" / "python"))
    with pytest.raises(CommandError, match=r"scalana\[attach\]"):
        spy.program()


def test_py_spy_itself(job: list[int]) -> None:
    try:
        program = spy.program()
        look = spy.look(program, job[2])
    except (CommandError, spy.SpyError) as error:
        pytest.skip(str(error))
    assert [name for _, _, name in look.path] == ["<module>", "late"] and look.tid == job[2]
    paths = spy.sampled(program, job[0], 1, 20)
    assert {path[-1][2] for path in paths} == {"early"} and sum(paths.values()) > 0


def process(pid: int, parent: int, *given: str) -> Process:
    return Process(pid, parent, given, "/job")


@pytest.mark.parametrize("pid", ["1", "own"])
def test_what_holds_more_than_a_job_is_not_read(pid: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first process of a machine, and whatever else has started the command: nothing there is stopped."""
    fake(tmp_path, monkeypatch, 0)
    done = command("attach", "1" if pid == "1" else os.getpid())
    assert done.returncode == 1 and "this command runs below that process" in done.stderr


def test_helpers_and_launchers_are_no_ranks() -> None:
    """Slurm starts a launcher, that starts ranks, and one of these starts workers of its loader."""
    launcher = process(1, 0, "SLURM_PROCID", "0", "1", "0")
    ranks = [process(10 + rank, 1, "RANK", str(rank), "2", str(rank)) for rank in (1, 0)]
    worker, inner = process(20, 10, *ranks[1].given), process(21, 20, *ranks[1].given)
    job = sorted_out([launcher, *ranks, worker, inner])
    assert [one.pid for one in job.ranks] == [10, 11] and job.launchers == (launcher,)
    assert [(owner.pid, one.pid) for owner, one in job.helpers] == [(10, 20), (10, 21)]


def test_a_program_without_ranks() -> None:
    job = sorted_out([process(5, 1), process(6, 5), process(7, 6), process(8, 1)])
    assert [one.pid for one in job.ranks] == [5, 8] and not job.launchers
    assert [(owner.pid, one.pid) for owner, one in job.helpers] == [(5, 6), (5, 7)]


def test_lines_in_which_ranks_differ_come_first() -> None:
    work, wait, rest = (("/job/a.py", line, "f") for line in (1, 2, 3))
    library = ("/x/lib/python3.12/site-packages/torch/nn.py", 9, "forward")
    usual = {(work, library): 30, (wait,): 60, (rest,): 10}
    rows = compared({0: usual, 1: usual, 2: {(work,): 85, (wait,): 5, (rest,): 10}, 3: usual})
    assert [(row.place[1], row.different()) for row in rows] == [(1, [2]), (2, [2]), (3, [])]
    assert own_frame((work, library)) == 0 and own_frame((library,)) == -1
    assert compared({}) == []
