"""All that a report of one run shows."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.report.document.finding import Cause
from scalana.report.document.sections import Section


@dataclass(frozen=True, slots=True)
class Contents:
    """A report as data."""

    command: str
    head: tuple[str, ...]
    """Lines about the run as a whole."""
    warnings: tuple[str, ...]
    causes: tuple[Cause, ...]
    """The most expensive first."""
    rest: str
    """How many more there are; empty where all are shown."""
    headline: tuple[str, str]
    """What would help more than any cause, and what it would bring; both empty where that is a cause."""
    nothing: tuple[str, str]
    """Without a cause: that nothing was found, and why; both empty where nothing can be said."""
    sections: tuple[Section, ...]
    """In the order in which they are shown."""
