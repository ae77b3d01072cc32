"""Native MPI programs under the preloaded recorder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scalana.graphs.ppg import build_ppg
from scalana.runtime.operations import BY_CODE, mpi_call
from scalana.runtime.record_format import EVENT_COMPLETION, ProcessRecord, RunFolder

from .conftest import Mpi

pytestmark = pytest.mark.slow
RECEIVES = {"MPI_Mprobe": "recv"}
"""A matched probe is recorded as the receive that it begins."""


def calls_by_operation(record: ProcessRecord) -> Counter[str]:
    totals = record.totals
    counted: Counter[str] = Counter()
    for operation, calls in zip(totals.operation, totals.calls):
        counted[BY_CODE[operation].name] += calls
    return counted


def test_counts_agree_with_an_independent_count(mpi: Mpi) -> None:
    program = mpi.compile("every_kind.c")
    shim = mpi.compile("count_shim.c", "-shared", "-fPIC", name="shim.so")
    counted = mpi.run(4, program, LD_PRELOAD=str(shim), COUNTS=str(mpi.work / "counts"))
    assert counted.returncode == 0, counted.stderr
    records = RunFolder(mpi.record(4, program)).processes()
    assert [record.rank for record in records] == [0, 1, 2, 3]
    for record in records:
        expected: Counter[str] = Counter()
        for line in (mpi.work / f"counts.{record.rank}").read_text().splitlines():
            name, number = line.split()
            call = mpi_call(name)
            assert call is not None
            expected[RECEIVES.get(name) or BY_CODE[call.operation].name] += int(number)
        found = calls_by_operation(record)
        for operation in ("barrier", "blocking_send", "wait", "start", "broadcast", "reduce", "probe"):
            assert found[operation] == expected[operation], (record.rank, operation)
        assert found["allreduce"] == expected["allreduce"] + 2  # two Iallreduce, which the shim does not count
        assert found["init"] == found["finalize"] == 1
        assert record.ended and not record.notes and not record.troubles


def test_all_calls_meet_their_partners(mpi: Mpi) -> None:
    ppg = build_ppg(RunFolder(mpi.record(4, mpi.compile("every_kind.c"))))
    instances = ppg.timeline.instances
    assert len(instances) > 100
    odd = np.flatnonzero(~instances.complete)
    assert not len(odd), Counter(BY_CODE[int(instances.operation[row])].name for row in odd)


def test_communicators_have_one_name_on_all_members(mpi: Mpi) -> None:
    records = RunFolder(mpi.record(4, mpi.compile("every_kind.c"))).processes()
    members: dict[str, list[int]] = {}
    seen: dict[str, list[int]] = {}
    for record in records:
        for group in record.groups.values():
            if "/" in group.name:  # not a communicator: neighbours in one
                assert group.name.endswith(f"/neighbours:{record.rank}")
                assert list(group.ranks) == [(record.rank - 1) % 4, (record.rank + 1) % 4]
                continue
            assert members.setdefault(group.name, list(group.ranks)) == list(group.ranks)
            assert group.ranks[group.my_rank] == record.rank
            seen.setdefault(group.name, []).append(record.rank)
    assert members["world"] == [0, 1, 2, 3]
    assert {name: sorted(ranks) for name, ranks in seen.items()} == {
        name: sorted(ranks) for name, ranks in members.items()
    }
    assert sorted(map(tuple, members.values())).count((3, 2, 1)) == 1  # split with keys in reverse
    assert {(0, 2), (1, 3), (0, 1)} <= set(map(tuple, members.values()))


def test_every_request_is_completed_once(mpi: Mpi) -> None:
    for record in RunFolder(mpi.record(4, mpi.compile("every_kind.c"))).processes():
        events = record.events
        rows = [row for row in range(len(events)) if events.flags[row] & EVENT_COMPLETION and events.completes[row]]
        completed = Counter(events.completes[row] for row in rows)
        posts = {events.id[row] for row in range(len(events)) if events.flags[row] & 2}
        assert posts and posts <= set(completed)
        assert all(number == 1 for event, number in completed.items() if event in posts)


def test_messages_from_anybody_have_their_sender(mpi: Mpi) -> None:
    for record in RunFolder(mpi.record(4, mpi.compile("every_kind.c"))).processes():
        events = record.events
        anybody = [row for row in range(len(events)) if events.flags[row] & 16 and events.operation[row] == 11]
        assert len(anybody) == 6
        assert {events.peer[row] for row in anybody} == {(record.rank - 1) % 4}


def lines_of(source: str, text: str) -> set[int]:
    lines = (Path(__file__).parent / "programs" / source).read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if text in line}


@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fomit-frame-pointer"), ("-O2", "-fno-omit-frame-pointer")])
def test_the_slow_line_on_its_rank(mpi: Mpi, flags: tuple[str, ...]) -> None:
    import scalana

    report = scalana.analyze(mpi.record(4, mpi.compile("slow_rank.c", *flags)))
    first = report.findings[0]
    assert Path(first.file).name == "slow_rank.c"
    assert first.line in lines_of("slow_rank.c", "/* slow */")
    assert first.ranks == [2]
