"""Programs that make more calls than can be written one by one."""

from __future__ import annotations

from collections import Counter

import pytest

from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_COMPLETION, EVENT_LEVEL_SHIFT, ProcessRecord
from scalana.runtime.record.writer import collective_key, message_key

from .conftest import Mpi, under_one_mpi
from .test_native import calls_by_operation

pytestmark = pytest.mark.slow
ROUNDS = 10_000
SENDS = (BY_NAME["send"].code, BY_NAME["blocking_send"].code)


@pytest.mark.long
@pytest.mark.measured
@under_one_mpi
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


@under_one_mpi
def test_few_collectives_among_very_many_messages_are_all_written(mpi: Mpi) -> None:
    """Of a communicator whose collectives are many, all of the first, and a sample of the others."""
    program = mpi.compile("rare_collectives.c", "-O1")
    folder = RunFolder(mpi.record(2, program, "20000", SCALANA_CALLS_HZ="100"))
    for record in folder.processes():
        events, counted = record.events, calls_by_operation(record)
        assert len(events) < sum(counted.values()) / 4
        written = Counter(events.operation)
        assert written[BY_NAME["reduce"].code] == counted["reduce"] == 40
        assert 64 <= written[BY_NAME["allreduce"].code] < counted["allreduce"] == 2000


def test_the_short_way_counts_and_numbers_like_the_long_one(mpi: Mpi) -> None:
    """Once with nearly all calls only counted, once with all of them written."""
    program = mpi.compile("short_way.c", "-O1")
    short, long = (
        RunFolder(mpi.record(2, program, "1000", name=f"calls-{hz}", SCALANA_CALLS_HZ=hz)).processes()
        for hz in ("100", "100000000")
    )
    for few, all_of_them in zip(short, long, strict=True):
        assert 10 * len(few.events) < len(all_of_them.events)
        told, expected = totals(few), totals(all_of_them)
        tests = BY_NAME["test"].code  # as many as it takes
        assert {key: told[key] for key in told if key != tests} == {
            key: expected[key] for key in expected if key != tests
        }
        unknown = identities(few) - identities(all_of_them)
        assert not unknown


def totals(record: ProcessRecord) -> dict[int, tuple[int, int]]:
    """Calls and bytes of each operation."""
    sums: dict[int, tuple[int, int]] = {}
    for operation, calls, nbytes in zip(
        record.totals.operation, record.totals.calls, record.totals.nbytes, strict=True
    ):
        before = sums.get(operation, (0, 0))
        sums[operation] = (before[0] + calls, before[1] + nbytes)
    return sums


def identities(record: ProcessRecord) -> Counter[tuple[object, ...]]:
    """What each event that meets others is known by, and its bytes."""
    events = record.events
    return Counter(
        (
            events.operation[row],
            record.groups[group].name,
            events.peer[row],
            events.tag[row],
            events.seq[row],
            events.nbytes[row],
        )
        for row, group in enumerate(events.group)
        if group and not events.flags[row] & EVENT_COMPLETION
    )
