"""Numbers for the distinct values of large columns, by hash tables: one pass, whatever their order."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import IntArray

_SMALL = 1 << 15
"""Rows up to which sorting is as fast."""
_MOST = 1 << 62


def distinct(key: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct keys in order, the first row of each, and the place of every row's key among them.

    Like ``numpy.unique(key, return_index=True, return_inverse=True)``, without sorting the rows.
    """
    if len(key) <= _SMALL:
        values, first, number = np.unique(key, return_index=True, return_inverse=True)
        return values, first.astype(np.int64), number.reshape(-1).astype(np.int64)
    return _distinct(np.ascontiguousarray(key, dtype=np.int64))


def _distinct(key: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    low = int(key.min())
    span = int(key.max()) - low + 1
    if span <= 2 * len(key):
        first, number = _number_dense(key, low, span)
        return key[first], first, number
    number, first = _number(key)
    values = key[first]
    order = np.argsort(values)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    _renumber(number, place)
    return values[order], first[order], number


def number_columns(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct rows of several columns in their order.

    Returns the number of each row, and a first row of each number.
    """
    _, first, number = distinct(packed(*columns))
    return number, first


def packed(*columns: IntArray) -> IntArray:
    """One number per row, in the order of the rows by their columns; equal for equal rows alone."""
    key = np.zeros(len(columns[0]), np.int64)
    if len(key) == 0:
        return key
    width = 1
    for column in columns:
        low = int(column.min())
        span = int(column.max()) - low + 1
        if width * span >= _MOST:
            values, _, key = distinct(key)
            width = len(values)
            if width * span >= _MOST:
                values, _, column = distinct(column)
                low, span = 0, len(values)
        if span > 1:
            key = key * span
            key += column
            key -= low
            width *= span
    return key


def ordered(number: IntArray, length: int) -> IntArray:
    """Rows in the order of their numbers, which are below ``length``; equal ones as they stand. One pass."""
    if len(number) <= _SMALL:
        return np.asarray(np.argsort(number, kind="stable"), dtype=np.int64)
    return np.asarray(_ordered(number, length))


@compiled
def _ordered(number, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    at = np.zeros(length + 1, np.int64)
    for value in number:
        at[value + 1] += 1
    for value in range(length):
        at[value + 1] += at[value]
    order = np.empty(len(number), np.int64)
    for row in range(len(number)):
        order[at[number[row]]] = row
        at[number[row]] += 1
    return order


@compiled
def _number_dense(key, low, span):  # type: ignore[no-untyped-def]  # pragma: no cover
    place = np.full(span, -1, np.int64)
    for row in range(len(key) - 1, -1, -1):
        place[key[row] - low] = row
    count = 0
    for value in range(span):
        if place[value] >= 0:
            count += 1
    first = np.empty(count, np.int64)
    count = 0
    for value in range(span):
        if place[value] >= 0:
            first[count] = place[value]
            place[value] = count
            count += 1
    number = np.empty(len(key), np.int64)
    for row in range(len(key)):
        number[row] = place[key[row] - low]
    return first, number


@compiled
def _fill(slots, key, first, used, shift):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put known keys into empty slots."""
    for known in range(used):
        slot = np.int64((np.uint64(key[first[known]]) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = known


@compiled
def _number(key):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Number keys in the order of their first rows."""
    capacity = 1 << 12
    slots = np.full(capacity, -1, np.int64)
    number = np.empty(len(key), np.int64)
    first = np.empty(capacity, np.int64)
    used = 0
    shift = np.uint64(52)
    factor = np.uint64(0x9E3779B97F4A7C15)
    for row in range(len(key)):
        value = key[row]
        slot = np.int64((np.uint64(value) * factor) >> shift)
        while slots[slot] >= 0 and key[first[slots[slot]]] != value:
            slot = (slot + 1) & (capacity - 1)
        if slots[slot] < 0:
            slots[slot] = used
            first[used] = row
            number[row] = used
            used += 1
            if 2 * used >= capacity:
                capacity *= 4
                shift -= np.uint64(2)
                slots = np.full(capacity, -1, np.int64)
                grown = np.empty(capacity, np.int64)
                for known in range(used):  # an assignment of slices would take two seconds to compile
                    grown[known] = first[known]
                first = grown
                _fill(slots, key, first, used, shift)
        else:
            number[row] = slots[slot]
    return number, first[:used].copy()


@compiled
def _renumber(number, place):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(len(number)):
        number[row] = place[number[row]]
