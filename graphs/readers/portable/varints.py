"""Numbers of a block, many at once: every array has an entry for each of some records of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Unsigned = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
_LONGEST = 10
"""Bytes of a varint of 64 bits."""


def zigzag(values: Unsigned) -> Places:
    """Signed values of unsigned ones."""
    return ((values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))).view(np.int64)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Where the varints of a block would end, and how many end before each byte."""

    data: Bytes
    ends: Places
    before: Places
    too_long: Places | None
    """How many of the varints before each one are longer than any number; None where none is."""

    @classmethod
    def of(cls, data: Bytes) -> Numbers:
        """Of the payload of a block."""
        last = data < 0x80
        ends = np.flatnonzero(last)
        before = np.cumsum(last, dtype=np.int64) - last
        wrong = np.diff(ends, prepend=-1) > _LONGEST
        too_long = np.concatenate(([0], np.cumsum(wrong, dtype=np.int64))) if wrong.any() else None
        return cls(data, ends, before, too_long)

    def fields(self, records: Places, count: int) -> list[Unsigned]:
        """The fields of records that are nothing but so many varints behind the byte of their kind."""
        first = self.before[records]
        return [self._values(self.ends[first + i] + 1, self.ends[first + i + 1] + 1) for i in range(count)]

    def _values(self, begin: Places, behind: Places) -> Unsigned:
        size = behind - begin
        values = (self.data[begin] & 0x7F).astype(np.uint64)
        for i in range(1, int(size.max(initial=0))):
            rows = np.flatnonzero(size > i)
            values[rows] |= (self.data[begin[rows] + i] & 0x7F).astype(np.uint64) << np.uint64(7 * i)
        return values


class Cursors:
    """Places in a block from which values are taken, one each; all in their records, or else bad.

    Args:
        data: the payload of the block.
        at: where the values begin.
        end: behind what each record holds.
    """

    def __init__(self, data: Bytes, at: Places, end: Places) -> None:
        self.data = data
        self.at = at.astype(np.int64)
        self.end = end.astype(np.int64)
        self.bad = np.zeros(len(at), np.bool_)

    def take(self, rows: Any = slice(None)) -> Unsigned:
        """The next varints; 0 where one is bad."""
        at, end, bad = self.at[rows], self.end[rows], self.bad[rows]
        values = np.zeros(len(at), np.uint64)
        going = np.flatnonzero(~bad)
        for i in range(_LONGEST):
            outside = at[going] >= end[going]
            bad[going[outside]] = True
            going = going[~outside]
            byte = self.data[at[going]]
            at[going] += 1
            values[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * i)
            going = going[byte >= 0x80]
            if not len(going):
                break
        bad[going] = True
        values[bad] = 0
        self.at[rows], self.bad[rows] = at, bad
        return values

    def take_bits(self, rows: Places) -> Unsigned:
        """Eight bytes each."""
        at = self.at[rows]
        short = self.end[rows] - at < 8
        self.bad[rows[short]] = True
        values = np.zeros(len(rows), np.uint64)
        whole = np.flatnonzero(~short)
        for i in range(8):
            values[whole] |= self.data[at[whole] + i].astype(np.uint64) << np.uint64(8 * i)
        self.at[rows[whole]] += 8
        return values


class Cursor:
    """One place in a block, in plain Python: for records with texts, of which there are few."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end
        self.bad = False

    def take(self) -> int:
        """The next varint; 0, and bad, where there is none."""
        value = 0
        for shift in range(0, 7 * _LONGEST, 7):
            if self.at >= self.end:
                break
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF
        self.bad = True
        return 0

    def take_signed(self) -> int:
        """The next signed varint."""
        value = self.take()
        return (value >> 1) ^ -(value & 1)

    def take_bytes(self) -> bytes:
        """The next text, as it stands in the file."""
        size = self.take()
        if self.bad or size > self.end - self.at:
            self.bad = True
            return b""
        self.at += size
        return self.data[self.at - size : self.at]

    def take_text(self) -> str:
        """The next text."""
        return self.take_bytes().decode("utf-8", "surrogateescape")
