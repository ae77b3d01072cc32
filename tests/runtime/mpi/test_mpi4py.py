"""Programs of mpi4py: MPI records with Python call paths, in the record of the Python process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.metrics import burst_locations
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
    _needs_mpi4py(mpi)
    return recording(mpi.folder)


def _line(program: str, text: str) -> int:
    """The first line of a program that holds a text."""
    lines = (PROGRAMS / program).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


def _needs_mpi4py(mpi: Mpi) -> None:
    python = Path(mpi.folder) / "python"
    if not python.exists() or subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip(f"no Python with mpi4py and numpy in {mpi.folder}")


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


@pytest.mark.measured
def test_a_rest_gets_no_time_without_a_core_that_computing_waits_for(mpi: Mpi) -> None:
    """Two more programs want the cores: who rests has one at once when it wakes up, and who computes waits for it."""
    _needs_mpi4py(mpi)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        folder = mpi.record(3, f"{mpi.folder}/python", PROGRAMS / "rests_and_computes.py")
    finally:
        for program in busy:
            program.kill()
            program.wait()
    # Lines of two ranks may be run into one.
    truth = {int(rank): float(rested_s) for rank, rested_s in re.findall(r"rested (\d+) (\d+\.\d{3})", mpi.output)}
    timeline = build_ppg(RunFolder(folder)).timeline
    own, rank = timeline.own, timeline.locations.rank[burst_locations(timeline)]
    rests = (timeline.activities.line == _line("rests_and_computes.py", "time.sleep"))[own.activity]
    for one, rested_s in truth.items():
        told_s = float(own.seconds[rests & (rank[own.burst] == one)].sum())
        assert 0.6 * 16 * 0.04 < told_s < 1.5 * rested_s, (one, told_s, rested_s)
    assert len(truth) == 3
