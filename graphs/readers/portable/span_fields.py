"""The fields of spans and of their sums: each stands in a body of known size, as a newer writer may add some."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.readers.portable.varints import Bytes, Cursors, Places, Unsigned, zigzag
from scalana.runtime.record.format import ATTRIBUTE_NUMBER, ATTRIBUTE_REAL

SPAN_NUMBERS, TOTAL_NUMBERS = 9, 7
"""Fields of a span before its attributes; of a sum of spans."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Records of one kind, as far as they can be read."""

    at: Places
    """Of the byte of the kind, in the payload."""
    columns: list[Unsigned]
    bad: Places
    """Where records are that do not fit into their bodies."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Of spans, in their order."""

    span: Places
    """Where its span is, in the payload."""
    key: Unsigned
    tag: Unsigned
    value: Places


def bodies(data: Bytes, at: Places) -> Cursors:
    """Cursors in the bodies of records of a known size."""
    cursors = Cursors(data, at + 1, np.full(len(at), len(data)))
    size = cursors.take().astype(np.int64)
    cursors.end = cursors.at + size
    return cursors


def sums(data: Bytes, at: Places) -> Fields:
    """SPAN TOTAL records."""
    cursors = bodies(data, at)
    columns = [cursors.take() for _ in range(TOTAL_NUMBERS)]
    good = ~cursors.bad
    return Fields(at[good], [column[good] for column in columns], at[cursors.bad])


def spans(data: Bytes, at: Places) -> tuple[Fields, Attributes]:
    """SPAN records."""
    cursors = bodies(data, at)
    columns = [cursors.take() for _ in range(SPAN_NUMBERS)]
    attributes = _attributes(cursors, at, cursors.take())
    good = ~cursors.bad
    return Fields(at[good], [column[good] for column in columns], at[cursors.bad]), attributes


def _attributes(cursors: Cursors, at: Places, count: Unsigned) -> Attributes:
    """All first attributes, then all second ones, and so on; those of records that turn out to be bad are left out."""
    going = np.flatnonzero(~cursors.bad & (count > 0))
    parts = []
    number = 0
    while len(going):
        key, tag = cursors.take(going), cursors.take(going)
        value = np.zeros(len(going), np.int64)
        is_number, is_real = tag == ATTRIBUTE_NUMBER, tag == ATTRIBUTE_REAL
        value[is_number] = zigzag(cursors.take(going[is_number]))
        value[is_real] = cursors.take_bits(going[is_real]).view(np.int64)
        others = ~(is_number | is_real)
        value[others] = cursors.take(going[others]).view(np.int64)
        number += 1
        parts.append((going, key, tag, value))
        going = going[~cursors.bad[going] & (count[going] > number)]
    if not parts:
        none = np.zeros(0, np.uint64)
        return Attributes(np.zeros(0, np.int64), none, none, np.zeros(0, np.int64))
    rows, keys, tags, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    order = order[~cursors.bad[rows[order]]]
    return Attributes(at[rows[order]], keys[order], tags[order], values[order])
