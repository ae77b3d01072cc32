"""One finding as data: what renderers draw of it, each in its own layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalana.report.document.pictures import Columns


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of source."""

    number: int
    text: str
    marked: bool
    """Whether it is part of the place itself, and not there for orientation."""


@dataclass(frozen=True, slots=True)
class Inside:
    """Where inside the place the time is spent."""

    place: str
    """File and line, where the rest is about another one."""
    text: str


@dataclass(frozen=True, slots=True)
class HopText:
    """One hop of the way from the symptom to the cause."""

    who: str
    what: str
    wait_s: float
    """0 where nothing is waited for."""
    place: str
    function: str


@dataclass(frozen=True, slots=True)
class Cause:
    """A finding, in words."""

    place: str
    """File and line."""
    function: str
    ranks: str
    share: str
    """Its share of all waiting, or else what kind of finding it is."""
    sentences: tuple[str, ...]
    """The claim first."""
    figures: tuple[tuple[str, str], ...] = ()
    """The amounts that matter, each with what it is."""
    source: tuple[SourceLine, ...] = ()
    is_source_changed: bool = False
    """Whether the lines may not be those that ran."""
    inside: tuple[Inside, ...] = ()
    callers: tuple[str, ...] = ()
    """Innermost first."""
    path: tuple[HopText, ...] = ()
    """Symptom first."""
    advice: str = ""
    growth: Columns | None = None
    """What it costs over the steps, where that changes."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind it, as in the JSON report."""


MOST_HOPS = 8
"""Hops of a way that are shown."""


def shortened(hops: tuple[HopText, ...]) -> tuple[HopText, ...]:
    """The hops that are shown of a long way: its beginning and its end."""
    return (*hops[: MOST_HOPS - 1], hops[-1]) if len(hops) > MOST_HOPS else hops
