"""Where the records of a block begin: each ends where the next one does, which only its fields say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.readers.portable.varints import Cursor, Numbers, Places
from scalana.runtime.record.format import (
    CODE,
    DONE,
    END,
    EVENT,
    GROUP,
    META,
    NOTE,
    OPEN,
    PATH,
    SAMPLE,
    STRIDED_GROUP,
    THREAD,
    TIME,
    TOTAL,
    UNWRITTEN,
    UNWRITTEN_CALLS,
)

NUMBERS = {PATH: 4, TIME: 1, SAMPLE: 6, EVENT: 15, DONE: 4, TOTAL: 7, OPEN: 8, END: 2}
"""Kinds of records that are nothing but varints, and how many."""
UNWRITTEN_NUMBERS = 7
"""Likewise of UNWRITTEN where its text is empty: the length of the text is one of them."""
SIZED = 16
"""From this kind on the size of the fields stands before them."""
_GROUP_MAX = 64 << 20
_TEXTS: dict[int, Sequence[str]] = {
    META: "tt", CODE: "nttnnt", THREAD: "nntn", NOTE: "t", UNWRITTEN: "nntnnnn",
}  # fmt: skip
"""Fields of kinds with texts: n a number, t a text."""


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """The records of a block, in their order."""

    at: Places
    """Of the byte of the kind, in the payload."""
    kind: Places
    torn: int
    """Where a record begins that cannot be read, so that all behind it is lost; -1 if there is none."""

    def before(self, torn: int) -> RecordPlaces:
        """Those before a record that cannot be read, as is found later."""
        rows = self.at < torn
        return RecordPlaces(self.at[rows], self.kind[rows], torn)

    def of(self, kind: int) -> Places:
        """Where the records of one kind are."""
        return self.at[self.kind == kind]


def record_places(payload: bytes, numbers: Numbers) -> RecordPlaces:
    """Go from record to record."""
    count = [NUMBERS.get(kind, 0) for kind in range(256)]
    ends, before = numbers.ends.tolist(), numbers.before.tolist()
    too_long = None if numbers.too_long is None else numbers.too_long.tolist()
    found: list[int] = []
    at, size, last = 0, len(payload), len(ends)
    while at < size:
        kind = payload[at]
        fields = count[kind]
        if kind == UNWRITTEN:
            fields = _fields_of_unwritten(payload, ends, before[at])
        if fields:
            first = before[at] + 1
            behind = first + fields
            if behind > last or (too_long is not None and too_long[behind] != too_long[first]):
                break
            after = ends[behind - 1] + 1
        else:
            after = _behind(payload, at, kind)
            if after < 0:
                break
        found.append(at)
        at = after
    places = np.array(found, np.int64)
    kinds = numbers.data[places].astype(np.int64)
    return RecordPlaces(places, kinds, at if at < size else -1)


def _fields_of_unwritten(payload: bytes, ends: list[int], before: int) -> int:
    """How many varints an UNWRITTEN record is; 0 if it has to be looked at by itself."""
    if before + 3 >= len(ends):
        return 0
    begin, kind, text = ends[before] + 1, ends[before + 1], ends[before + 2] + 1
    return UNWRITTEN_NUMBERS if kind == begin and payload[kind] == UNWRITTEN_CALLS and payload[text] == 0 else 0


def _behind(payload: bytes, at: int, kind: int) -> int:
    """Where a record ends that is not only numbers; -1 if it cannot be read."""
    cursor = Cursor(payload, at + 1, len(payload))
    if kind >= SIZED:
        cursor.take_bytes()
    elif kind in (GROUP, STRIDED_GROUP):
        group_of(cursor, kind == STRIDED_GROUP)
    elif kind in _TEXTS:
        for field in _TEXTS[kind]:
            if field == "t":
                cursor.take_bytes()
            else:
                cursor.take()
    else:
        return -1
    return -1 if cursor.bad else cursor.at


def group_of(cursor: Cursor, strided: bool) -> tuple[int, str, int, bytes]:
    """Id, name and own rank of a group, and its members as they stand in the file."""
    number, name, own, entries = cursor.take(), cursor.take_text(), cursor.take(), cursor.take()
    if cursor.bad or entries > cursor.end - cursor.at:  # an entry is at least one byte
        cursor.bad = True
        return 0, "", 0, b""
    begin, members = cursor.at, 0
    for _ in range(entries):
        cursor.take()
        if strided:
            cursor.take()
            members += cursor.take()
        if cursor.bad or members > _GROUP_MAX:
            cursor.bad = True
            break
    return number, name, own, cursor.data[begin : cursor.at]
