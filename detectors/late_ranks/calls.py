"""Work that only those do at all who are late with it: what of it lies in one function is one cause, the call of that.

Where other ranks do the same, every line that takes longer may have its own reason, and stands alone.
"""

from __future__ import annotations

from dataclasses import replace

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.shares import EXPLAINED, MAJORITY
from scalana.detectors.whatif.changes import IntervalExcess, interval_excess
from scalana.graphs.structure.psg import Place, VertexKind

Measured = tuple[Candidate, IntervalExcess | None]
"""A candidate with its excess, where it is on own work."""


def measure(candidates: list[Candidate]) -> list[Measured]:
    """Measure the excess of candidates, the largest first, and join those that are parts of one call.

    It is one call in whatever context the line that makes it stands: the solver of each level of a hierarchy.
    """
    result: list[Measured] = []
    of_call: dict[tuple[Place, Place | None], int] = {}
    for candidate in candidates:
        own = candidate.code_location.kind == TargetKind.OWN
        excess = interval_excess(candidate) if own else None
        function = _function(candidate) if excess is not None and _wholly(excess) else -1
        psg = candidate.blamed.psg
        call = (psg[function].place, psg[function].site) if function >= 0 else None
        row = of_call.get(call, -1) if call is not None else -1
        if row >= 0 and set(candidate.ranks) <= set(result[row][0].ranks):
            main = result[row][0].joined([candidate])
            if result[row][0].lost_s < MAJORITY * main.lost_s:
                main = replace(main, code_location=CodeLocation(TargetKind.OWN, function, -1))
            result[row] = main, interval_excess(main)
            continue
        if call is not None:
            of_call.setdefault(call, len(result))
        result.append((candidate, excess))
    return sorted(result, key=lambda measured: -measured[0].lost_s)


def _function(candidate: Candidate) -> int:
    """The function that holds a candidate, if there is no communication in it; else -1."""
    psg = candidate.blamed.psg
    vertex = candidate.code_location.vertex
    function = psg.enclosing(vertex, VertexKind.FUNCTION) if 0 <= vertex < len(psg) else -1
    if function < 0 or psg[function].place.name == "<module>" or psg.communicates(function):
        return -1
    return function


def _wholly(excess: IntervalExcess) -> bool:
    """Whether what a candidate's ranks did in stretches in which they did more than usual is nearly all excess."""
    over = excess.over_s > 0.0
    return float(excess.over_s[over].sum()) >= EXPLAINED * float(excess.did_s[over].sum())
