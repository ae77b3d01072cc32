"""Programs that are linked with Python's library are recorded whole, whether they initialise it or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalana.runtime import recorder, session
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record import layout
from tests.runtime import jobs

from .conftest import Mpi, under_one_mpi


@pytest.mark.slow
@under_one_mpi
def test_a_program_that_is_linked_with_python_is_recorded_from_its_first_call_of_mpi_on(mpi: Mpi) -> None:
    folder = mpi.record(2, mpi.compile("embedding.c", "-rdynamic"))
    assert mpi.output.split() == ["1", "1"], "a Python that it initialises later must know"
    ranks = [record for record in jobs.records(folder) if record.meta.get("role") == "rank"]
    assert sorted(record.meta["rank"] for record in ranks) == ["0", "1"]
    for record in ranks:
        reduced = [code for code in record.events.operation if code == BY_NAME["allreduce"].code]
        assert len(reduced) == 5 and record.ended


@pytest.mark.parametrize(("pid", "starts"), [(os.getpid(), False), (os.getppid(), True)], ids=["own", "another"])
def test_python_leaves_a_process_alone_that_is_recorded_already(
    pid: int, starts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setenv(layout.RUN_VARIABLE, str(tmp_path))
    monkeypatch.setenv(layout.NATIVE_VARIABLE, str(pid))
    monkeypatch.setattr(session, "core", None)
    monkeypatch.setattr(recorder, "start", lambda folder, *_: started.append(folder) or True)
    assert recorder.start_from_environment() is starts
    assert bool(started) is starts
