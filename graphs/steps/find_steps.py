"""Where steps come from: the table of sources, asked in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scalana.graphs.steps.marked import Marks, marked
from scalana.graphs.steps.repetition import repeated
from scalana.graphs.steps.steps import Steps, with_warm_up
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Evidence:
    """What tells of the steps of a run."""

    timeline: Timeline
    psg: PSG
    marks: Marks


@dataclass(frozen=True, slots=True)
class Source:
    """One way to know the steps of a run."""

    name: str
    """As reports say it, :attr:`Steps.source`."""
    find: Callable[[Evidence, str], Steps | None]
    """Gives the steps, None if this source knows of none; called with the evidence and the source's name."""


def _marked_by(*markers: str) -> Callable[[Evidence, str], Steps | None]:
    return lambda known, name: marked(known.marks, markers, name, known.timeline.ranks)


def _repeated(known: Evidence, name: str) -> Steps | None:
    return repeated(known.timeline, known.psg, name)


REPEATED = "communication"
"""Name of the source that infers steps, rather than being told of them."""

SOURCES = (
    Source("scalana.step", _marked_by("user", "")),
    Source("trainer", _marked_by("trainer")),
    Source("optimizer", _marked_by("optimizer")),
    Source("schedule", _marked_by("schedule")),
    Source(REPEATED, _repeated),
)
"""Recorders of schedules and trainers mark steps by the source that is named here."""


def find_steps(timeline: Timeline, psg: PSG, marks: Marks) -> Steps | None:
    """The steps of a run by the first source that knows of two at least; None where none does."""
    known = Evidence(timeline, psg, marks)
    for source in SOURCES:
        steps = source.find(known, source.name)
        if steps is not None and len(steps) > 1:
            return with_warm_up(steps)
    return None
