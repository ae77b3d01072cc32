"""Processes that talk to each other by requests take part in a run; one that asks somebody else does not by that."""

from __future__ import annotations

from pathlib import Path

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.rank_selection import RankRecords, choose_records
from scalana.runtime.record.format import EVENT_POST
from tests.graphs.runs import Rank

JOB = {"world_size": None}


def process(folder: Path, number: int, asks: str, **meta: str) -> Rank:
    return Rank(folder, number, 1, role="process", meta={**JOB, "asks": asks, **meta})


def ask(rank: Rank, *ids: int) -> None:
    for call in ids:
        rank.call("submit", rank.now, "send", group=0, seq=call, flags=EVENT_POST)
    rank.work("step", 5.0)
    rank.end()


def answer(rank: Rank, *ids: int) -> None:
    for call in ids:
        rank.call("take", rank.now, "recv", group=0, seq=call)
    rank.work("step", 5.0)
    rank.end()


def chosen(folder: Path) -> RankRecords:
    return choose_records(RunFolder(folder).processes())


def roles(found: RankRecords) -> list[str]:
    return [found.names.role_of(rank.rank) for rank in found.ranks]


def test_a_client_and_its_server_are_told_apart(tmp_path: Path) -> None:
    ask(process(tmp_path, 0, "main process"), 1, 2)
    answer(process(tmp_path, 1, "server"), 1, 2)
    ask(process(tmp_path, 2, "main process"), 77)  # somebody else's server
    assert sorted(roles(chosen(tmp_path))) == ["main process", "server"]


def test_who_asks_somebody_else_stays_a_helper_of_its_rank(tmp_path: Path) -> None:
    rank = Rank(tmp_path, 0, 1)
    ask(rank, 5)
    ask(process(tmp_path, 1, "worker", parent_record=rank.file.name), 77)
    found = chosen(tmp_path)
    assert [len(entry.children) for entry in found.ranks] == [1]


def test_a_helper_that_its_rank_asks_is_a_server(tmp_path: Path) -> None:
    rank = Rank(tmp_path, 0, 1, meta={"asks": "main process"})
    ask(rank, 5)
    answer(process(tmp_path, 1, "server", parent_record=rank.file.name), 5)
    found = chosen(tmp_path)
    assert sorted(roles(found)) == ["rank", "server"]
    assert [len(entry.children) for entry in found.ranks] == [0, 0]


def test_a_process_that_asks_itself_is_a_plain_program(tmp_path: Path) -> None:
    alone = process(tmp_path, 0, "main process")
    alone.call("take", alone.now, "recv", group=0, seq=1)
    ask(alone, 1)
    assert roles(chosen(tmp_path)) == ["rank"]
