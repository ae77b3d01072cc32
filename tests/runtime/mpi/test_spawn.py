"""Processes that a program starts by MPI itself."""

from __future__ import annotations

import pytest

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.rank_selection import choose_records

from .conftest import Mpi

pytestmark = pytest.mark.slow


def test_spawned_processes_do_what_they_did_and_are_none_of_the_ranks(mpi: Mpi) -> None:
    folder = mpi.record(1, mpi.compile("spawn.c"))
    lines = sorted(mpi.output.splitlines())
    assert [line.split(":")[0] for line in lines] == ["rank 0 of first", "rank 0 of spawned", "rank 1 of spawned"]
    assert all(line.endswith("of 3 sum 3") for line in lines)
    chosen = choose_records(RunFolder(folder).processes())
    assert [rank.rank for rank in chosen.ranks] == [0]
    assert chosen.ranks[0].record.meta["world_size"] == "1"
    assert any("2 recorded processes belong to no rank" in text for text in chosen.warnings)
