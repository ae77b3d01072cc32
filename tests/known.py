"""Evidence for tests, by the keys of the report."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from scalana.detectors.evidence import CpuSplit, Deadlock, Evidence, LargeTasks, OpenOperation, PlaceTime

_FLAT = {"hang": OpenOperation, "place": PlaceTime, "deadlock": Deadlock, "cpu": CpuSplit, "large_tasks": LargeTasks}


def evidence(**known: Any) -> Evidence:
    """What is known: of the topics above by their keys, of others as fields of the evidence."""
    topics: dict[str, Any] = {}
    for name, topic in _FLAT.items():
        own = {one.name: known.pop(one.name) for one in fields(topic) if one.name in known}
        topics |= {name: topic(**own)} if own else {}
    return Evidence(**topics, **known)
