"""Messages in parts, of MPI-4."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME

from .conftest import Mpi
from .test_native import calls_by_operation, lines_of

pytestmark = pytest.mark.slow
ROUNDS = 6
DOUBLE = 8


@pytest.mark.measured
def test_parts_are_one_message_whose_sender_is_waited_for(mpi: Mpi) -> None:
    words = [f"{mpi.folder}/mpicc", "-E", "-P", "-x", "c", "-"]
    header = subprocess.run(words, input="#include <mpi.h>\n", capture_output=True, text=True, check=True).stdout
    if "MPI_Psend_init" not in header:
        pytest.skip("an MPI of before version 4")
    folder = mpi.record(2, mpi.compile("partitioned.c"))
    sender, receiver = RunFolder(folder).processes()
    assert calls_by_operation(sender)["send"] == calls_by_operation(receiver)["recv"] - ROUNDS == 2  # inits
    assert calls_by_operation(sender)["start"] == (2 + 4) * ROUNDS
    assert (calls_by_operation(receiver)["start"], calls_by_operation(receiver)["test"]) == (2 * ROUNDS, ROUNDS)

    timeline = build_ppg(RunFolder(folder)).timeline
    instances, calls = timeline.instances, timeline.calls
    assert instances.complete.all()
    sends = np.flatnonzero(instances.operation == BY_NAME["send"].code)
    sizes = calls.nbytes[instances.members]
    sent, received = sizes[instances.first[sends]], sizes[instances.first[sends] + 1]
    assert sorted(sent) == sorted([4 * DOUBLE, 8 * DOUBLE] * ROUNDS)
    assert (sent == received).all()

    first = scalana.analyze(folder).findings[0]
    assert (Path(first.file).name, first.ranks) == ("partitioned.c", [0])
    assert first.line in lines_of("partitioned.c", "usleep(")
