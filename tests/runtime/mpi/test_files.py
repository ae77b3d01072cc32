"""Collective input and output."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalana
from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME

from .conftest import Mpi
from .test_native import calls_by_operation, lines_of, pytestmark

__all__ = ["pytestmark"]


@pytest.mark.measured
def test_who_is_late_for_collective_input_and_output(mpi: Mpi) -> None:
    folder = mpi.record(2, mpi.compile("files.c"), str(mpi.work / "data"))
    for record in RunFolder(folder).processes():
        counted = calls_by_operation(record)
        assert counted["file_collective"] in (10, 11)  # without MPI_File_iread_at_all before MPI-3.1
        assert counted["wait"] == counted["file_collective"] - 10 + 1  # for it and for the buffer
    instances = build_ppg(RunFolder(folder)).timeline.instances
    collectives = instances.operation == BY_NAME["file_collective"].code
    assert collectives.sum() == counted["file_collective"] and instances.complete.all()

    analysis = scalana.analyze(folder)
    assert analysis.findings, analysis.to_text()
    first = analysis.findings[0]
    assert (Path(first.file).name, first.ranks) == ("files.c", [1])
    assert first.line in lines_of("files.c", "/* late */")
