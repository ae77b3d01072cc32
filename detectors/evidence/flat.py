"""What becomes of evidence in the JSON report: topics with keys of their own, and others."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any


class Flat:
    """A topic whose keys stand among those of the evidence itself, and not under one of their own."""

    __slots__ = ()


def updated(old: Any, new: Any) -> Any:
    """A topic with what another one of the kind knows besides."""
    is_flat = isinstance(new, Flat)
    if not is_flat or old is None:
        return new
    known = {one.name: getattr(old, one.name) for one in fields(new) if getattr(new, one.name) is one.default}
    return replace(new, **known)


def as_dict(topic: Any) -> dict[str, Any]:
    """A topic by its keys, without what is not known: what is as it is by default."""
    known = {one: getattr(topic, one.name) for one in fields(topic)}
    return {one.name.rstrip("_"): plain(value) for one, value in known.items() if value is not one.default}


def plain(value: Any) -> Any:
    """A value as JSON has it: topics by their keys, sequences as lists."""
    if is_dataclass(value):
        return as_dict(value)
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value
