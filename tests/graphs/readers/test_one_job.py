"""Folders with the parts of one job are put together, those of other jobs are refused; restarts are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.rank_selection import choose_records
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record import layout
from scalana.runtime.record.format import RecordError
from scalana.runtime.record.run_writer import RunWriter

S = 1_000_000_000
DAY = 10**18


def write(folder: Path, world: str, ranks: tuple[int, ...], hosts: str = "trainer", boot: str = "") -> Path:
    """A folder with the ranks of one host: their processes are numbered alike on every host, as in containers."""
    run = RunWriter(folder, {"command": ["train"], "seconds": 5.0})
    add(run, world, ranks, hosts, boot or folder.name, DAY)
    layout.note_world(folder, world)
    return folder


def add(run: RunWriter, world: str, ranks: tuple[int, ...], host: str, boot: str, unix_ns: int, **how: int) -> None:
    """Ranks that met in a process group, and one helper each."""
    for number, rank in enumerate(ranks):
        pid = how.get("pid", 7) + 2 * number
        begin = {"start_ns": S, "unix_ns": unix_ns}
        meta = {"boot_id": boot, "world_id": world, "ppid": 3}
        with run.process(host, rank=rank, pid=pid, world_size=4, **begin, **meta) as writer:
            writer.thread(0, rank + 1)
            writer.group(1, "world", rank, range(4))
            writer.event(2, BY_NAME["allreduce"].code, 2 * S, S, group=1, seq=0, cpu_ns=-1)
            writer.end(how.get("end_s", 4) * S)


def test_folders_of_one_job_are_one_run(tmp_path: Path) -> None:
    parts = [write(tmp_path / name, "ab12", ranks) for name, ranks in (("a", (0, 1)), ("b", (2, 3)))]
    folder = RunFolder(parts[0], more=parts[1:])
    chosen = choose_records(folder.processes())
    assert [rank.rank for rank in chosen.ranks] == [0, 1, 2, 3]
    assert not chosen.missing and not chosen.warnings


def test_folders_of_other_jobs_are_refused(tmp_path: Path) -> None:
    first, other = write(tmp_path / "a", "ab12", (0, 1)), write(tmp_path / "b", "cd34", (2, 3))
    with pytest.raises(RecordError, match="another job") as failure:
        RunFolder(first, more=[other])
    assert str(other) in str(failure.value)
    unknown = tmp_path / "c"
    RunWriter(unknown, {"command": ["train"]})
    with pytest.raises(RecordError, match="nothing shows"):
        RunFolder(first, more=[unknown])


def test_what_came_over_the_network_is_of_the_run(tmp_path: Path) -> None:
    head = write(tmp_path / "a", "ab12", (0, 1))
    write(Path(layout.start_folder(head, "1")), "ab12", (2, 3))
    Path(layout.start_file(head, "1")).write_text("{}")
    assert len(choose_records(RunFolder(head).processes()).ranks) == 4


def test_attempts_on_hosts_whose_time_of_day_differs(tmp_path: Path) -> None:
    run = RunWriter(tmp_path / "run", {"command": ["train"], "seconds": 9.0})
    for host, late_s in (("a", 0), ("b", 60)):
        ranks = (0, 1) if host == "a" else (2, 3)
        for attempt, world in enumerate(("one", "two")):
            start = DAY + (late_s + 3 * attempt) * S
            add(run, world, ranks, host, host, start, pid=10 + 10 * attempt, end_s=3 + 3 * (1 - attempt))
    chosen = choose_records(RunFolder(tmp_path / "run").processes())
    assert not chosen.missing
    assert {rank.record.meta["world_id"] for rank in chosen.ranks} == {"one"}
    assert any(line.startswith("attempt 2 of 2") for line in chosen.warnings)
    assert not any("started ranks" in line for line in chosen.warnings)
