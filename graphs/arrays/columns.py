"""Dataclasses of columns as tables: rows counted, taken, put together, made narrower; nanoseconds and seconds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.types import FloatArray, IntArray

_Columns = TypeVar("_Columns")


class ColumnTable:
    """A dataclass of columns: arrays with as many rows each, the first field among them."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.__dataclass_fields__))))

    def take(self: _Columns, rows: npt.NDArray[np.generic] | slice) -> _Columns:
        """The given rows (numbers, a mask or a slice)."""
        return take(self, rows)


def to_seconds(time_ns: IntArray) -> FloatArray:
    """Nanoseconds as seconds."""
    return np.asarray(time_ns * 1e-9, dtype=np.float64)


def to_ns(time_s: FloatArray) -> IntArray:
    """Seconds as the nanoseconds that :func:`to_seconds` had."""
    return np.rint(time_s / 1e-9).astype(np.int64)


def take(columns: _Columns, rows: npt.NDArray[np.generic] | slice) -> _Columns:
    """The given rows (numbers, a mask or a slice) of a dataclass of columns."""
    return type(columns)(*(getattr(columns, column.name)[rows] for column in fields(columns)))  # type: ignore[arg-type]


def emptied(columns: _Columns) -> _Columns:
    """The same columns without rows. (No slice: that would keep the memory of all.)"""
    return take(columns, np.zeros(0, np.int64))


def forget(columns: _Columns, *names: str) -> None:
    """Give up what some columns of a table tell: they say -1 in every row, and take no memory."""
    for name in names:
        setattr(columns, name, np.broadcast_to(np.int8(-1), getattr(columns, name).shape))


def append(columns: _Columns, more: _Columns) -> None:
    """Put rows behind those of a table, which is changed: column by column, so that no more than one is there twice."""
    for column in fields(columns):  # type: ignore[arg-type]
        both = getattr(columns, column.name), getattr(more, column.name)
        setattr(columns, column.name, np.concatenate(both))


def narrowed(columns: _Columns) -> _Columns:
    """The same rows, integers no wider than need be."""
    return type(columns)(*(narrow(getattr(columns, column.name)) for column in fields(columns)))  # type: ignore[arg-type]


def widened(columns: _Columns) -> _Columns:
    """The same rows, integers as int64: narrow ones save memory, but must not be calculated with."""
    return type(columns)(*(wide(getattr(columns, column.name)) for column in fields(columns)))  # type: ignore[arg-type]


def narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers in the narrowest type that holds them all."""
    if values.dtype != np.int64 or not values.size:
        return values
    low, high = int(values.min()), int(values.max())
    for width in (np.int8, np.int16, np.int32):
        if np.iinfo(width).min <= low and high <= np.iinfo(width).max:
            return values.astype(width)
    return values


def wide(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers as int64."""
    return values.astype(np.int64) if values.dtype.kind == "i" and values.dtype != np.int64 else values


def concatenate(parts: list[_Columns], kind: type[_Columns]) -> _Columns:
    """Rows of several dataclasses of columns after each other."""
    names = [column.name for column in fields(kind)]  # type: ignore[arg-type]
    if not parts:
        return kind(*(np.zeros(0, np.int64) for _ in names))
    return kind(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
