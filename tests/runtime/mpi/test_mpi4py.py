"""Programs of mpi4py: MPI records with Python call paths, in the record of the Python process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME

from .conftest import PROGRAMS, Mpi

pytestmark = pytest.mark.slow
PROGRAM = PROGRAMS / "pickled.py"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``recording(mpi.folder)`` is a run of the program on four ranks, recorded once."""

    @cache
    def record(folder: str) -> Path:
        return Mpi(folder, tmp_path_factory.mktemp("pickled")).record(4, f"{folder}/python", PROGRAM)

    return record


@pytest.fixture
def pickled(mpi: Mpi, recording: Callable[[str], Path]) -> Path:
    python = Path(mpi.folder) / "python"
    if not python.exists() or subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip(f"no Python with mpi4py and numpy in {mpi.folder}")
    return recording(mpi.folder)


def test_one_record_a_rank_with_python_paths(pickled: Path) -> None:
    records = RunFolder(pickled).processes()
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


def test_pickled_messages_meet(pickled: Path) -> None:
    instances = build_ppg(RunFolder(pickled)).timeline.instances
    messages = instances.operation == BY_NAME["send"].code
    messages |= instances.operation == BY_NAME["blocking_send"].code
    assert int(messages.sum()) >= 20 * (4 + 3)
    assert instances.complete[messages].all()
    assert not np.isin(instances.operation[~instances.complete], [BY_NAME["recv"].code]).any()


@pytest.mark.measured
def test_the_slow_function_on_its_rank(pickled: Path) -> None:
    finding = scalana.analyze(pickled).findings[0]
    assert Path(finding.file) == PROGRAM
    assert finding.function == "work"
    assert finding.ranks == [1]
