"""Evidence about calls that never returned."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class OpenOperation(Flat):
    """The call in which ranks waited to the end."""

    waiting_ranks: list[int]
    operation: str
    sequence: int
    unreturned: bool = False
    """Whether they wait for the result of a remote call that the rank has to return."""
    unbegun: bool = False
    """Whether the rank itself waits for a remote call that no process has begun."""
    unended: bool = False
    """Whether its process has done its work, and does not end."""


@dataclass(frozen=True, slots=True)
class Deadlock(Flat):
    """What the rank that did not come waits for itself."""

    also_in: str | None = None
    circle: list[int] | None = None
