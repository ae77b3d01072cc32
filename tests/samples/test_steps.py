"""Samples in which nobody marks steps: they are found by their communication, as many as the program makes."""

from __future__ import annotations

import re

import pytest

import scalana
from tests.runtime.mpi.conftest import Mpi, mpi  # noqa: F401  (a fixture)

from .planted import SAMPLES

pytestmark = pytest.mark.slow

FOLDER = SAMPLES / "mpi"


def loops(name: str) -> int:
    """How many steps the loop over steps of a sample makes."""
    found = re.search(r"for \(int step = 0; step < (\d+); step\+\+\)", (FOLDER / name).read_text())
    assert found
    return int(found[1])


@pytest.mark.parametrize("name", ["halo_corner.cpp", "balanced.cpp", "rows_columns.cpp"])
def test_repeated_communication_of_mpi_shows_steps(name: str, mpi: Mpi) -> None:  # noqa: F811
    """One has messages alone, one a collective of all, one collectives of rows and columns."""
    folder = mpi.record(4, mpi.compile(FOLDER / name))
    steps = scalana.analyze(folder).analysis.steps
    assert steps is not None and steps.source == "communication"
    assert len(steps) == loops(name)


def test_a_task_farm_has_no_steps(mpi: Mpi) -> None:  # noqa: F811
    folder = mpi.record(4, mpi.compile(FOLDER / "master_worker.cpp"))
    assert scalana.analyze(folder).analysis.steps is None
