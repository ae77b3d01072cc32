"""Runs of several worlds: which process is what, what it is called, and communicators that join worlds."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana import api
from scalana.graphs.readers.columns import blocks
from scalana.graphs.readers.columns.gather import gather, on_one_axis
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.main_thread import main_thread
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.readers.processes.rank_selection import RankRecords, choose_records
from scalana.runtime.record.run_writer import RunWriter
from tests.graphs.runs import Rank, build
from tests.tools import call_run

MS = 1_000_000


def world(folder: Path, part: str, size: int, parent: int, **meta: str) -> list[Rank]:
    """Ranks of one launcher in a communicator ``world`` of their own."""
    told = {"part": part, "part_source": "torchrun"} if part else {}
    ranks = [
        Rank(
            folder,
            rank,
            size,
            meta={**told, "ppid": str(parent), "pid": str(10 * parent + rank), **meta},
            name=f"host-{10 * parent + rank}-0.rec",
        )
        for rank in range(size)
    ]
    for rank in ranks:
        rank.writer.group(1, "world", rank.rank, range(size))
    return ranks


def member(folder: Path, part: str, pid: int, start_ms: float = 1000.0, **told: str) -> Rank:
    """A process without a rank that has a role."""
    meta = {"part": part, "part_source": "recorder", "pid": str(pid), "ppid": "1", "world_size": None, **told}
    return Rank(folder, 0, 1, meta=meta, name=f"host-{pid}-0.rec", role="member", start_ms=start_ms)


def choose(folder: Path, launch: int | None = None) -> RankRecords:
    return choose_records(RunFolder(folder).processes(), launch)


def called(chosen: RankRecords) -> list[str]:
    return [chosen.names.one(process) for process in range(chosen.world_size)]


def two_worlds(folder: Path) -> None:
    """Trainers wait for each other, then all of them and the rollouts in a group that joins both worlds; rollout 1
    generates longest."""
    trainers, rollouts = world(folder, "trainer", 2, 7), world(folder, "rollout", 2, 8)
    for place, rank in enumerate([*trainers, *rollouts]):
        # Each knows its place, and takes the numbers for ranks.
        rank.writer.group(2, "weights", place, range(4))
    for step in range(6):
        for rank in trainers:
            rank.work("step", 20)
            rank.call("allreduce", rank.now + 2, seq=step)
        for rank in rollouts:
            rank.work("load", 20 + (60 if rank.rank == 1 else 0))
            rank.call("barrier", 1000 + 90 * step + 82, "gather", seq=step)
        for rank in [*trainers, *rollouts]:
            rank.call("broadcast", 1000 + 90 * (step + 1), "wait", group=2, seq=step, peer=3)
    for rank in [*trainers, *rollouts]:
        rank.end()


def test_members_that_are_not_counted_from_0(tmp_path: Path) -> None:
    """Two of one number are two processes, but for one that was started again."""
    for pid, (rank, made) in enumerate((("0", "6"), ("1", "7"), ("1", "8"), ("0", "9"), ("0", "6")), 100):
        member(tmp_path, "EnvRunner", pid, part_rank=rank, made_as=made, part_first="1").end()
    member(tmp_path, "driver", 200).end()
    assert called(choose(tmp_path)) == ["EnvRunner 1", "EnvRunner 2", "EnvRunner 3", "EnvRunner 4", "the driver"]


def test_launchers_side_by_side_are_worlds(tmp_path: Path) -> None:
    two_worlds(tmp_path)
    chosen = choose(tmp_path)
    assert called(chosen) == ["rollout 0", "rollout 1", "trainer 0", "trainer 1"]
    assert [(w.role, w.first, w.size) for w in chosen.worlds] == [("rollout", 0, 2), ("trainer", 2, 2)]
    assert (chosen.warnings, chosen.missing) == ([], [])


def test_communicators_of_worlds_and_one_that_joins_them(tmp_path: Path) -> None:
    two_worlds(tmp_path)
    data = gather(choose(tmp_path))
    used = {data.communicators[row] for row in np.unique(data.events.communicator).tolist()}
    assert {(each.name, each.ranks) for each in used} == {
        ("world", (0, 1)),
        ("world", (2, 3)),
        ("weights", (2, 3, 0, 1)),
    }
    joined = [row for row, each in enumerate(data.communicators) if each.ranks == (2, 3, 0, 1)]
    roots = data.events.peer[np.isin(data.events.communicator, joined)]
    assert set(roots.tolist()) == {1}, "place 3 is rollout 1"
    ppg = build(tmp_path)
    assert len(ppg.timeline.instances) == 18 and ppg.timeline.instances.complete.all()


def test_findings_name_roles(tmp_path: Path) -> None:
    two_worlds(tmp_path)
    report = api.analyze(tmp_path)
    document = json.loads(report.to_json())
    assert document["run"]["processes"] == ["rollout 0", "rollout 1", "trainer 0", "trainer 1"]
    first = document["findings"][0]
    assert (first["ranks"], first["processes"], first["root"]["function"]) == ([1], ["rollout 1"], "load")
    # 60 ms a step: of rollout 0 in the barrier, of both trainers in the broadcast.
    assert first["lost_s"] == pytest.approx(6 * 3 * 0.060, rel=0.1)
    text = report.to_text()
    assert "4 processes (2 rollout, 2 trainer)" in text
    assert "Rollout 1 spends" in text
    assert "rank 1" not in text and "ranks 0" not in text
    assert "rollout 1" in json.dumps(json.loads(report.to_sarif()))


def test_one_world_is_as_ever(tmp_path: Path) -> None:
    for rank in world(tmp_path, "trainer", 2, 7):
        rank.call("barrier", rank.now + 5, seq=0)
        rank.end()
    document = json.loads(api.analyze(tmp_path).to_json())
    assert "worlds" not in document["run"] and "process" not in document["communication"][0]
    assert called(choose(tmp_path)) == ["rank 0", "rank 1"]


def test_roles_of_one_world_keep_their_ranks(tmp_path: Path) -> None:
    ranks = world(tmp_path, "trainer", 4, 7)
    for rank in ranks[2:]:
        rank.writer.meta("part", "rollout")
    for rank in ranks:
        rank.end()
    assert called(choose(tmp_path)) == ["trainer 0", "trainer 1", "rollout 2", "rollout 3"]


def test_one_parent_that_starts_two_groups(tmp_path: Path) -> None:
    """A script that hands each process its rank, and every group counts from 0."""
    for part, first in (("rollout", 0), ("trainer", 2)):
        for rank in range(2):
            pid = str(50 + first + rank)
            meta = {"part": part, "ppid": "7", "pid": pid}
            Rank(tmp_path, rank, 2, meta=meta, name=f"host-{pid}-0.rec", start_ms=1000 + rank).end()
    chosen = choose(tmp_path)
    assert called(chosen) == ["rollout 0", "rollout 1", "trainer 0", "trainer 1"]
    assert chosen.warnings == []


def test_without_a_role_the_program_is_one(tmp_path: Path) -> None:
    for number, name in enumerate(("rollout.py", "train.py")):
        for rank in world(tmp_path, "", 2, 7 + number, argv=json.dumps(["python", f"src/{name}", "--fast"])):
            rank.work("step", 100)
            rank.end()
    assert called(choose(tmp_path)) == ["rollout 0", "rollout 1", "train 0", "train 1"]


def test_a_launch_by_a_rank_is_no_world(tmp_path: Path) -> None:
    outer = world(tmp_path, "trainer", 2, 7)
    inner = world(tmp_path, "solver", 2, 70)  # the process id of trainer 0
    for rank in [*outer, *inner]:
        rank.work("step", 100)
        rank.call("barrier", rank.now + 1, seq=0)
        rank.end()
    chosen = choose(tmp_path)
    assert len(chosen.ranks) == 2 and "started ranks 2 times" in chosen.warnings[0]


def test_members_are_numbered_by_start_or_as_they_are_told(tmp_path: Path) -> None:
    member(tmp_path, "driver", 10).end()
    member(tmp_path, "Rollout", 13, 1020.0).end()
    member(tmp_path, "Rollout", 12, 1010.0).end()
    member(tmp_path, "verifier", 21, part_rank="2").end()
    member(tmp_path, "verifier", 22, part_rank="0").end()
    chosen = choose(tmp_path)
    assert called(chosen) == ["Rollout 0", "Rollout 1", "the driver", "verifier 0", "verifier 1", "verifier 2"]
    assert [rank.record.meta["pid"] for rank in chosen.ranks] == ["12", "13", "10", "22", "21"]
    assert chosen.missing == [4] and "no record of verifier 1" in chosen.warnings[0]


def test_actors_are_numbered_as_they_were_made(tmp_path: Path) -> None:
    member(tmp_path, "driver", 10, **{"made 701": "0", "made 702": "1"}).end()
    member(tmp_path, "Rollout", 13, 1010.0, made_as="702").end()
    member(tmp_path, "Rollout", 12, 1020.0, made_as="701").end()
    assert [rank.record.meta["pid"] for rank in choose(tmp_path).ranks] == ["12", "13", "10"]


def test_workers_that_nothing_was_given_to_are_left_out(tmp_path: Path) -> None:
    member(tmp_path, "driver", 10).end()
    Rank(tmp_path, 0, 1, meta={"pid": "11", "world_size": None}, name="host-11-0.rec", role="spare").end()
    chosen = choose(tmp_path)
    assert (called(chosen), chosen.warnings) == (["rank 0"], [])


def test_process_groups_of_one_parent_are_worlds(tmp_path: Path) -> None:
    """Ray starts processes that learn their ranks late."""
    for number, (part, place) in enumerate((("Trainer", "a:1"), ("Engine", "a:2"), ("Engine", "a:3"))):
        for rank in range(2):
            pid = str(20 + 2 * number + rank)
            meta = {"part": part, "world": place, "ppid": "7", "pid": pid}
            Rank(tmp_path, rank, 2, meta=meta, name=f"host-{pid}-0.rec").end()
    member(tmp_path, "driver", 10).end()
    chosen = choose(tmp_path)
    assert called(chosen) == [
        "Engine 0", "Engine 1", "Engine 2", "Engine 3", "Trainer 0", "Trainer 1", "the driver",
    ]  # fmt: skip


def test_who_hands_on_a_role_is_a_launcher(tmp_path: Path) -> None:
    for rank in world(tmp_path, "rollout", 2, 9):
        rank.end()
    member(tmp_path, "rollout", 9, 900.0, part_source="environment").end()
    assert called(choose(tmp_path)) == ["rank 0", "rank 1"]


def test_workers_of_ranks_are_named_after_these(tmp_path: Path) -> None:
    """Whatever their program is called, ranks stay ranks."""
    for rank in world(tmp_path, "", 2, 9):
        for number in range(2):
            part = "loader" if rank.rank else "worker"
            pid = 100 * (1 + rank.rank) + number
            member(tmp_path, part, pid, 1000.0 + number, parent_record=rank.file.name).end()
        rank.end()
    chosen = choose(tmp_path)
    assert called(chosen) == [
        "rank 0", "rank 1", "loader 0 of rank 1", "loader 1 of rank 1",
        "pool worker 0 of rank 0", "pool worker 1 of rank 0",
    ]  # fmt: skip
    assert chosen.names.many([1, 3, 4, 5]) == "rank 1, loader 1 of rank 1 and pool worker 0, 1 of rank 0"
    assert chosen.names.many([4, 5], 6) == "all 2 pool worker processes"


def test_names_of_many() -> None:
    names = ProcessNames(("driver", *("rollout",) * 4, "trainer", "trainer"), (-1, 0, 1, 2, 3, 0, 1))
    assert names.many(range(7), 7) == "all 7 processes"
    assert names.many([0, 1, 2, 4]) == "the driver and rollout 0, 1, 3"
    assert names.many([1, 2, 3, 4, 6], 7) == "all 4 rollout processes and trainer 1"
    assert names.many([]) == "no process" and ProcessNames().many([]) == "no rank"


def test_blocks_of_records_give_the_same(tmp_path: Path) -> None:
    two_worlds(tmp_path)
    files = [str(file) for file in RunFolder(tmp_path).record_files()]
    held = [blocks.read_block(files[::2]), blocks.read_block(files[1::2])]
    outlines = [blocks.outline(each) for each in held]
    chosen = choose_records(record for each in outlines for record in each.records)
    parts = [
        pickle.loads(pickle.dumps(blocks.collect_block(each, share, {})))
        for each, share in zip(held, blocks.shares(chosen, outlines), strict=True)
    ]
    apart, whole = on_one_axis(blocks.merge(parts)), gather(choose(tmp_path))
    assert apart.communicators == whole.communicators
    for column in ("communicator", "peer", "seq", "enter_ns"):
        assert getattr(apart.events, column).tolist() == getattr(whole.events, column).tolist(), column


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "to the end of the record"])
def test_an_actor_is_known_by_the_thread_that_does_most_of_its_calls(tmp_path: Path, ended: bool) -> None:
    """Thread 0 made it, thread 1 works long at one call, and thread 2 is called often."""
    process = call_run.Process(RunWriter(tmp_path / "run", {"command": ["modelled"]}), "Rollout", 0)
    process.call("take", 1, 0.0, 0.1)
    process.call("reply", 1, 0.9, 0.9)
    for thread in (1, 2):
        process.record.thread(thread, 0)
    process.call("take", 2, 0.9, 1.0, thread=1)
    for call in range(10, 18):
        process.call("take", call, 0.9, 1.0 + 0.01 * call, thread=2)
        process.call("take", 5, 0.9, 1.0 + 0.01 * call, thread=2)  # something that all of these calls need
        process.call("reply", call, 1.004 + 0.01 * call, 1.004 + 0.01 * call, thread=2)
    if ended:
        process.call("reply", 2, 1.3, 1.3, thread=1)
    process.end(1.5)
    for told, thread in (({}, 1), ({"part_source": "program", "made_as": "7"}, 1), ({"part_source": "program"}, 0)):
        (record,) = RunFolder(tmp_path / "run").processes()
        assert main_thread(replace(record, meta={**record.meta, **told})) == thread
