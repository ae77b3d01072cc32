"""What tests make known to findings and analyses."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from scalana.detectors.analysis import Analysis
from scalana.detectors.evidence import CpuSplit, Deadlock, Evidence, LargeTasks, OpenOperation, PlaceTime
from scalana.detectors.section_name import SectionName

T = TypeVar("T")

_FLAT = {"hang": OpenOperation, "place": PlaceTime, "deadlock": Deadlock, "cpu": CpuSplit, "large_tasks": LargeTasks}


def evidence(**known: Any) -> Evidence:
    """What is known: of the topics above by their keys, of others as fields of the evidence."""
    topics: dict[str, Any] = {}
    for name, topic in _FLAT.items():
        own = {one.name: known.pop(one.name) for one in fields(topic) if one.name in known}
        topics |= {name: topic(**own)} if own else {}
    return Evidence(**topics, **known)


def with_section(analysis: Analysis, name: SectionName[T], data: T | None) -> Analysis:
    """An analysis with a section."""
    return replace(analysis, sections={**analysis.sections, name.name: data})
