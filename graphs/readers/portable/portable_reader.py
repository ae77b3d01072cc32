"""Reads a record into columns with numpy alone: what ``_core.read`` does in C, and with the same result.

Where the extension is not there, on another system or another Python, records are read by this. It takes some times as
long: the way from record to record is one step of Python each, and all else is done for all records of a block at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scalana.graphs.readers.portable import span_fields
from scalana.graphs.readers.portable.definitions import Definitions
from scalana.graphs.readers.portable.file_blocks import Block, blocks, check_header
from scalana.graphs.readers.portable.record_places import (
    NUMBERS,
    SIZED,
    UNWRITTEN_NUMBERS,
    RecordPlaces,
    group_of,
    record_places,
)
from scalana.graphs.readers.portable.record_tables import TABLES, Tables, table
from scalana.graphs.readers.portable.varints import Cursor, Numbers, Places, Unsigned, zigzag
from scalana.runtime.record.format import (
    CODE,
    DONE,
    END,
    EVENT,
    EVENT_CPU_UNKNOWN,
    GROUP,
    LANE,
    META,
    NOTE,
    OPEN,
    PATH,
    SAMPLE,
    SPAN,
    SPAN_TOTAL,
    STATE_CPU_UNKNOWN,
    STEP,
    STRIDED_GROUP,
    STRING,
    THREAD,
    TIME,
    TOTAL,
    UNWRITTEN,
    UNWRITTEN_CALLS,
)

_LONGEST_STEP_NAME = 18
_PLAIN = (META, CODE, THREAD, GROUP, NOTE, UNWRITTEN, STRIDED_GROUP, STRING, LANE)
"""Kinds with texts, which are read one by one."""
_known = threading.Lock()
"""Held while what records have in common is looked up, or made."""


@dataclass(slots=True)
class _Content:
    """What was read of a file so far."""

    tables: Tables = field(default_factory=Tables)
    definitions: Definitions = field(default_factory=Definitions)
    meta: list[tuple[str, str]] = field(default_factory=list)
    codes: list[tuple[int, bytes]] = field(default_factory=list)
    """Id, and all that follows as it stands in the file."""
    threads: list[tuple[int, int, str, int]] = field(default_factory=list)
    groups: list[tuple[int, str, int, bool, bytes]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    skipped: dict[int, int] = field(default_factory=dict)
    """Records of kinds that are not known."""
    moments: list[tuple[int, int]] = field(default_factory=list)
    """Earliest and latest moments."""
    blocks: int = 0
    ended: bool = False
    status: int = -1

    def saw(self, times: Unsigned) -> None:
        """Moments in the record; 0 is none."""
        times = times[times > 0]
        if len(times):
            self.moments.append((int(times.min()), int(times.max())))


def read(
    path: str | os.PathLike[str],
    code_type: Callable[..., Any],
    codes: list[Any],
    code_rows: dict[bytes, int],
    ranks: dict[tuple[bool, bytes], memoryview[int]],
) -> dict[str, Any]:
    """Read a record, as ``_core.read`` does.

    Args:
        path: of the file.
        code_type: called with file, name, first line, minor version and line table.
        codes: its objects, each once; new ones are appended.
        code_rows: their rows by what stands in the file.
        ranks: members of groups, likewise.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no record, or one of a newer version.
    """
    with open(path, "rb") as file:
        data = file.read()
    check_header(data, os.fspath(path))
    content = _Content()
    for block in blocks(data, content.troubles):
        content.blocks += 1
        _read_block(content, data, block)
    for kind, count in sorted(content.skipped.items()):
        content.troubles.append(f"{count} records of kind {kind}, written by a newer scalana, were skipped")
    with _known:
        own = [_code_row(content_of, code_type, codes, code_rows) for _, content_of in content.codes]
        groups = [(*group[:3], _members(*group[3:], ranks)) for group in content.groups]
    columns = content.tables.columns(content.definitions)
    ids = columns["paths"][0]
    return {
        "meta": content.meta,
        "codes": tuple(
            memoryview(np.array(part, np.uint64).tobytes()).cast("q") for part in ([c for c, _ in content.codes], own)
        ),
        "threads": content.threads,
        "groups": groups,
        "notes": content.notes,
        "names": content.definitions.names,
        "lanes": content.definitions.lanes,
        "troubles": content.troubles,
        "dense_paths": bool((ids == np.arange(len(ids))).all()),
        **{name: table(name, columns[name]) for name in TABLES},
        "ended": content.ended,
        "status": content.status,
        "first_ns": min((first for first, _ in content.moments), default=0),
        "last_ns": max((last for _, last in content.moments), default=0),
        "blocks": content.blocks,
    }


def _read_block(content: _Content, data: bytes, block: Block) -> None:
    payload = data[block.begin : block.end]
    numbers = Numbers.of(np.frombuffer(payload, np.uint8))
    places = record_places(payload, numbers)
    spans, attributes = span_fields.spans(numbers.data, places.of(SPAN))
    sums = span_fields.sums(numbers.data, places.of(SPAN_TOTAL))
    bad = [*spans.bad[:1], *sums.bad[:1], *_bad_definitions(payload, places)]
    if bad:
        places = places.before(int(min(bad)))
    if places.torn >= 0:
        content.troubles.append(
            f"rest of block {block.number} dropped: unreadable record of kind {payload[places.torn]} at offset "
            f"{block.begin + places.torn}"
        )
    unknown, counts = np.unique(places.kind[places.kind > SPAN_TOTAL], return_counts=True)
    for kind, count in zip(unknown.tolist(), counts.tolist(), strict=True):
        content.skipped[kind] = content.skipped.get(kind, 0) + count
    behind = places.torn if places.torn >= 0 else len(payload)
    reader = _BlockReader(content, payload, numbers, places, block.begin)
    reader.read_numbers()
    reader.read_spans(spans, attributes, behind)
    reader.read_sums(sums, behind)
    reader.read_plain()


def _bad_definitions(payload: bytes, places: RecordPlaces) -> Iterator[int]:
    """The first STRING and the first LANE that do not fit into their bodies."""
    for kind in (STRING, LANE):
        for at in places.of(kind).tolist():
            cursor = _body(payload, at)
            cursor.take()
            if kind == LANE:
                cursor.take()
                cursor.take()
            cursor.take_bytes()
            if cursor.bad:
                yield at
                break


def _body(payload: bytes, at: int) -> Cursor:
    cursor = Cursor(payload, at + 1, len(payload))
    size = cursor.take()
    return Cursor(payload, cursor.at, cursor.at + size)


class _BlockReader:
    """Reads the records of a block, whose places are known.

    Args:
        begin: of the payload in the file.
    """

    def __init__(self, content: _Content, payload: bytes, numbers: Numbers, places: RecordPlaces, begin: int) -> None:
        self.content, self.payload, self.numbers, self.places, self.begin = content, payload, numbers, places, begin
        self.time_at = places.of(TIME)
        (self.times,) = numbers.fields(self.time_at, 1)
        content.saw(self.times)
        self.is_short = places.kind == UNWRITTEN
        self.is_short[self.is_short] = [self._is_short(place) for place in places.of(UNWRITTEN).tolist()]
        """Which records are UNWRITTEN without a text."""

    def fields(self, kind: int) -> tuple[Places, list[Unsigned]]:
        """Where records of a kind are, and their fields."""
        at = self.places.of(kind)
        return at, self.numbers.fields(at, NUMBERS[kind])

    def bases(self, at: Places) -> Unsigned:
        """What the times of records count from."""
        return np.concatenate((np.zeros(1, np.uint64), self.times))[np.searchsorted(self.time_at, at)]

    def time(self, at: Places, field: Unsigned) -> Unsigned:
        """Moments that are written as what has passed since the base."""
        return self.bases(at) + zigzag(field).view(np.uint64)

    def put(self, name: str, at: Places, columns: Sequence[Any]) -> None:
        """Add rows to a table."""
        self.content.tables.put(name, at + self.begin, columns)

    def read_numbers(self) -> None:
        """All kinds that are numbers alone."""
        content = self.content
        self.put("paths", *self.fields(PATH))
        self.put("totals", *self.fields(TOTAL))
        self._read_samples()
        self._read_events()
        at, (event, done, cpu, source) = self.fields(DONE)
        done = self.time(at, done)
        content.saw(done)
        self.put("done", at, (event, done, cpu, zigzag(source)))
        at, (thread, event, operation, group, seq, peer, path, enter) = self.fields(OPEN)
        of_call = (thread, event, operation, group, seq, zigzag(peer), path)
        self.put("open", at, (*of_call, self.time(at, enter), self.bases(at)))
        at, (end, status) = self.fields(END)
        if len(at):
            content.saw(self.time(at, end))
            content.ended, content.status = True, int(zigzag(status)[-1])
        self._read_unwritten()

    def _read_samples(self) -> None:
        at, (thread, step, path, cpu, core_wait, state) = self.fields(SAMPLE)
        passed = np.concatenate((np.zeros(1, np.int64), np.cumsum(zigzag(step), dtype=np.int64)))
        before = np.searchsorted(at, np.concatenate((np.zeros(1, np.int64), self.time_at)))
        micros = passed[1:] - passed[before[np.searchsorted(self.time_at, at)]]
        time = self.bases(at) + micros.view(np.uint64) * np.uint64(1000)
        unknown = (state & np.uint64(STATE_CPU_UNKNOWN)) != 0
        state[unknown] &= ~np.uint64(STATE_CPU_UNKNOWN)
        cpu[unknown] = core_wait[unknown] = np.uint64((1 << 64) - 1)
        self.content.saw(time)
        self.put("samples", at, (thread, time, path, cpu, core_wait, state))

    def _read_events(self) -> None:
        at, columns = self.fields(EVENT)
        event, thread, operation, group, seq, peer, tag, size, flags, enter, duration, *rest = columns
        cpu_enter, cpu, path, completes = rest
        enter = self.time(at, enter)
        unknown = (flags & np.uint64(EVENT_CPU_UNKNOWN)) != 0
        flags[unknown] &= ~np.uint64(EVENT_CPU_UNKNOWN)
        cpu_enter[unknown] = cpu[unknown] = np.uint64((1 << 64) - 1)
        self.content.saw(enter)
        self.content.saw(enter + duration)
        which = (event, thread, operation, group, seq, zigzag(peer), zigzag(tag), size, flags)
        self.put("events", at, (*which, enter, duration, cpu_enter, cpu, path, completes))

    def _read_unwritten(self) -> None:
        """Those without a text; in version 1 some are spans."""
        at = self.places.at[self.is_short]
        _, thread, _, start, duration, cpu, _ = self.numbers.fields(at, UNWRITTEN_NUMBERS)
        self._put_unwritten(at, thread, self.time(at, start), duration, cpu)

    def _is_short(self, at: int) -> bool:
        cursor = Cursor(self.payload, at + 1, len(self.payload))
        kind, _, size = cursor.take(), cursor.take(), cursor.take()
        return kind == UNWRITTEN_CALLS and size == 0

    def _put_unwritten(self, at: Places, thread: Unsigned, start: Unsigned, duration: Unsigned, cpu: Unsigned) -> None:
        self.content.saw(start)
        self.content.saw(start + duration)
        self.put("unwritten", at, (thread, start, duration, cpu))

    def _read_old_span(self, place: int) -> None:
        cursor = Cursor(self.payload, place + 1, len(self.payload))
        kind, thread, name = cursor.take(), cursor.take(), cursor.take_text()
        start, duration, cpu, path = (np.array([cursor.take()], np.uint64) for _ in range(4))
        at = np.array([place], np.int64)
        start = self.time(at, start)
        if kind == UNWRITTEN_CALLS:
            self._put_unwritten(at, np.array([thread], np.uint64), start, duration, cpu)
            return
        self.content.saw(start)
        self.content.saw(start + duration)
        definitions = self.content.definitions
        lane = definitions.lane_of_thread(thread, self.begin + place)
        row = definitions.name_row(name)
        none = np.zeros(1, np.uint64)
        step = np.array([_step_number(name) if kind == STEP else -1], np.int64)
        self.content.tables.put_spans(
            at + self.begin, (np.array([kind], np.uint64), start, duration, cpu, path, none, step), (lane, row)
        )

    def read_spans(self, spans: span_fields.Fields, attributes: span_fields.Attributes, behind: int) -> None:
        """Spans before a place, and their attributes."""
        good = spans.at < behind
        at = spans.at[good]
        kind, lane, name, start, duration, cpu, path, event, step = (column[good] for column in spans.columns)
        start = self.time(at, start)
        self.content.saw(start)
        self.content.saw(start + duration)
        one = np.uint64(1)
        tables = self.content.tables
        tables.put_spans(at + self.begin, (kind, start, duration, cpu - one, path, event, step - one), None, lane, name)
        good = attributes.span < behind
        tables.put(
            "attributes",
            attributes.span[good] + self.begin,
            (attributes.key[good], attributes.tag[good], attributes.value[good]),
        )

    def read_sums(self, sums: span_fields.Fields, behind: int) -> None:
        """Sums of spans before a place."""
        good = sums.at < behind
        self.put("span_totals", sums.at[good], [column[good] for column in sums.columns])

    def read_plain(self) -> None:
        """All kinds with texts, in the order of the file."""
        content = self.content
        chosen = np.isin(self.places.kind, _PLAIN) & ~self.is_short
        for at, kind in zip(self.places.at[chosen].tolist(), self.places.kind[chosen].tolist(), strict=True):
            cursor = _body(self.payload, at) if kind >= SIZED else Cursor(self.payload, at + 1, len(self.payload))
            place = self.begin + at
            if kind == META:
                content.meta.append((cursor.take_text(), cursor.take_text()))
            elif kind == CODE:
                content.codes.append((cursor.take(), _rest_of_code(cursor)))
            elif kind == THREAD:
                content.threads.append((cursor.take(), cursor.take(), cursor.take_text(), cursor.take()))
            elif kind == NOTE:
                content.notes.append(cursor.take_text())
            elif kind == UNWRITTEN:
                self._read_old_span(at)
            elif kind == STRING:
                content.definitions.string(cursor.take(), cursor.take_text(), place)
            elif kind == LANE:
                _define_lane(content.definitions, cursor, place)
            else:
                number, name, own, members = group_of(cursor, kind == STRIDED_GROUP)
                content.groups.append((number, name, own, kind == STRIDED_GROUP, members))


def _define_lane(definitions: Definitions, cursor: Cursor, place: int) -> None:
    number, kind, thread, name = cursor.take(), cursor.take(), cursor.take(), cursor.take_text()
    if number:
        definitions.lane(number, (kind, thread - 1 if thread < 1 << 31 else -1, name), place)


def _step_number(name: str) -> int:
    """Steps of version 1 were named by their numbers."""
    return int(name) if len(name) <= _LONGEST_STEP_NAME and name.isascii() and name.isdecimal() else -1


def _rest_of_code(cursor: Cursor) -> bytes:
    begin = cursor.at
    cursor.take_bytes()
    cursor.take_bytes()
    cursor.take()
    cursor.take()
    cursor.take_bytes()
    return cursor.data[begin : cursor.at]


def _code_row(content: bytes, code_type: Callable[..., Any], codes: list[Any], rows: dict[bytes, int]) -> int:
    """Row of a code in the list of all, which it is appended to if it is new."""
    row = rows.get(content)
    if row is None:
        cursor = Cursor(content, 0, len(content))
        file, name = cursor.take_text(), cursor.take_text()
        first_line, minor = cursor.take(), cursor.take()
        row = rows[content] = len(codes)
        codes.append(code_type(file, name, first_line, minor, cursor.take_bytes()))
    return row


def _members(strided: bool, content: bytes, ranks: dict[tuple[bool, bytes], memoryview[int]]) -> memoryview[int]:
    """World ranks of the members of a group: the same object for all that stand alike in their files."""
    known = ranks.get((strided, content))
    if known is None:
        cursor = Cursor(content, 0, len(content))
        members: list[Places] = []
        while cursor.at < cursor.end:
            first, step, count = cursor.take(), *((cursor.take_signed(), cursor.take()) if strided else (0, 1))
            with np.errstate(over="ignore"):
                offsets = np.arange(count, dtype=np.int64) * np.int64(step)
                members.append(offsets + np.array([first], np.uint64).view(np.int64))
        flat = np.concatenate(members) if members else np.zeros(0, np.int64)
        known = memoryview(np.clip(flat, -(1 << 31), (1 << 31) - 1).astype(np.int32).tobytes()).cast("i")
        ranks[strided, content] = known
    return known
