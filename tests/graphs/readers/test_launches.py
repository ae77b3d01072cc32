"""Ranks that a job starts several times."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.rank_selection import choose_records
from scalana.runtime.record.format import RecordError
from tests.graphs.runs import Rank, build, by_name

SECOND = 10**9


class Events(list[int]):
    """Numbers of calls, in order."""

    @property
    def id(self) -> Events:
        return self


@dataclass
class Process:
    """What is asked of a record here. Times in seconds."""

    rank: int
    size: int
    start: float
    end: float
    parent: int
    program: str = "app"
    host: str = "a"
    speaks: bool = True
    extra: dict[str, str] = field(default_factory=dict)
    role: str = "rank"

    @property
    def file(self) -> Path:
        return Path(f"{self.host}-{self.role}-{self.rank}-{self.start}-{self.parent}.rec")

    @property
    def meta(self) -> dict[str, str]:
        known = {"role": self.role, "host": self.host, "ppid": str(self.parent), "argv": f'["./{self.program}", "x"]'}
        times = {"start_ns": str(int(self.start * SECOND)), "unix_ns": str(int((self.start + 1000) * SECOND))}
        ranks = {"rank": str(self.rank), "world_size": str(self.size)} if self.role == "rank" else {}
        return {**known, **times, **ranks, **self.extra}

    @property
    def last_ns(self) -> int:
        return int(self.end * SECOND)

    @property
    def events(self) -> Events:
        return Events([1] if self.speaks else [])

    open: Any = ()
    first_ns: int = 0

    def number(self, key: str, default: int = -1) -> int:
        return int(self.meta.get(key, default))


def choose(*processes: Process, wanted: int | None = None) -> tuple[list[Process], list[str]]:
    chosen = choose_records(cast(Any, processes), wanted)
    return [cast(Any, rank.record) for rank in chosen.ranks], chosen.warnings


def launch(size: int, start: float, end: float, parent: int, **more: Any) -> list[Process]:
    return [Process(rank, size, start + 0.01 * rank, end, parent, **more) for rank in range(size)]


def test_of_programs_one_after_the_other_the_longest_is_taken_and_no_rank_of_another() -> None:
    first = launch(2, 0, 3, 7, program="prepare")
    second = launch(4, 4, 20, 8, program="solve")
    third = launch(3, 21, 24, 9, program="post")
    records, warnings = choose(*third, *first, *second)
    assert records == second
    assert len(warnings) == 1
    assert "1. prepare x on 2 ranks, 3.0 s, 2. solve x on 4 ranks, 16.0 s, 3. post x on 3 ranks" in warnings[0]
    assert "launch 2, the longest, is analysed" in warnings[0]
    assert choose(*third, *first, *second, wanted=3)[0] == third


def test_time_of_ranks_counts_and_whether_they_communicate() -> None:
    wide, long = launch(8, 0, 10, 7), launch(2, 11, 31, 8)
    assert choose(*wide, *long)[0] == wide
    silent = launch(8, 40, 90, 9, speaks=False)
    assert choose(*wide, *long, *silent)[0] == wide
    assert choose(*silent, *launch(8, 100, 200, 10, speaks=False))[0][0].start == 100


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_launch_that_was_not(number: int) -> None:
    with pytest.raises(RecordError, match=f"no launch {number}: the job started its ranks 2 times"):
        choose(*launch(2, 0, 3, 7), *launch(2, 4, 8, 8), wanted=number)


def test_one_launch_is_the_first() -> None:
    only = launch(2, 0, 3, 7)
    assert choose(*only, wanted=1) == (only, [])
    with pytest.raises(RecordError, match="no launch 2: the job started its ranks once"):
        choose(*only, wanted=2)


def test_hosts_and_parents_of_one_launch() -> None:
    """Ranks of other hosts have other parents, and so have those below a script of each rank's own."""
    first = [Process(rank, 4, 0.1 * rank, 9, 7 + rank // 2, host="ab"[rank // 2]) for rank in range(4)]
    second = [Process(rank, 4, 10 + 0.1 * rank, 12, 50 + rank, host="ab"[rank // 2]) for rank in range(4)]
    assert choose(*first, *second)[0] == first
    assert choose(*first, *second, wanted=2)[0] == second


def test_who_starts_a_rank_for_each_is_none() -> None:
    """A debugger has a Python inside, which is told of the rank as the program is; so is a script around each rank."""
    outer = [Process(n, 2, 0, 9, 7, "gdb", speaks=False, extra={"pid": str(10 + n)}) for n in range(2)]
    middle = [Process(n, 2, 0.1, 9, 10 + n, "wrap.py", speaks=False, extra={"pid": str(20 + n)}) for n in range(2)]
    ranks = [Process(n, 2, 1, 8, 20 + n, extra={"pid": str(30 + n)}) for n in range(2)]
    assert choose(*outer, *middle, *ranks) == (ranks, [])
    assert choose(*outer, *middle) == (middle, [])
    assert choose(*outer) == (outer, [])
    spoke = [Process(n, 2, 0, 9, 7, "first", extra={"pid": str(20 + n)}) for n in range(2)]
    assert "started ranks 2 times" in choose(*spoke, *ranks)[1][0], "what communicates is a launch of its own"


def test_two_launches_at_the_same_time() -> None:
    one, other = launch(3, 0, 10, 7), launch(3, 0.005, 12, 8)
    assert choose(*one, *other)[0] == other
    assert choose(*one, *other, wanted=1)[0] == one


def test_ranks_that_a_launcher_starts_anew_are_of_its_launch() -> None:
    failed, again = launch(2, 0, 50, 7), launch(2, 51, 60, 7)
    records, warnings = choose(*failed, *again)
    assert records == again
    assert warnings == ["ranks 0, 1 were started 2 times; the last start that communicated is analysed"]
    records, warnings = choose(*failed, again[1])
    assert records == [failed[0], again[1]]
    assert warnings == ["rank 1 was started 2 times; the last start that communicated is analysed"]


def test_programs_without_a_launcher_that_one_script_starts() -> None:
    """Started by themselves they are alone in their world, and have the script for a parent."""
    short, long = launch(1, 0, 2, 7, program="a"), launch(1, 3, 9, 7, program="b")
    records, warnings = choose(*long, *short)
    assert records == long and "2 times" in warnings[0]


def test_helpers_of_another_launch_are_not_missed() -> None:
    first, second = launch(1, 0, 3, 7), launch(1, 4, 20, 8)
    helper = Process(-1, 0, 1, 2, 70, role="child", extra={"parent_record": first[0].file.name})
    inner = Process(-2, 0, 1, 2, 71, role="child", extra={"parent_record": helper.file.name})
    own = Process(-3, 0, 5, 6, 72, role="child", extra={"parent_record": second[0].file.name})
    starters = [Process(-4 - n, 0, 0, 20, 1, role="launcher", extra={"pid": str(7 + n)}) for n in range(2)]
    starters[0].role = "process"  # as the parent of torch.multiprocessing's
    chosen = choose_records(cast(Any, [*first, *second, helper, inner, own, *starters]))
    assert chosen.ranks[0].children == [own]
    assert len(chosen.launchers) == 1 and len(chosen.warnings) == 1


def test_who_drives_the_launches_is_a_launcher() -> None:
    """A program that runs mpirun, which was not recorded, is no parent of ranks, and outlives them."""
    first, second = launch(2, 1, 3, 7), launch(2, 4, 20, 8)
    driver = Process(-1, 0, 0.5, 21, 1, role="process", extra={"pid": "5"})
    chosen = choose_records(cast(Any, [driver, *first, *second]))
    assert chosen.launchers == [driver.meta["argv"]] and len(chosen.warnings) == 1
    late = Process(-2, 0, 5, 19, 1, role="process", extra={"pid": "6"})
    assert choose_records(cast(Any, [late, *second])).warnings == ["1 recorded process belongs to no rank; left out"]


def test_seconds_are_those_of_the_launch(tmp_path: Path) -> None:
    for number, (size, ms) in enumerate(((2, 30), (3, 80))):
        for rank in range(size):
            name = f"a-{number}{rank}-0.rec"
            one = Rank(tmp_path, rank, size, {"ppid": str(number)}, start_ms=1000 * (number + 1), name=name)
            one.writer.group(1, "world", rank, list(range(size)))
            one.work("mask", ms)
            one.call("barrier", one.now + 1)
            one.end()
    (tmp_path / "run.json").write_text('{"seconds": 9.0}')
    ppg = build(tmp_path)
    assert by_name(ppg, "time_s")["mask"] == [pytest.approx(0.08)] * 3
    assert ppg.run.seconds == pytest.approx(0.081, abs=0.003) and ppg.run.ranks == 3
    assert build_ppg(RunFolder(tmp_path, 1)).run.ranks == 2
