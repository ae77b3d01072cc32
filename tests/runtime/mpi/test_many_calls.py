"""Programs that make more calls than can be written one by one."""

from __future__ import annotations

import pytest

from scalana.graphs.ppg import build_ppg
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record_format import EVENT_LEVEL_SHIFT, RunFolder
from scalana.runtime.record_writer import collective_key, message_key

from .conftest import Mpi
from .test_native import calls_by_operation

pytestmark = pytest.mark.slow
ROUNDS = 10_000
SENDS = (BY_NAME["send"].code, BY_NAME["blocking_send"].code)


def test_a_sample_is_written_and_all_is_counted(mpi: Mpi) -> None:
    folder = mpi.record(2, mpi.compile("many_calls.c", "-O2"), str(ROUNDS), SCALANA_CALLS_HZ="500")
    records = RunFolder(folder).processes()
    for record in records:
        events, counted = record.events, calls_by_operation(record)
        assert counted["allreduce"] == counted["wait"] == ROUNDS
        assert counted["send"] == counted["recv"] == 2 * ROUNDS
        levels = [flags >> EVENT_LEVEL_SHIFT for flags in events.flags]
        assert max(levels) >= 3
        assert len(events) < 3 * ROUNDS
        for row, level in enumerate(levels):
            operation, seq = events.operation[row], events.seq[row]
            if operation == BY_NAME["allreduce"].code:
                assert collective_key("world", seq) % 2**level == 0
            elif operation in SENDS:
                assert message_key(record.rank, events.peer[row], events.tag[row], seq) % 2**level == 0
            elif operation == BY_NAME["recv"].code:
                assert message_key(events.peer[row], record.rank, events.tag[row], seq) % 2**level == 0
        nbytes = sum(
            total
            for operation, total in zip(record.totals.operation, record.totals.nbytes, strict=True)
            if operation in SENDS
        )
        assert nbytes == 8 * counted["send"]

    instances = build_ppg(RunFolder(folder)).timeline.instances
    # Ranks turn to a higher level each in its own time: then one side has more than the other.
    assert instances.complete.mean() > 0.6
