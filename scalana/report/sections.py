"""Parts of the report that one kind of job has: one row each, shown where a detector has returned its data.

A detector returns them in :attr:`~scalana.detectors.detector.Outcome.sections`, by name; the name is also the key of
the JSON report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalana.report import device, pipeline_text, rl

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.report.paint import Paint


@dataclass(frozen=True, slots=True)
class Section:
    """How one part of the report is written."""

    name: str
    text: Callable[[Any, Analysis, int, Paint], list[str]]
    """Lines of it for people: of its data, in so many columns."""
    document: Callable[[Any, Analysis], Any]
    """The same as dicts, lists, strings, numbers and None."""


SECTIONS: tuple[Section, ...] = (
    Section("pipeline", pipeline_text.text, pipeline_text.document),
    Section("device", device.text, device.document),
    Section("rl", rl.text, rl.document),
)
"""In the order in which they are shown, behind the findings."""


def as_text(analysis: Analysis, width: int, paint: Paint) -> list[list[str]]:
    """The blocks of all parts that this analysis has."""
    return [
        section.text(analysis.sections[section.name], analysis, width, paint)
        for section in SECTIONS
        if section.name in analysis.sections
    ]


def as_document(analysis: Analysis) -> dict[str, Any]:
    """The JSON of all parts that this analysis has."""
    return {
        section.name: section.document(analysis.sections[section.name], analysis)
        for section in SECTIONS
        if section.name in analysis.sections
    }
