"""A library's function, or a helper, that a program calls at several lines of a function of its own: what ranks do at
one line more than others, and at another line less, they do not do more.

Which of the lines it is may depend on what a rank has at that time: whether a message is there already, or a boundary.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.leaf import steps_below, work_below
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.detectors.whatif.changes import IntervalExcess, interval_excess
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.structure.psg import NOWHERE, PSG, Place, VertexKind
from scalana.graphs.timeline import Timeline


def is_made_up_for(candidate: Candidate, excess: IntervalExcess) -> bool:
    """Whether most of a candidate's excess is missing at other lines where the same function is called."""
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    code_location = candidate.code_location
    if code_location.kind != TargetKind.OWN or not 0 <= code_location.vertex < len(psg):
        return False
    library = psg[code_location.vertex].kind is VertexKind.CALL
    if not library and code_location.line <= 0:
        return False
    alike = _of_library(code_location.vertex, timeline, psg) if library else _of_helper(candidate)
    own = np.unique(table.target[candidate.entries])
    if not len(np.setdiff1d(alike, own)):
        return False
    together = interval_excess(candidate, np.union1d(alike, own))
    return _with_core_s(together) < MAJORITY * _with_core_s(excess)


def _of_library(vertex: int, timeline: Timeline, psg: PSG) -> IntArray:
    """The activities in which a function of the program calls the same of a library's as at a vertex."""
    call = _called_in(vertex, psg)
    places = timeline.activities.vertex
    known = {at: _called_in(at, psg) == call for at in np.unique(places).tolist() if at < len(psg)}
    return np.flatnonzero([call is not None and known.get(at, False) for at in places.tolist()])


def _of_helper(candidate: Candidate) -> IntArray:
    """The activities below what a candidate's function calls to do most of its work, at whatever line of that function;
    none where it does most of it itself."""
    run = candidate.blamed
    timeline, psg = run.timeline, run.psg
    called: dict[Place, float] = defaultdict(float)
    for steps, seconds in work_below(candidate):
        called[steps[0].place if steps else NOWHERE] += seconds
    helper = max(called, key=lambda place: called[place], default=NOWHERE)
    function = psg.enclosing(candidate.code_location.vertex, VertexKind.FUNCTION)
    if helper == NOWHERE or function < 0:
        return np.zeros(0, np.int64)
    root, known = psg[function].place, dict[int, bool]()
    for at in np.unique(timeline.activities.vertex).tolist():
        steps = steps_below(root, at, 0, psg)
        known[at] = bool(steps) and steps[0].place == helper
    return np.flatnonzero([known[at] for at in timeline.activities.vertex.tolist()])


def _with_core_s(excess: IntervalExcess) -> float:
    """An excess without what is waited for a core, which is by chance now at one line and now at another."""
    return float((excess.over_s - excess.over_core_wait_s).sum())


def _called_in(vertex: int, psg: PSG) -> tuple[Place, str] | None:
    """The program's function in which a library's call stands, and what it calls; None for anything else."""
    if psg[vertex].kind is not VertexKind.CALL or not psg[vertex].place.name:
        return None
    function = psg.enclosing(vertex, VertexKind.FUNCTION)
    return (psg[function].place, psg[vertex].place.name) if function >= 0 else None
