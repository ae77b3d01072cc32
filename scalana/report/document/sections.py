"""Sections as data: sentences, accounts, tables and pictures, with hints for renderers on how to lay them out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from scalana.report.document.pictures import Bars, Columns, Heatmap, Lanes, Picture


@dataclass(frozen=True, slots=True)
class Facts:
    """Sentences, and values with their names."""

    sentences: tuple[str, ...] = ()
    """A paragraph each."""
    values: tuple[tuple[str, str], ...] = ()
    """Name and value, below the sentences."""
    is_soft: bool = False
    """Whether they only explain, and may be less visible."""
    hangs: bool = False
    """Whether the second line of a paragraph and those below are indented: the first words name what it is about."""


class Layout(Enum):
    """How the parts of an account are laid out where there is only text."""

    LINE = "line"
    """Few parts: all names on a line, and one bar."""
    BARS = "bars"
    """A row a part, with a bar of its own."""
    ROWS = "rows"
    """A row a part, its name last: names are long."""


@dataclass(frozen=True, slots=True)
class Share:
    """One part of an account."""

    name: str
    seconds: float
    """May be less than 0 where parts correct each other."""
    color: int
    """Its number in the palette of a renderer."""
    behind: str = ""
    """What causes it (ranks, a stage), or what it means."""
    is_marked: bool = False
    """Whether readers should look at it first."""


@dataclass(frozen=True, slots=True)
class Account:
    """Parts that add up to a measured whole."""

    of: str
    """What the whole is."""
    whole_s: float
    shares: tuple[Share, ...]
    layout: Layout
    lead: str = ""
    """Of which time."""
    seconds_head: str = "seconds"
    """What the seconds of a part are."""
    behind_head: str = ""
    """What :attr:`Share.behind` says."""

    def share(self, part: Share) -> float:
        """A part as a share of the whole."""
        return part.seconds / self.whole_s if self.whole_s > 0 else 0.0


class Fit(Enum):
    """What happens to a text that is longer than the room of its column."""

    CLIP = "clip"
    CLIP_LEFT = "clip left"
    """Of a path the end says more."""
    WRAP = "wrap"


class Tone(Enum):
    """What a cell stands for, for renderers that have colours."""

    PLAIN = "plain"
    PLACE = "place"
    WAITING = "waiting"
    STALLED = "stalled"
    SOFT = "soft"
    WORSE = "worse"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    head: str
    width: int = 0
    """Characters that are reserved for it."""
    is_text: bool = False
    """Whether it holds words: numbers stand at the right of their column."""
    is_right: bool = False
    """Whether words stand at the right, too."""
    leads: bool = False
    """Whether it says what the row is about; a renderer may draw it first. In text it is the last one, as its length
    varies."""
    is_spared: bool = False
    """Whether it is left out where there is little room."""
    fit: Fit = Fit.CLIP
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is more than one text."""

    text: str
    tail: str = ""
    """What may be left out where there is little room."""
    indent: int = 0
    """Levels below the row to which it belongs."""
    full: str = ""
    """The text with that of all levels above; empty where that is the same."""
    tone: Tone | None = None
    """If not that of the column."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    cells: tuple[str | Cell, ...]
    below: str = ""
    """A sentence about the row."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal columns."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """What readers need to understand it, and what is left out."""


Part = Facts | Account | Table | Picture | Columns | Heatmap | Lanes | Bars


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading."""

    name: str
    """Sections of one name belong together; it is also an anchor on a page."""
    heading: str
    blocks: tuple[tuple[Part, ...], ...]
    """Parts that belong closely together are one block."""
    of: str = ""
    """What is shown: a unit, a period, or which of several."""
    is_head: bool = False
    """Whether it belongs to the head of a report, before the findings."""


def section(name: str, heading: str, of: str, *parts: Part) -> Section:
    """A section of one block."""
    return Section(name, heading, (parts,), of)


def texts(*sentences: str) -> tuple[str, ...]:
    """The sentences that are not empty."""
    return tuple(sentence for sentence in sentences if sentence)
