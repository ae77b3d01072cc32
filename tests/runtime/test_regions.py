"""Marks that a program sets in its own record."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.runtime.profile import profile
from scalana.runtime.record.format import REGION, STEP, ProcessRecord
from tests.needs import torch_or_skip

from . import jobs


def spans(record: ProcessRecord, kind: int) -> list[tuple[str, int, int, int]]:
    """Name (of a step: number), start, duration and CPU time (ns) of the spans of a type, in order of their starts."""
    rows = record.spans
    columns = (rows.type, rows.name, rows.step, rows.start_ns, rows.duration_ns, rows.cpu_ns)
    found = [
        (str(step) if kind == STEP else record.names[name], start, duration, cpu)
        for type, name, step, start, duration, cpu in zip(*columns, strict=True)
        if type == kind
    ]
    return sorted(found, key=lambda row: (row[1], -row[2]))


MARKS = """
import asyncio, time
import scalana
from scalana import region, step

@region("decorated")
def work(x):
    "Docstring."
    return x + 1

@region("coroutine")
async def later():
    await asyncio.sleep(0.02)
    return 5

assert work.__name__ == "work" and work.__doc__ == "Docstring." and work(1) == 2
assert asyncio.run(later()) == 5
for number in range(3):
    with region("outer"):
        with region("inner"):
            time.sleep(0.02)
        sum(range(200000))
    step()
again = region("again")
with again:
    with again:
        pass
try:
    with region("fails"):
        raise KeyError("passes through")
except KeyError as error:
    print(error)
"""


def test_regions_and_steps_are_recorded_with_two_clocks(tmp_path: Path) -> None:
    done = jobs.python(MARKS, tmp_path, extra={"PYTHONPATH": str(jobs.ROOT)})
    assert done.returncode == 0 and done.stdout == "'passes through'\n", done.stderr
    (record,) = jobs.records(tmp_path)
    found = spans(record, REGION)
    names = [name for name, *_ in found]
    assert names == ["decorated", "coroutine", *["outer", "inner"] * 3, "again", "again", "fails"]
    for name, _, duration, cpu in found:
        assert 0 <= cpu <= duration + 1_000_000 or (name, cpu) == ("coroutine", -1), "its thread runs others meanwhile"
        if name == "inner":
            assert duration >= 20_000_000 > cpu
    steps = spans(record, STEP)
    # The first mark of all ends a step, number 0, whose beginning nobody knows.
    assert [name for name, *_ in steps] == ["1", "2"]
    assert steps[0][1] + steps[0][2] == steps[1][1]


def test_marks_cost_nothing_and_say_nothing_where_nothing_records(tmp_path: Path) -> None:
    done = jobs.python(MARKS, extra={"PYTHONPATH": str(jobs.ROOT)}, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "'passes through'\n", done.stderr
    assert list(tmp_path.iterdir()) == []


PROFILE = """
import os, sys, time
import scalana
before = dict(os.environ)
for folder in sys.argv[1:]:
    with scalana.profile(folder, rate_hz=500):
        time.sleep(0.05)
        scalana.step()
        with scalana.region("mine"):
            pass
    with scalana.region("after"):
        pass
assert dict(os.environ) == before
"""


def test_profile_records_from_inside_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROFILE)
    extra = {"PYTHONPATH": str(jobs.ROOT), "RANK": "1", "WORLD_SIZE": "2"}
    done = jobs.run([jobs.sys.executable, program, "one", "two"], extra=extra, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for folder in ("one", "two"):
        (record,) = jobs.records(tmp_path / folder)
        assert record.role == "rank" and record.rank == 1 and record.ended and record.status == 0
        assert record.meta["rate_hz"] == "500"
        assert [name for name, *_ in spans(record, REGION)] == ["profile", "mine"]
        assert [name for name, *_ in spans(record, STEP)] == ["0"]


def test_profile_inside_a_recording_is_a_region_of_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROFILE)
    done = jobs.run(
        [jobs.sys.executable, program, "unused"], tmp_path / "run", extra={"PYTHONPATH": str(jobs.ROOT)}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (record,) = jobs.records(tmp_path / "run")
    assert [name for name, *_ in spans(record, REGION)] == ["profile", "mine", "after"]
    assert not (tmp_path / "unused").exists()


def test_profile_says_when_the_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError), profile(tmp_path / "file"):
        pass


@pytest.mark.slow
def test_profile_in_the_midst_of_a_torch_job_sees_its_communication(tmp_path: Path) -> None:
    torch_or_skip()
    done = jobs.forked(2, "profiled_part.py", tmp_path / "run", extra={"PYTHONPATH": str(jobs.ROOT)})
    assert done.returncode == 0, done.stderr
    for record in jobs.ranks(tmp_path / "run"):
        assert record.meta["world_size"] == "2"
        assert [call.nbytes for call in jobs.calls(record) if call.operation == "allreduce"] == [8, 12]
        assert len(spans(record, STEP)) == 2


@pytest.mark.slow
def test_optimizers_mark_steps_by_themselves(tmp_path: Path) -> None:
    torch_or_skip()
    code = """
import torch
weight = torch.nn.Parameter(torch.ones(2))
first, second = torch.optim.SGD([weight], lr=0.1), torch.optim.SGD([weight], lr=0.1)
for _ in range(4):
    weight.sum().backward()
    first.step()
    second.step()
"""
    assert jobs.with_torch("-c", code, record=tmp_path).returncode == 0
    (record,) = jobs.records(tmp_path)
    assert [name for name, *_ in spans(record, STEP)] == ["1", "2", "3"]


@pytest.mark.slow
def test_each_recording_has_the_steps_of_its_own_first_optimizer(tmp_path: Path) -> None:
    torch_or_skip()
    code = """
import scalana, torch
for folder in ("one", "two"):
    with scalana.profile(folder):
        weight = torch.nn.Parameter(torch.ones(2))
        first, second = (torch.optim.SGD([weight], lr=0.1) for _ in range(2))
        for _ in range(3):
            weight.sum().backward()
            first.step()
            second.step()
        if folder == "one":
            kept = first  # so that no later one has its identity
"""
    assert jobs.with_torch("-c", code, extra={"PYTHONPATH": str(jobs.ROOT)}, cwd=tmp_path).returncode == 0
    for folder in ("one", "two"):
        (record,) = jobs.records(tmp_path / folder)
        assert [name for name, *_ in spans(record, STEP)] == ["0", "1", "2"]
