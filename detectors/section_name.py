"""Names of what an analysis holds beside findings, each with the type of what is behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class SectionName(Generic[T]):
    """The name of a section whose data are a ``T``; it is defined where that is."""

    name: str

    def __str__(self) -> str:
        return self.name
