"""A finding at a place that the roll-up has chosen."""

from __future__ import annotations

from scalana.detectors.finding import Finding
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.graphs.structure.psg import PSG


def finding_at(code_location: CodeLocation, ranks: list[int], lost_s: float, psg: PSG, kind: str = "") -> Finding:
    """A finding that says where, who and how much, and nothing else yet."""
    vertex = code_location.vertex if 0 <= code_location.vertex < len(psg) else -1
    here = psg[max(vertex, 0)]
    line, end_line = code_location.lines(here.place)
    function = psg.function_of(vertex) if vertex >= 0 else ""
    file = here.place.file
    return Finding(kind, vertex, file, line, end_line, function, here.kind.value, ranks, lost_s, 0.0, 0.0)
