"""The record format: what is written is read, and damage costs no more than what it hit."""

from __future__ import annotations

import json
import os
import random
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime import _core
from scalana.runtime.record import format as record_format
from scalana.runtime.record.format import LANE_STREAM, SPAN_TYPES, ProcessRecord, RecordError
from scalana.runtime.record.layout import write_info
from scalana.runtime.record.writer import RecordWriter
from tests.tools import both_readers


@pytest.fixture(autouse=True, scope="module")
def both() -> Iterator[None]:
    """What is read here is read by numpy too, and compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "read", both_readers.read)
        yield


def write_events(file: Path, count: int, per_block: int) -> None:
    with RecordWriter(file) as writer:
        writer.meta("rank", "3")
        writer.code(1, "a.py", "f", 10)
        writer.call_path(1, 0, 1, 12)
        for i in range(count):
            writer.event(2 * i + 2, 2, 10**12 + i * 1000, 500, seq=i, path=1)
            if (i + 1) % per_block == 0:
                writer.flush()
        writer.end(10**12 + count * 1000, 0)


def block_offsets(data: bytes) -> list[int]:
    offsets = [16]
    while offsets[-1] < len(data):
        (length,) = struct.unpack_from("<I", data, offsets[-1] + 4)
        offsets.append(offsets[-1] + 16 + length)
    return offsets


# ---- round trips ----


def test_every_field_comes_back(tmp_path: Path) -> None:
    rng = random.Random(5)
    events = []
    samples = []
    file = tmp_path / "r.rec"

    def wide(bits: int) -> int:
        return rng.getrandbits(rng.randrange(1, bits))

    def signed(bits: int) -> int:
        return rng.choice((-1, 1)) * wide(bits)

    start = 10**15
    with RecordWriter(file, block_bytes=500) as writer:
        for i in range(2000):
            event = {
                "thread": wide(31),
                "group": wide(31),
                "seq": wide(63),
                "peer": signed(31),
                "tag": signed(63),
                "nbytes": wide(63),
                "flags": wide(31) & ~record_format.EVENT_CPU_UNKNOWN,  # which reads as times of -1
                "cpu_enter_ns": wide(63),
                "cpu_ns": wide(63),
                "path": wide(31),
                "completes": wide(63),
            }
            events.append((i, wide(31), start + signed(48), wide(48), event))
            samples.append(
                (wide(31), start + signed(48) // 1000 * 1000, wide(31), wide(63), wide(63), rng.randrange(6))
            )
            writer.event(*events[-1][:4], **event)
            writer.sample(*samples[-1])
    record = ProcessRecord.read(file)
    assert record.troubles == [] and not record.ended
    columns = record.events
    for row, (id, operation, enter, duration, event) in enumerate(events):
        assert (columns.id[row], columns.operation[row], columns.enter_ns[row], columns.duration_ns[row]) == (
            id,
            operation,
            enter,
            duration,
        )
        assert {name: getattr(columns, name)[row] for name in event} == event
    for row, (thread, when, path, cpu, wait, state) in enumerate(samples):
        s = record.samples
        assert (s.thread[row], s.path[row], s.cpu_us[row], s.core_wait_us[row], s.state[row]) == (
            thread,
            path,
            cpu,
            wait,
            state,
        )
        # Samples stand in steps of 1 us from the base of their block, which need not be a whole us.
        assert abs(s.time_ns[row] - when) < 1000


def test_all_kinds_of_records(tmp_path: Path) -> None:
    file = tmp_path / "r.rec"
    with RecordWriter(file) as writer:
        writer.meta("role", "rank")
        writer.meta("rank", "7")
        writer.meta("rank", "8")
        writer.code(1, "/x/ü\udcff.py", "outer", 3, 11, b"\x80\x00")
        writer.code(2, "/x/b.py", "inner")
        writer.call_path(1, 0, 1, 0)
        writer.call_path(2, 1, 2, 44)
        writer.thread(0, 4711, "python")
        writer.thread(1, 4712, "helper", 2)
        writer.group(1, "world", 2, [0, 5, 9])
        writer.done(2, 2_000_000, 17, 4)
        attributes = {"stage": -2, "share": 0.5, "version": "forward"}
        writer.span(3, "forward", 1_000_000, 500, cpu_ns=400, path=2, event=2, step=7, attributes=attributes)
        writer.span(3, "backward", 1_500_000, 500, lane=writer.lane(LANE_STREAM, "compute", 1))
        writer.span(3, "forward", 3_000_000, 500, cpu_ns=0)
        writer.span_total(3, "forward", 2, 900, 400)
        writer.span_total(3, "forward", 3, 1_000, 400)
        writer.unwritten(2_000_000, 300, thread=1, cpu_ns=200)
        writer.total(2, 2, 1, 5, 100, 1000, 900)
        writer.total(1, 2, 1, 1, 1, 1, 1)
        writer.total(2, 2, 1, 6, 120, 1200, 1000)
        writer.open(9, 2, 1_900_000, 2_500_000, group=1, seq=4, peer=3, path=2)
        writer.note("no hook for foo")
        writer.end(4_000_000, 137)
    record = ProcessRecord.read(file)
    assert record.rank == 8 and record.role == "rank"
    assert [(f.code.filename, f.code.name, f.lasti, f.line) for f in record.frames(2)] == [
        ("/x/ü\udcff.py", "outer", 0, 3),
        ("/x/b.py", "inner", 44, 44),
    ]
    assert record.threads[0].is_main and not record.threads[1].is_main
    assert list(record.groups[1].ranks) == [0, 5, 9] and record.groups[1].my_rank == 2
    assert (record.done.event[0], record.done.time_ns[0], record.done.cpu_ns[0], record.done.source[0]) == (
        2,
        2_000_000,
        17,
        4,
    )
    spans = record.spans
    assert [record.names[i] for i in spans.name] == ["forward", "backward", "forward"]
    assert [record.lanes[i] for i in spans.lane] == [(0, 0, ""), (1, 1, "compute"), (0, 0, "")]
    assert spans.start_ns.tolist() == [1_000_000, 1_500_000, 3_000_000]
    assert spans.cpu_ns.tolist() == [400, -1, 0] and spans.path.tolist() == [2, 0, 0]
    assert spans.event.tolist() == [2, 0, 0] and spans.step.tolist() == [7, -1, -1]
    assert attributes_of(record, 0) == attributes and attributes_of(record, 1) == attributes_of(record, 2) == {}
    assert (record.span_totals.spans.tolist(), record.span_totals.wall_ns.tolist()) == ([3], [1_000])
    unwritten = record.unwritten
    assert (unwritten.thread[0], unwritten.start_ns[0], unwritten.duration_ns[0]) == (1, 2_000_000, 300)
    assert record.totals.calls.tolist() == [1, 6]
    assert (record.open.event[0], record.open.enter_ns[0], record.open.as_of_ns[0]) == (9, 1_900_000, 2_500_000)
    assert record.notes == ["no hook for foo"]
    assert record.ended and record.status == 137
    assert (record.first_ns, record.last_ns) == (1_000_000, 4_000_000)


def attributes_of(record: ProcessRecord, span: int) -> dict[str, int | float | str]:
    found: dict[str, int | float | str] = {}
    for row in range(record.spans.last[span - 1] if span else 0, record.spans.last[span]):
        value, tag = record.attributes.value[row], record.attributes.tag[row]
        real = struct.unpack("d", struct.pack("q", value))[0]
        found[record.names[record.attributes.key[row]]] = (value, real, record.names[value] if tag == 2 else "")[tag]
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def decode_plainly(data: bytes) -> Iterator[tuple[int, list[int | bytes]]]:
    """A second decoder, straight from the table of the format: kinds and raw fields."""
    layouts = {1: "tt", 2: "uttuut", 3: "uuuu", 4: "uutu", 5: "u", 6: "usuuuu", 8: "uuuuussuusuuuuu"}
    layouts |= {9: "usus", 10: "uutsuuu", 11: "uuuuuuu", 12: "uuuuusus", 13: "t", 14: "ss"}
    layouts |= {16: "ut", 17: "uuut", 18: "uuusuuuuuu", 19: "uuuuuuu"}
    values = {0: "s", 2: "u"}
    offsets = block_offsets(data)
    for number, (start, end) in enumerate(zip(offsets, offsets[1:], strict=False)):
        magic, length, checksum, block = struct.unpack_from("<IIII", data, start)
        payload = data[start + 16 : end]
        assert (magic, length, checksum, block) == (0x4B4C4253, len(payload), zlib.crc32(payload), number)
        at = 0
        while at < len(payload):
            kind = payload[at]
            at += 1
            size, body = varint(payload, at) if kind >= 16 else (0, at)
            at = body
            fields: list[int | bytes] = []
            for form in layouts.get(kind, "utuu"):
                value, at = varint(payload, at)
                if form == "t":
                    fields.append(payload[at : at + value])
                    at += value
                else:
                    fields.append(value if form == "u" else (value >> 1) ^ -(value & 1))
            if kind == 7:
                ranks = b""
                for _ in range(int(fields[3])):
                    value, at = varint(payload, at)
                    ranks += struct.pack("<I", value)
                fields.append(ranks)
            for _ in range(int(fields[9]) if kind == 18 else 0):
                key, at = varint(payload, at)
                tag = payload[at]
                if tag == 1:
                    value, at = payload[at + 1 : at + 9], at + 9
                else:
                    value, at = varint(payload, at + 1)
                    value = value if values[tag] == "u" else (value >> 1) ^ -(value & 1)
                fields += [key, tag, value]
            assert kind < 16 or at == body + size
            yield kind, fields


@pytest.mark.parametrize(
    "ranks",
    [
        [],
        [7],
        [0, 1],
        list(range(300)),
        list(range(5, 900, 31)),
        list(range(40, 0, -2)),
        [*range(9), *range(90, 99), 4],
    ],
)
def test_groups_are_read_as_they_were_however_their_ranks_are_written(tmp_path: Path, ranks: list[int]) -> None:
    with RecordWriter(tmp_path / "python.rec") as writer:
        writer.group(1, "all", 0, ranks)
    _core.start(str(tmp_path / "compiled.rec"), 0, 1 << 24)
    try:
        _core.group("all", 0, ranks)
    finally:
        _core.stop(0)
    for name in ("python.rec", "compiled.rec"):
        record = ProcessRecord.read(tmp_path / name)
        assert record.troubles == []
        assert [list(group.ranks) for group in record.groups.values()] == [ranks]


def test_a_regular_group_takes_few_bytes_however_many_its_ranks(tmp_path: Path) -> None:
    sizes = []
    for members in (100, 10_000):
        file = tmp_path / f"{members}.rec"
        with RecordWriter(file) as writer:
            writer.group(1, "column", 0, range(3, 3 + 128 * members, 128))
        sizes.append(file.stat().st_size)
    assert sizes[1] <= sizes[0] + 2


def test_the_compiled_writer_agrees_with_a_plain_decoder(tmp_path: Path) -> None:
    file = tmp_path / "c.rec"
    _core.start(str(file), 0, 1 << 24)
    try:
        _core.meta("key", "value ü")
        group = _core.group("world", 1, [3, 70000])
        posted = _core.begin(10, group, 4, 70000, -5, 1 << 40, 2)
        _core.end(posted)
        _core.done(posted)
        name, key = _core.intern("augment"), _core.intern("key")
        many = tuple(part for number in range(40) for part in (key, number / 4))
        _core.span(3, _core.lane(1, "stream"), name, 1000, 4000, 7, 5, (key, -70000, key, 0.5, key, "augment"))
        _core.span(3, 0, name, 1000, 4000, -1, 0, many)
        _core.begin(1, group, 5, -1, 0, 0, 1)
        _core.note("note")
    finally:
        _core.stop(9)
    records = list(decode_plainly(file.read_bytes()))
    by_kind = {kind: fields for kind, fields in records if kind != 1}
    assert [b"key", "value ü".encode()] in [fields for kind, fields in records if kind == 1]
    assert by_kind[7] == [group, b"world", 1, 2, struct.pack("<II", 3, 70000)]
    assert by_kind[8][:9] == [posted, 0, 10, group, 4, 70000, -5, 1 << 40, 2]
    assert by_kind[9][0] == posted
    assert [fields for kind, fields in records if kind == 16] == [[name, b"augment"], [key, b"key"]]
    assert [fields for kind, fields in records if kind == 17] == [[1, 1, 0, b"stream"], [2, 0, 1, b""]]
    small, large = (fields for kind, fields in records if kind == 18)
    assert small[:3] == [3, 1, name] and small[4:6] == [3000, 8] and small[7:10] == [5, 0, 3]
    assert small[10:] == [key, 0, -70000, key, 1, struct.pack("<d", 0.5), key, 2, name]
    assert large[:3] == [3, 2, name] and large[4:6] == [3000, 0] and large[7:10] == [0, 0, 40]
    assert large[10:] == [part for number in range(40) for part in (key, 1, struct.pack("<d", number / 4))]
    assert by_kind[12][2:6] == [1, group, 5, -1]
    assert by_kind[13] == [b"note"]
    assert by_kind[14][1] == 9
    kinds = [kind for kind, _ in records]
    assert kinds.index(2) < kinds.index(3) < kinds.index(8), "definitions stand before their use"
    record = ProcessRecord.read(file)
    base, enter = by_kind[5][0], by_kind[8][9]
    assert isinstance(base, int) and isinstance(enter, int)
    assert record.events.enter_ns[0] == base + enter or kinds.count(5) > 1


# ---- damage ----


def test_a_torn_file_loses_its_last_block_only(tmp_path: Path) -> None:
    whole = tmp_path / "whole.rec"
    write_events(whole, 60, 20)
    data = whole.read_bytes()
    offsets = block_offsets(data)
    for size in range(16, len(data)):
        torn = tmp_path / "torn.rec"
        torn.write_bytes(data[:size])
        record = ProcessRecord.read(torn)
        blocks = sum(offset <= size for offset in offsets) - 1
        assert len(record.events) == min(blocks * 20, 60)
        assert bool(record.troubles) == (size not in offsets)
        assert not record.ended


def test_a_damaged_block_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "r.rec"
    write_events(file, 60, 20)
    data = bytearray(file.read_bytes())
    offsets = block_offsets(bytes(data))
    for at in (offsets[1] + 16 + 7, offsets[1] + 8, offsets[1] + 4, offsets[1]):
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        file.write_bytes(damaged)
        record = ProcessRecord.read(file)
        assert sorted(record.events.seq) == [*range(20), *range(40, 60)], f"damage at {at - offsets[1]}"
        assert record.ended and len(record.troubles) == 1


def test_lost_definitions_leave_holes_and_no_circles(tmp_path: Path) -> None:
    file = tmp_path / "r.rec"
    with RecordWriter(file) as writer:
        writer.code(1, "a.py", "f")
        writer.call_path(1, 0, 1, 5)
        writer.flush()
        writer.code(2, "b.py", "g")
        writer.call_path(2, 1, 2, 6)
        writer.flush()
        writer.code(3, "c.py", "h")
        writer.call_path(3, 2, 3, 7)
        writer.call_path(4, 5, 3, 7)
        writer.call_path(5, 4, 3, 7)
    data = bytearray(file.read_bytes())
    data[block_offsets(bytes(data))[1] + 20] ^= 1
    file.write_bytes(data)
    record = ProcessRecord.read(file)
    assert [frame.code.name for frame in record.frames(3)] == ["h"]
    assert [frame.code.name for frame in record.frames(1)] == ["f"]
    assert len(record.frames(5)) == 2
    assert record.frames(2) == [] and record.frames(99) == [] and record.frames(-1) == []


@pytest.mark.slow
def test_no_bytes_crash_the_reader(tmp_path: Path) -> None:
    file = tmp_path / "r.rec"
    with RecordWriter(file, 600) as writer:
        for i in range(20):
            writer.event(2 * i + 2, 2, 10**12 + i * 1000, 500, seq=i, path=1)
            lane = writer.lane(i % 5, f"lane {i % 7}", i % 3 - 1)
            writer.span(i % 16, f"name {i % 4}", 10**12, i, lane=lane, attributes={"a": i, "b": i / 3, f"c{i}": "text"})
            writer.span_total(i % 16, "name 1", i, i)
            writer.unwritten(10**12, i)
    data = file.read_bytes()
    offsets = block_offsets(data)
    rng = random.Random(11)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(16, len(damaged))] = rng.randrange(256)
        if rng.random() < 0.8:  # let the damage through to the decoder
            for start, end in zip(offsets, offsets[1:], strict=False):
                damaged[start : start + 8] = data[start : start + 8]
                struct.pack_into("<I", damaged, start + 8, zlib.crc32(damaged[start + 16 : end]))
        file.write_bytes(damaged)
        record = ProcessRecord.read(file)
        for path in range(len(record.paths)):
            record.frames(path)
        assert all(0 <= name < len(record.names) for name in (*record.spans.name, *record.attributes.key))
        assert all(0 <= lane < len(record.lanes) for lane in record.spans.lane)
        assert list(record.spans.last) == sorted(record.spans.last)
        assert len(record.attributes) == max(record.spans.last, default=0)


def test_what_is_no_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="missing.rec"):
        ProcessRecord.read(tmp_path / "missing.rec")
    for name, data in {"empty": b"", "text": b"hello world, this is text", "short": b"SCALANA1\x01"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(RecordError, match=name):
            ProcessRecord.read(tmp_path / name)
    for name, versions in {"later": (3, 3), "other": (3, 0), "none": (0, 0)}.items():
        (tmp_path / name).write_bytes(b"SCALANA1" + struct.pack("<II", *versions))
        with pytest.raises(RecordError, match=rf"{name}.*newer version"):
            ProcessRecord.read(tmp_path / name)


# ---- versions ----


def test_a_file_of_version_1_is_read() -> None:
    record = ProcessRecord.read(Path(__file__).parent / "data" / "version1.rec")
    assert record.troubles == [] and record.ended and len(record.samples) == len(record.events) == 1
    spans = record.spans
    assert [SPAN_TYPES[kind] for kind in spans.type] == ["region", "step", "step", "region"]
    assert [record.names[name] for name in spans.name] == ["augment", "0", "1", "augment"]
    assert spans.step.tolist() == [-1, 0, 1, -1], "steps were named by their numbers"
    assert [record.lanes[lane].thread for lane in spans.lane] == [0, 0, 0, 1]
    assert spans.cpu_ns.tolist() == [400_000, 1_000_000, 900_000, 0]
    assert [frame.code.name for frame in record.frames(spans.path[0])] == ["<module>", "augment"]
    unwritten = record.unwritten
    assert (unwritten.start_ns.tolist(), unwritten.cpu_ns.tolist()) == ([3_000_000], [90_000])


def test_what_a_newer_writer_adds_is_skipped_and_told_once_a_kind(tmp_path: Path) -> None:
    file = tmp_path / "r.rec"
    with RecordWriter(file) as writer:
        writer.span(1, "before", 1_000_000, 500)
        for kind, body in ((200, b""), (77, b"x" * 200), (200, b"\x80")):
            writer._put_sized(kind, body)
        longer = bytes([1]) * 9 + bytes([0]) + b"what a later version says of spans"
        writer._put_sized(record_format.SPAN, longer)
        writer.span(1, "after", 3_000_000, 500)
    data = bytearray(file.read_bytes())
    struct.pack_into("<II", data, 8, 7, 2)
    file.write_bytes(data)
    record = ProcessRecord.read(file)
    assert record.troubles == [
        "1 records of kind 77, written by a newer scalana, were skipped",
        "2 records of kind 200, written by a newer scalana, were skipped",
    ]
    assert [record.names[name] for name in record.spans.name] == ["before", "before", "after"]


def test_types_of_spans_are_those_of_the_extension() -> None:
    assert record_format.SPAN_TYPES == _core.span_types
    assert record_format.SPAN_TYPE["action"] == 6 and "" not in record_format.SPAN_TYPE


def test_unknown_cpu_time_is_not_zero(tmp_path: Path) -> None:
    file = tmp_path / "r.rec"
    with RecordWriter(file) as writer:
        for cpu in (0, -1, 5):
            writer.event(2, 2, 1_000_000, 500, cpu_enter_ns=cpu, cpu_ns=cpu, flags=1 | 3 << 8)
            writer.sample(0, 1_000_000, 0, cpu, 0, 2)
    record = ProcessRecord.read(file)
    assert record.events.cpu_ns.tolist() == record.events.cpu_enter_ns.tolist() == [0, -1, 5]
    assert record.events.flags.tolist() == [1 | 3 << 8] * 3
    assert record.samples.cpu_us.tolist() == [0, -1, 5] and record.samples.core_wait_us.tolist() == [0, -1, 0]
    assert record.samples.state.tolist() == [2, 2, 2]


_SPANS = st.lists(
    st.tuples(
        st.integers(0, 2**31 - 1),
        st.text(max_size=300),
        st.integers(1, 2**62),
        st.integers(0, 2**62),
        st.integers(-1, 2**62),
        st.integers(0, 2**62),
        st.integers(-1, 2**62),
        st.dictionaries(
            st.text(max_size=20),
            st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=200)),
            max_size=6,
        ),
        st.integers(0, 4),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(_SPANS, st.integers(64, 4096))
def test_every_span_comes_back(spans: list[tuple[Any, ...]], block_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with RecordWriter(Path(folder) / "r.rec", block_bytes) as writer:
            for kind, name, start, duration, cpu, event, step, attributes, lane in spans:
                on = writer.lane(lane, name, lane - 1)
                fields = {"cpu_ns": cpu, "event": event, "step": step, "attributes": attributes}
                writer.span(kind, name, start, duration, lane=on, **fields)
        record = ProcessRecord.read(Path(folder) / "r.rec")
    assert record.troubles == []
    c = record.spans
    columns = (c.type, c.start_ns, c.duration_ns, c.cpu_ns, c.event, c.step)
    assert list(zip(*columns)) == [(s[0], *s[2:7]) for s in spans]
    assert [record.names[name] for name in c.name] == [s[1] for s in spans]
    assert [record.lanes[lane] for lane in c.lane] == [(s[8], s[8] - 1, s[1]) for s in spans]
    assert [attributes_of(record, row) for row in range(len(spans))] == [s[7] for s in spans]


# ---- folders ----


def test_run_folder(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="nowhere"):
        RunFolder(tmp_path / "nowhere")
    folder = RunFolder(tmp_path)
    assert folder.info == {}
    with pytest.raises(RecordError, match="no records"):
        folder.processes()
    write_info(tmp_path, {"command": ["python", "ü.py"], "exit_code": 3})
    write_info(tmp_path, {"command": ["python", "ü.py"], "exit_code": 4})
    assert folder.info["exit_code"] == 4
    assert sorted(os.listdir(tmp_path)) == ["run.json"], "nothing temporary is left"
    (tmp_path / "records").mkdir()
    for rank in (1, 0, -1):
        with RecordWriter(tmp_path / "records" / f"{rank}.rec") as writer:
            if rank >= 0:
                writer.meta("rank", str(rank))
    (tmp_path / "records" / "bad.rec").write_bytes(b"x")
    assert [record.rank for record in folder.processes()] == [0, 1, -1]
    assert len(folder.troubles) == 1 and "bad.rec" in folder.troubles[0]
    (tmp_path / "run.json").write_text(json.dumps([1]))
    with pytest.raises(RecordError, match=r"run\.json"):
        _ = folder.info
