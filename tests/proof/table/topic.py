"""Rows that stand together."""

from __future__ import annotations

from dataclasses import dataclass

from ..rows import Command, Elsewhere, Reader, Row


@dataclass(frozen=True)
class Topic:
    """A section of the document."""

    title: str
    rows: tuple[Row, ...]


Figure = tuple[str, str, str, str, Reader]
"""Name, claim, bar, unit, reader."""
Claim = tuple[str, str, str, str]
"""Name, claim, bar, unit."""


def measured(document: str, command: Command, *figures: Figure) -> tuple[Row, ...]:
    """Rows of one document that one command measures."""
    return tuple(Row(*figure[:4], document, command, figure[4]) for figure in figures)


def claimed(document: str, reason: str, *claims: Claim) -> tuple[Row, ...]:
    """Rows that no command of this repository measures."""
    return tuple(Row(*claim, document, Elsewhere(reason)) for claim in claims)
