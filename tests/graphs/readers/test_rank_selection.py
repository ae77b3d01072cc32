"""Which process of a run is what."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from scalana.graphs.readers.processes.rank_selection import choose_records


def process(pid: int, ppid: int, rank: int | None = None) -> Any:
    meta = {"pid": str(pid), "ppid": str(ppid), "host": "a", "argv": f"process {pid}"}
    if rank is not None:
        meta |= {"rank": str(rank), "role": "rank", "world_size": "2"}
    record = SimpleNamespace(file=Path(f"a-{pid}-0.rec"), meta=meta, events=[], open=[], first_ns=0, last_ns=0)
    record.role = meta.get("role", "process")
    record.rank, record.number = rank, lambda key, default: int(meta.get(key, default))
    return record


def test_the_process_that_spawned_the_ranks_is_a_launcher_and_a_stranger_is_left_out() -> None:
    records = [process(9, 1), process(11, 9, 0), process(12, 9, 1)]
    chosen = choose_records(cast(Any, records))
    assert (len(chosen.ranks), chosen.launchers, chosen.warnings) == (2, ["process 9"], [])
    chosen = choose_records(cast(Any, [*records, process(20, 1)]))
    assert chosen.launchers == ["process 9"]
    assert chosen.warnings == ["1 recorded process belongs to no rank; left out"]


def test_what_a_process_forks_to_become_another_program_is_none_of_the_job() -> None:
    forked, helper = process(21, 9), process(22, 9)
    forked.ended, helper.ended = False, True
    records = [process(9, 1), process(11, 9, 0), process(12, 9, 1)]
    assert choose_records(cast(Any, [*records, forked])).warnings == []
    assert choose_records(cast(Any, [*records, forked, helper])).warnings == [
        "1 recorded process belongs to no rank; left out"
    ]


def test_all_that_one_process_starts_is_its_own() -> None:
    """A worker of a loader names no record as its parent's; another was started through a shell."""
    main, worker, below, shell = process(11, 9), process(12, 11), process(13, 12), process(15, 14)
    for record in (worker, below, shell):
        record.ended = True
    chosen = choose_records(cast(Any, [main, worker, below, shell]))
    assert (len(chosen.ranks), chosen.ranks[0].record, chosen.warnings) == (1, main, [])
    assert chosen.ranks[0].children == [worker, below, shell]
    # Ranks have theirs in the same way.
    helper = process(21, 12)
    helper.ended = True
    chosen = choose_records(cast(Any, [process(9, 1), process(11, 9, 0), process(12, 9, 1), helper]))
    assert ([len(rank.children) for rank in chosen.ranks], chosen.warnings) == ([0, 1], [])
