"""What an importer makes of one rank's trace: events as columns, and the few that have more to tell as objects."""

from __future__ import annotations

import enum
from array import array
from dataclasses import dataclass, field
from typing import Any

from scalana.graphs.arrays.columns import ColumnTable


class Kind(enum.IntEnum):
    """What an event of a trace is."""

    KERNEL = 0
    COPY = 1
    RUNTIME = 2
    """A call of the device's runtime or driver: a launch, a synchronisation, an allocation."""
    OPERATOR = 3
    ANNOTATION = 4
    PYTHON = 5


@dataclass(frozen=True, slots=True)
class Track:
    """Where events follow each other or nest: a thread, or a stream of a device."""

    process: str
    thread: str
    device: bool


@dataclass(slots=True)
class Columns(ColumnTable):
    """Events with a begin and an end, in the order of the file."""

    kind: array[int] = field(default_factory=lambda: array("b"))
    track: array[int] = field(default_factory=lambda: array("l"))
    """Row in :attr:`RankTrace.tracks`."""
    name: array[int] = field(default_factory=lambda: array("l"))
    """Row in :attr:`RankTrace.names`."""
    start_ns: array[int] = field(default_factory=lambda: array("q"))
    duration_ns: array[int] = field(default_factory=lambda: array("q"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    """Joins what is launched with its launch; -1 for none."""
    inputs: array[int] = field(default_factory=lambda: array("l"))
    """Row in :attr:`RankTrace.inputs`, -1 where the trace has none."""


@dataclass(slots=True)
class RankTrace:
    """One file."""

    file: str
    rank: int = -1
    """-1 where the file does not say."""
    world_size: int = 0
    """0 where it does not say."""
    host: str = ""
    base_ns: int = 0
    """By what its times are short of ns since 1970, as far as it says so."""
    groups: dict[str, list[int]] = field(default_factory=dict)
    """World ranks of process groups, by name."""
    events: Columns = field(default_factory=Columns)
    names: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    """Shapes of what operators are given, each once."""
    tracks: list[Track] = field(default_factory=list)
    arguments: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Of events that have more to tell, by row."""
    damage: str = ""
    """Why not all of the file was read."""
    odd: int = 0
    """Events that could not be understood."""
    other_categories: dict[str, int] = field(default_factory=dict)
    """Events of kinds that are left out, by what they are called."""
    has_python: bool = False
