"""The topics of a report: one row each, in the order in which they are shown.

A topic reads an analysis, and makes sections of it, which every renderer draws, and entries of the JSON report; none
where the run has nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.report.document.changes import KnownChange
from scalana.report.document.sections import Section
from scalana.report.topics import (
    compiled,
    device,
    efficiency,
    limits,
    matrix,
    modules,
    over_time,
    places,
    predictions,
    productive,
    ranks,
    recorded,
    regions,
    roofline,
    steps,
    time,
)
from scalana.report.topics.data import exchanged_heads, sources
from scalana.report.topics.serving_requests import experts, serving


def _no_entries(analysis: Analysis) -> Mapping[str, Any]:
    return {}


def _no_changes(analysis: Analysis) -> Sequence[KnownChange]:
    return ()


@dataclass(frozen=True, slots=True)
class Topic:
    """One part of a report."""

    name: str
    sections: Callable[[Analysis], Sequence[Section]]
    entries: Callable[[Analysis], Mapping[str, Any]] = _no_entries
    """Entries of the JSON report: dicts, lists, strings, numbers and None."""
    is_detail: bool = False
    """Whether it is shown only where there is room, as on a page."""
    changes: Callable[[Analysis], Sequence[KnownChange]] = _no_changes
    """What its account knows that would make steps shorter."""


def _about(section: str, name: str, module: str) -> Topic:
    """A topic whose module is imported where an analysis has the section that it is about."""

    def later(function: str) -> Callable[[Analysis], Any]:
        def made(analysis: Analysis) -> Any:
            home = import_module(module) if section in analysis.sections else None
            return getattr(home, function, _no_entries)(analysis)

        return made

    return Topic(name, later("sections"), later("entries"), changes=later("known_changes"))


TOPICS: tuple[Topic, ...] = (
    Topic("time", time.sections),
    Topic("ranks", ranks.sections, is_detail=True),
    Topic("over-time", over_time.sections, is_detail=True),
    Topic("predictions", predictions.sections),
    _about("pipeline", "slow-down", "scalana.report.topics.pipelines.slow_down"),
    _about("pipeline", "pipeline", "scalana.report.topics.pipelines.pipeline"),
    Topic("device", device.sections, device.entries),
    _about("rl", "rl", "scalana.report.topics.rl"),
    Topic("serving", serving.sections, serving.entries),
    Topic("experts", experts.sections, experts.entries),
    Topic("context-parallelism", exchanged_heads.sections, exchanged_heads.entries),
    Topic("limits", limits.sections, limits.entries),
    Topic("sources", sources.sections, sources.entries),
    Topic("steps", steps.sections, steps.entries),
    Topic("productive", productive.sections, productive.entries),
    Topic("efficiency", efficiency.sections, efficiency.entries),
    Topic("regions", regions.sections, regions.entries),
    Topic("modules", modules.sections, modules.entries),
    Topic("compiled", compiled.sections, compiled.entries),
    Topic("roofline", roofline.sections),
    Topic("places", places.sections),
    Topic("matrix", matrix.sections, is_detail=True),
    Topic("recorded", recorded.sections, is_detail=True),
)


def sections_of(analysis: Analysis, details: bool) -> list[Section]:
    """The sections of an analysis, those of the head of a report first; of topics that are details only on demand."""
    made = [one for topic in TOPICS if details or not topic.is_detail for one in topic.sections(analysis)]
    return sorted(made, key=lambda section: not section.is_head)


def entries_of(analysis: Analysis) -> dict[str, Any]:
    """What the JSON report says of all topics."""
    return {name: entry for topic in TOPICS for name, entry in topic.entries(analysis).items()}


def changes_of(analysis: Analysis) -> list[KnownChange]:
    """What the accounts of all topics know that would make steps shorter."""
    return [change for topic in TOPICS for change in topic.changes(analysis)]
