"""Pictures as data. Renderers without pictures leave them out, with their captions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scalana.graphs.arrays.types import FloatArray


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished picture."""

    label: str
    """What it shows, for readers that do not see it."""
    svg: Callable[[], str]
    """Draws it. It is called by renderers that show pictures alone, as drawing may take long."""


@dataclass(frozen=True, slots=True)
class ColumnBar:
    """One column of a :class:`Columns`."""

    seconds: float
    """Or a part of one, where these are :attr:`Columns.is_of_one`."""
    title: str
    """What it is, with its seconds."""
    kind: str = "step"
    """``step``, ``first`` for start-up, or ``slow``, which is marked."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Seconds over steps, a column each."""

    label: str
    bars: tuple[ColumnBar, ...]
    first: str
    """What is written below the first column."""
    last: str
    """What is written below the last one; empty where there is one column."""
    is_low: bool = False
    """Whether it is drawn low, as an addition to a text."""
    keys: tuple[str, ...] = ()
    """What its marks mean."""
    is_of_one: bool = False
    """Whether the columns are parts of one, and not seconds."""


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Seconds by row and column, as shades: each row by its own maximum."""

    label: str
    caption: str
    rows: tuple[str, ...]
    heads: tuple[str, ...]
    """What each column is."""
    ticks: tuple[str, ...]
    """What is written above each column, where there is room."""
    seconds: FloatArray
    """``[rows, columns]``"""


@dataclass(frozen=True, slots=True)
class LanePart:
    """What fills lanes."""

    name: str
    cause: int | None = None
    """Number of the finding that causes it."""
    kind: str = ""
    """``work``, ``waiting`` or ``transfer``."""


@dataclass(frozen=True, slots=True)
class Period:
    """One period of time, drawn as lanes: a lane a row, filled from the bottom up by parts."""

    title: str
    caption: str
    length_s: float
    filled: FloatArray
    """Part of each column ``[rows, parts, columns]``."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """What rows did over time."""

    label: str
    caption: str
    rows: tuple[str, ...]
    parts: tuple[LanePart, ...]
    periods: tuple[Period, ...]


@dataclass(frozen=True, slots=True)
class BarRow:
    """One row of :class:`Bars`."""

    name: str
    seconds: tuple[float, ...]
    """Of each part."""
    note: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows of the same parts, one bar each."""

    caption: str
    names: tuple[str, ...]
    """Of the parts, in the order of the palette."""
    whole_s: float
    """Seconds that fill the width."""
    rows: tuple[BarRow, ...] = field(default=())
