"""The last part of a record that grows: the same as the end of the whole record, whatever increments it is read in."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import SPAN_TYPE, ProcessRecord
from scalana.runtime.record.tail import RecordTail
from scalana.runtime.record.writer import RecordWriter

S = 1_000_000_000
BLOCKS = 50
ALL_NS = 1 << 62


def write(file: Path, blocks: int = BLOCKS, moving: int = BLOCKS) -> list[int]:
    """A record with a block a second, each with a path of its own; returns where each block ends. Its program comes
    further in the first ``moving`` of them."""
    with RecordWriter(file) as record:
        record.meta("rank", "3")
        record.meta("start_ns", str(S))
        record.thread(0, 7)
        for second in range(1, blocks + 1):
            record.code(second, f"file{second}.py", f"function{second}", 10)
            record.call_path(second, second - 1, second, 10 + second)
            record.sample(0, second * S + 1000, second, cpu_us=5)
            record.sample(0, second * S + 500_000_000, 1, cpu_us=5)
            if second <= moving:
                record.event(2 * second, BY_NAME["allreduce"].code, second * S, 1000, group=1, seq=second, path=second)
                record.span(SPAN_TYPE["step"], f"name{second}", second * S, S // 2, attributes={"source": "user"})
                record.total(1, BY_NAME["allreduce"].code, 1, second, 0, 5, 5)
            record.flush()
    data, ends = file.read_bytes(), [16]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 16 + struct.unpack_from("<I", data, ends[-1] + 4)[0])
    return ends[1:]


def of(tail: RecordTail, folder: Path) -> ProcessRecord:
    """What is kept, as a record."""
    file = folder / "tail.rec"
    file.write_bytes(tail.content(123))
    return ProcessRecord.read(file)


@pytest.mark.parametrize("increment", [1, 16, 17, 100, 1 << 20])
def test_kept_is_the_end_of_the_record(tmp_path: Path, increment: int) -> None:
    whole, grows = tmp_path / "whole.rec", tmp_path / "grows.rec"
    write(whole)
    data = whole.read_bytes()
    tail = RecordTail(grows)
    assert not tail.update(10 * S)  # there is no file yet
    with grows.open("wb", buffering=0) as file:
        for at in range(0, len(data), increment):
            file.write(data[at : at + increment])
            tail.update(10 * S)
    kept, record = of(tail, tmp_path), ProcessRecord.read(whole)
    assert kept.troubles == []
    times = list(kept.samples.time_ns)
    assert times == list(record.samples.time_ns)[-len(times) :]
    assert 10 <= len(times) / 2 <= 12
    assert [kept.frames(path) for path in kept.samples.path] == [
        record.frames(path) for path in list(record.samples.path)[-len(times) :]
    ]
    assert [kept.names[name] for name in kept.spans.name] == [f"name{second}" for second in range(40, 51)]
    assert list(kept.events.seq) == list(range(40, 51))
    assert (kept.meta["rank"], kept.meta["start_ns"]) == ("3", "123")
    assert len(record.totals) and not len(kept.totals)  # they speak of the whole run
    assert tail.last_ns == record.last_ns


def test_what_is_kept_does_not_grow(tmp_path: Path) -> None:
    sizes = []
    for blocks in (200, 400):
        write(tmp_path / f"{blocks}.rec", blocks, blocks)
        tail = RecordTail(tmp_path / f"{blocks}.rec")
        tail.update(10 * S)
        sizes.append(len(of(tail, tmp_path).samples))
    assert sizes[0] == sizes[1]


def test_where_the_program_came_further_last_is_kept(tmp_path: Path) -> None:
    """And what was recorded about then, of the whole run: not what lies between that and the end."""
    file = tmp_path / "stands.rec"
    write(file, moving=20)
    kept: dict[bool, list[int]] = {}
    for keeps in (False, True):
        tail = RecordTail(file, keeps)
        tail.update(10 * S)
        kept[keeps] = [time // S for time in of(tail, tmp_path).samples.time_ns]
    assert min(kept[False]) >= 39 and set(kept[True]) == {20, *kept[False]}
    tail = RecordTail(file, keeps_progress=True)
    tail.update(ALL_NS)
    tail.trim(40 * S, (16 * S, 18 * S))
    assert {time // S for time in of(tail, tmp_path).samples.time_ns} == {16, 17, 18, 20, *range(40, BLOCKS + 1)}


def test_a_torn_block_waits_for_its_rest(tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole.rec", tmp_path / "torn.rec"
    ends = write(whole)
    data = whole.read_bytes()
    tail = RecordTail(torn)
    torn.write_bytes(data[: ends[5] + 20])
    assert tail.update(ALL_NS)
    assert len(of(tail, tmp_path).events) == 6
    assert not tail.update(ALL_NS)
    torn.write_bytes(data)
    assert tail.update(ALL_NS)
    assert len(of(tail, tmp_path).events) == BLOCKS


@pytest.mark.parametrize("at", [0, 5, 40])
def test_a_damaged_block_is_left_out(tmp_path: Path, at: int) -> None:
    file = tmp_path / "damaged.rec"
    ends = write(file)
    data = bytearray(file.read_bytes())
    data[ends[3] + at] ^= 0xFF
    file.write_bytes(data)
    tail = RecordTail(file)
    tail.update(ALL_NS)
    kept = of(tail, tmp_path)
    assert list(kept.events.seq) == [seq for seq in range(1, BLOCKS + 1) if seq != 5]


def test_the_end_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "ended.rec"
    with RecordWriter(file) as record:
        record.sample(0, S, 0)
        record.flush()
        record.end(2 * S)
    data = file.read_bytes()
    tail = RecordTail(file)
    file.write_bytes(data[:-1])
    tail.update(ALL_NS)
    assert tail.last_ns == S and not tail.ended
    file.write_bytes(data)
    tail.update(ALL_NS)
    assert tail.ended and tail.last_ns == 2 * S
    assert of(tail, tmp_path).ended
