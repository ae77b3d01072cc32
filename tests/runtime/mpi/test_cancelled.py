"""Receives that are cancelled do not take the numbers of others."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_WITHDRAWN

from .conftest import Mpi

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("rounds", "calls_hz"), [(8, "100000000"), (600, "500")], ids=["all", "thinned"])
def test_messages_meet_their_receives_where_others_were_cancelled(mpi: Mpi, rounds: int, calls_hz: str) -> None:
    folder = RunFolder(mpi.record(2, mpi.compile("cancelled.c"), str(rounds), SCALANA_CALLS_HZ=calls_hz))
    sender, receiver = folder.processes()
    assert not [flags for flags in sender.events.flags if flags & EVENT_WITHDRAWN]
    assert len([flags for flags in receiver.events.flags if flags & EVENT_WITHDRAWN]) == 4 * rounds

    timeline = build_ppg(folder).timeline
    instances, calls = timeline.instances, timeline.calls
    messages = np.flatnonzero(instances.operation == BY_NAME["blocking_send"].code)
    whole = messages[instances.complete[messages]]
    sizes = calls.nbytes[instances.members]
    assert (sizes[instances.first[whole]] == sizes[instances.first[whole] + 1]).all()
    if rounds < 100:
        assert len(whole) == 4 * rounds and instances.complete.all()
    else:  # a receive that moved up in its channel is written, or not, by the number that it had before
        assert len(whole) > 20
