"""Rows that stand together."""

from __future__ import annotations

from dataclasses import dataclass

from ..rows import Row


@dataclass(frozen=True)
class Topic:
    """A section of the document."""

    title: str
    rows: tuple[Row, ...]
