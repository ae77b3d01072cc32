"""A library's function that a program calls at several lines of a function of its own: what ranks do at one line more
than others, and at another line less, they do not do more.

Which of the lines it is may depend on what a rank has at that time: whether a message is there already, or a boundary.
"""

from __future__ import annotations

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.whatif.changes import StretchExcess, stretch_excess
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.timeline import Timeline

MADE_UP = 0.5
"""Part of an excess that must be left when all lines are taken together, for it to be one."""


def is_made_up_for(
    candidate: Candidate, excess: StretchExcess, table: BlameTable, timeline: Timeline, psg: PSG
) -> bool:
    """Whether most of a candidate's excess is missing at other lines where the same function is called."""
    vertex = candidate.spot.vertex
    if candidate.spot.kind != TargetKind.OWN or not 0 <= vertex < len(psg) or psg[vertex].kind is not VertexKind.CALL:
        return False
    call = _called_in(vertex, psg)
    if call is None:
        return False
    places = timeline.activities.vertex
    known = {at: _called_in(at, psg) == call for at in np.unique(places).tolist() if at < len(psg)}
    alike = np.flatnonzero([known.get(at, False) for at in places.tolist()])
    own = np.unique(table.target[candidate.entries])
    if not len(np.setdiff1d(alike, own)):
        return False
    together = stretch_excess(candidate, table, timeline, np.union1d(alike, own))
    return _with_core_s(together) < MADE_UP * _with_core_s(excess)


def _with_core_s(excess: StretchExcess) -> float:
    """An excess without what is waited for a core, which is by chance now at one line and now at another."""
    return float((excess.over_s - excess.over_core_wait_s).sum())


def _called_in(vertex: int, psg: PSG) -> tuple[Place, str] | None:
    """The program's function in which a library's call stands, and what it calls; None for anything else."""
    if psg[vertex].kind is not VertexKind.CALL or not psg[vertex].place.name:
        return None
    function = psg.enclosing(vertex, VertexKind.FUNCTION)
    return (psg[function].place, psg[vertex].place.name) if function >= 0 else None
