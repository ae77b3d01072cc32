"""Where the functions of a program are called, by what its structure shows and what samples saw.

A function that is called from two places is two vertices; what is asked here is about the function, or about one of its
calls.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scalana.detectors.thresholds.counts import WRAPPER_LINES
from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind

Line = tuple[int, str]
"""Line and file of a call."""


class Call(NamedTuple):
    """Where a function is called."""

    vertex: int
    """The vertex of the caller's own code."""
    line: int
    file: str


def calls_of(function: int, psg: PSG) -> set[tuple[str, int]]:
    """File and line of every call of the same function that the program shows, or was seen to make."""
    calls = (call_of(other, psg) for other in contexts({psg[function].place}, psg))
    return {(call.file, call.line) for call in calls if call is not None}


def functions_around(vertex: int, psg: PSG) -> Iterator[int]:
    """The functions around a vertex, innermost first, up to what communicates or is called by nobody."""
    function = psg.enclosing(vertex, VertexKind.FUNCTION) if 0 < vertex < len(psg) else -1
    while function > 0 and not psg.communicates(function) and psg[function].place.name != "<module>":
        yield function
        function = psg.enclosing(psg[function].parent, VertexKind.FUNCTION)


def contexts(places: set[Place], psg: PSG) -> Iterator[int]:
    """All vertices of some functions."""
    lines = {place.line for place in places}
    for vertex in psg.vertices:
        if vertex.kind is VertexKind.FUNCTION and vertex.place.line in lines and vertex.place in places:
            yield vertex.index


def call_of(function: int, psg: PSG) -> Call | None:
    """Where a function vertex is called, None where nothing of the user's own does that."""
    site, above = psg[function].site, psg[function].parent
    while above > 0 and psg[above].kind is VertexKind.CALL:
        site = site or psg[above].place
        above = psg[above].parent
    return Call(above, site.line, site.file) if above > 0 and site is not None and site.line > 0 else None


def depth(vertex: int, psg: PSG) -> int:
    """How many vertices there are above one."""
    return sum(1 for _ in psg.ancestors(vertex))


Sites = Mapping[tuple[int, Place | None], Sequence[int]]
"""The functions that each call leads to, by the vertex that makes the call and the place where it does."""


def call_sites(psg: PSG) -> Sites:
    """All calls of a program that lead to functions of its structure."""
    found: dict[tuple[int, Place | None], list[int]] = defaultdict(list)
    for vertex in psg.vertices:
        if vertex.kind is VertexKind.FUNCTION:
            found[vertex.parent, vertex.site].append(vertex.index)
    return found


def is_one_of_several(function: int, sites: Sites, psg: PSG, ran: Container[int] | None = None) -> bool:
    """Whether what calls a function calls others as well, now this and now that: of all that the source shows, or of
    those that were seen to run."""
    here = psg[function]
    beside = sites.get((here.parent, here.site), ())
    return any(psg[other].place != here.place for other in beside if ran is None or other in ran)


def _own_code(function: int, psg: PSG) -> Iterable[Vertex]:
    """The outermost vertices of a function's own code, as its source shows it."""
    return (psg[child] for child in psg[function].children if child not in psg.added)


def lines_of(function: int, psg: PSG) -> float:
    """Lines of a function's body; infinite where its source is not known."""
    spans = [vertex.site or vertex.place for vertex in _own_code(function, psg)]
    if not spans:
        return float("inf")
    first, last = min(span.line for span in spans), max(max(span.line, span.end_line) for span in spans)
    whole = psg[function].place.line, psg[function].place.end_line
    # One stretch from the name of a procedure to its end is all that is known of Fortran.
    return max(last - first - 1, 1) if (first, last) == whole else last - first + 1


def is_wrapper(function: int, psg: PSG) -> bool:
    """Whether a function is a few lines of straight code."""
    decides = any(vertex.kind in (VertexKind.LOOP, VertexKind.BRANCH) for vertex in _own_code(function, psg))
    return not decides and lines_of(function, psg) <= WRAPPER_LINES


def is_known(function: int, call: Call, psg: PSG) -> bool:
    """Whether a call leads to one function in each round of a loop: the source shows it, it is no method, or it is one
    of an object that the loop does not choose."""
    here = psg[function]
    if here.site is not None and psg[here.parent].kind is not VertexKind.CALL:
        return True
    name = here.place.name.rpartition("<locals>.")[2]
    if name.endswith("<lambda>") or not ("." in name or "::" in name):
        return True
    bare = re.split(r"\.|::", name)[-1]
    called = re.search(rf"([\w.\[\]>-]+)(?:\.|->){re.escape(bare)}\(", psg[call.vertex].place.name)
    if called is None:
        return False
    heads = " ".join(loop.place.name for loop in _loops(call.vertex, psg) if loop.place.name.startswith("for"))
    return not set(re.findall(r"\w+", called[1])) & set(re.findall(r"\w+", heads))


def _loops(vertex: int, psg: PSG) -> Iterator[Vertex]:
    """The loops of a function around a vertex, and the vertex itself if it is one."""
    while vertex > 0 and psg[vertex].kind is not VertexKind.FUNCTION:
        if psg[vertex].kind is VertexKind.LOOP:
            yield psg[vertex]
        vertex = psg[vertex].parent


def in_own_loop(vertex: int, psg: PSG) -> bool:
    """Whether a loop of its own function stands around a vertex."""
    return any(True for _ in _loops(vertex, psg))


def called_in_loop(function: int, psg: PSG) -> bool:
    """Whether what calls a function repeats it within a step."""
    for above in psg.ancestors(function):
        if above.kind in (VertexKind.LOOP, VertexKind.FUNCTION) and psg.makes_steps(above.index):
            return False
        if above.kind is VertexKind.LOOP:
            return True
    return False
