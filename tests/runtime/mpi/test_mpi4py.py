"""Programs of mpi4py: MPI records with Python call paths, in the record of the Python process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.ppg import build_ppg
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record_format import RunFolder

from .conftest import PROGRAMS, Mpi

pytestmark = pytest.mark.slow
PROGRAM = PROGRAMS / "pickled.py"


@pytest.fixture
def python(mpi: Mpi) -> str:
    found = Path(mpi.folder) / "python"
    if not found.exists() or subprocess.run([found, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip(f"no Python with mpi4py and numpy in {mpi.folder}")
    return str(found)


def test_one_record_a_rank_with_python_paths(mpi: Mpi, python: str) -> None:
    records = RunFolder(mpi.record(4, python, PROGRAM)).processes()
    assert [record.rank for record in records] == [0, 1, 2, 3]
    lines = PROGRAM.read_text().splitlines()
    for record in records:
        assert record.meta["rank_source"] == "MPI_Init"
        events = record.events
        for row in range(len(events)):
            if events.operation[row] == BY_NAME["allreduce"].code:
                frames = record.frames(events.path[row])
                assert frames[-1].code.filename == str(PROGRAM)
                assert "comm.Allreduce" in lines[frames[-1].line - 1]
        assert list(events.operation).count(BY_NAME["allreduce"].code) == 20


def test_pickled_messages_meet(mpi: Mpi, python: str) -> None:
    instances = build_ppg(RunFolder(mpi.record(4, python, PROGRAM))).timeline.instances
    messages = instances.operation == BY_NAME["send"].code
    messages |= instances.operation == BY_NAME["blocking_send"].code
    assert int(messages.sum()) >= 20 * (4 + 3)
    assert instances.complete[messages].all()
    assert not np.isin(instances.operation[~instances.complete], [BY_NAME["recv"].code]).any()


def test_the_slow_function_on_its_rank(mpi: Mpi, python: str) -> None:
    finding = scalana.analyze(mpi.record(4, python, PROGRAM)).findings[0]
    assert Path(finding.file) == PROGRAM
    assert finding.function == "work"
    assert finding.ranks == [1]
