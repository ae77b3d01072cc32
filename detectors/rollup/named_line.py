"""The line that is named: the call of a small helper, rather than a line in it, where going into it tells no more.

Excess is found where samples are: in the innermost line of the user's own code. Often that is no line that anybody
would edit, but the clock read of a waiting loop, a wrapper of ``sleep``, the ``dot`` or the logger that the whole
program shares. What makes the rank different is then that it *calls* the helper, or how often.

Excess is rolled up from the innermost functions outwards. What of it has come to lie in a function's own body goes on
to the line of the call, unless it tells more to stay:

* another part of the cause stays, in a function that is called from here or in a loop of its own;
* the function is slower wherever it is called: then the other calls of it have excess, too, in proportion to the time
  in them;
* nothing but this line calls it, and it is more than a wrapper that is called in a loop, or that forwards to a helper:
  its name and its line say the same as the call does;
* the line of the call calls several functions, as a table of handlers does: only the function says which of them.

A function with a loop of its own that holds the excess is long by itself. Its loop stays, unless it is called in a
loop and the calls elsewhere show that it always spends its time in the same parts: it then runs more often.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind
from scalana.graphs.timeline import Timeline

MOST = 0.5
"""Part of the excess in a function that decides where all of it goes."""
NOTABLE = 0.15
"""Part of the excess of the rank that has most in a function, from which a rank has a say in it."""
QUIET = 0.2
"""Part of the excess for each second of a function's time, of that where most of it is called, below which another call
of it has none; far from 1, for on shared cores calls that come later find others behind them."""
SPREAD = 0.25
"""Part of the excess at one call of a function from which the other calls have some, too."""
SEEN = 0.1
"""Part of the time in the calls with excess that those without must take, to show that these have none."""
ALIKE = 0.5
"""Part of the time in a function that lies in the same parts of it here as elsewhere, if it always does the same."""
SAMPLES = 10
"""Sampling periods of time elsewhere that tell in which parts of it a function ordinarily spends its time."""
WRAPPER_LINES = 3
"""Lines of straight code that do one thing."""
SMALL_LINES = 10
"""Lines of a function that is seen as a whole."""


class Excess(NamedTuple):
    """Some excess at a line of the program."""

    vertex: int
    line: int
    rank: int
    """Or whatever else decides together about where its excess belongs."""
    seconds: float


class _Call(NamedTuple):
    """Where a function is called."""

    vertex: int
    """The vertex of the caller's own code."""
    line: int
    file: str


@dataclass(slots=True)
class _Body:
    """What is known of the excess below one function vertex."""

    here: list[int] = field(default_factory=list)
    """Numbers of the excess that has come to lie in its own code."""
    below: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds at it and below, by rank."""


def roll_up(excess: list[Excess], timeline: Timeline, psg: PSG) -> list[tuple[int, int]]:
    """Vertex and line where each excess belongs: its own, or those of a call that leads there.

    O(excess x depth of the graph), and once the activities of the run where a function is called at several lines.
    """
    bodies: dict[int, _Body] = defaultdict(_Body)
    for number, (vertex, _, rank, seconds) in enumerate(excess):
        functions = list(_functions(vertex, psg))
        if functions:
            bodies[functions[0]].here.append(number)
        for function in functions:
            bodies[function].below[rank] += seconds
    places = [(vertex, line) for vertex, line, _, _ in excess]
    on_trial: dict[int, tuple[int, int]] = {}
    helpers = _Helpers(bodies, excess, places, on_trial, timeline, psg)
    for function in sorted(bodies, key=lambda function: -_depth(function, psg)):
        here = bodies[function].here
        call = helpers.call_that_tells(function)
        if call is None:
            call = helpers.call_by_a_wrapper(function)
            for number in here:
                before = on_trial.pop(number, places[number])
                places[number] = before
                if call is not None:
                    on_trial[number] = before
        else:
            for number in here:
                on_trial.pop(number, None)
        if call is None:
            continue
        for number in here:
            places[number] = call.vertex, call.line
        outer = psg.enclosing(call.vertex, VertexKind.FUNCTION)
        if outer in bodies:
            bodies[outer].here.extend(here)
    return places


def calls_of(function: int, psg: PSG) -> set[tuple[str, int]]:
    """File and line of every call of the same function that the program shows, or was seen to make."""
    calls = (_call_of(other, psg) for other in _contexts({psg[function].place}, psg))
    return {(call.file, call.line) for call in calls if call is not None}


def _functions(vertex: int, psg: PSG) -> Iterator[int]:
    """The functions around a vertex, innermost first, up to what communicates or is called by nobody."""
    function = psg.enclosing(vertex, VertexKind.FUNCTION) if 0 < vertex < len(psg) else -1
    while function > 0 and not psg.communicates(function) and psg[function].place.name != "<module>":
        yield function
        function = psg.enclosing(psg[function].parent, VertexKind.FUNCTION)


def _contexts(places: set[Place], psg: PSG) -> Iterator[int]:
    """All vertices of some functions."""
    lines = {place.line for place in places}
    for vertex in psg.vertices:
        if vertex.kind is VertexKind.FUNCTION and vertex.place.line in lines and vertex.place in places:
            yield vertex.index


def _call_of(function: int, psg: PSG) -> _Call | None:
    """Where a function vertex is called, None where nothing of the user's own does that."""
    site, above = psg[function].site, psg[function].parent
    while above > 0 and psg[above].kind is VertexKind.CALL:
        site = site or psg[above].place
        above = psg[above].parent
    return _Call(above, site.line, site.file) if above > 0 and site is not None and site.line > 0 else None


def _depth(vertex: int, psg: PSG) -> int:
    return sum(1 for _ in psg.ancestors(vertex))


@dataclass(slots=True)
class _Function:
    """All calls of one function of the program."""

    calls: dict[int, _Call]
    """Where it is called, by its vertex."""
    several: bool
    """Whether several lines call it."""
    everywhere: bool = False
    """Whether it is slower wherever it is called."""
    usual: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Own time in its parts where its calls have no excess."""


@dataclass(slots=True)
class _Helpers:
    """Decides which functions are helpers, the innermost first."""

    bodies: dict[int, _Body]
    excess: list[Excess]
    places: list[tuple[int, int]]
    """Vertex and line where each excess has come to by now."""
    on_trial: dict[int, tuple[int, int]]
    """Of excess that goes on only if it goes on further still, the place to which it else returns."""
    timeline: Timeline
    psg: PSG
    functions: dict[Place, _Function] = field(default_factory=dict)
    """The functions that hold excess."""

    def __post_init__(self) -> None:
        """Look up all calls of these functions, and compare those of functions that are called at several lines."""
        psg = self.psg
        calls: dict[Place, dict[int, _Call]] = defaultdict(dict)
        for vertex in _contexts({psg[vertex].place for vertex in self.bodies}, psg):
            call = _call_of(vertex, psg)
            if call is not None:
                calls[psg[vertex].place][vertex] = call
        for place, at in calls.items():
            self.functions[place] = _Function(at, len({call[1:] for call in at.values()}) > 1)
        several = [function for function in self.functions.values() if function.several]
        parts_s = self._measure({vertex for function in several for vertex in function.calls}) if several else {}
        for function in several:
            self._compare(function, parts_s)

    def _measure(self, functions: set[int]) -> dict[int, dict[int, float]]:
        """Own time of all ranks at and below function vertices, by part."""
        result: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        own, activities, psg = self.timeline.own, self.timeline.activities, self.psg
        seconds = weighted_count(own.activity, own.seconds, len(activities)).tolist()
        around: dict[int, list[int]] = {}
        for vertex, line, amount in zip(activities.vertex.tolist(), activities.line.tolist(), seconds, strict=True):
            if vertex not in around:
                around[vertex] = [function for function in _functions(vertex, psg) if function in functions]
            for function in around[vertex]:
                result[function][self._part(function, vertex, line)] += amount
        return result

    def _compare(self, function: _Function, parts_s: dict[int, dict[int, float]]) -> None:
        """Tell whether a function is slower wherever it is called, and what is usual where it is not."""
        by_rank: dict[int, float] = defaultdict(float)
        for vertex in function.calls:
            for rank, seconds in (self.bodies[vertex].below if vertex in self.bodies else {}).items():
                by_rank[rank] += seconds
        ranks = {rank for rank, seconds in by_rank.items() if seconds >= NOTABLE * max(by_rank.values())}
        excess_s: dict[tuple[int, str], float] = defaultdict(float)
        time_s: dict[tuple[int, str], float] = defaultdict(float)
        for vertex, call in function.calls.items():
            below = self.bodies[vertex].below if vertex in self.bodies else {}
            excess_s[call[1:]] += sum(seconds for rank, seconds in below.items() if rank in ranks)
            time_s[call[1:]] += sum(parts_s.get(vertex, {}).values())
        most = max(excess_s, key=lambda line: excess_s[line])
        quiet = {line for line in excess_s if excess_s[line] * time_s[most] < QUIET * excess_s[most] * time_s[line]}
        for vertex, call in function.calls.items():
            for part, seconds in parts_s.get(vertex, {}).items() if call[1:] in quiet else ():
                function.usual[part] += seconds
        quiet_s = sum(time_s[line] for line in quiet)
        spread = sum(excess_s.values()) - excess_s[most] >= SPREAD * excess_s[most]
        function.everywhere = spread and quiet_s < SEEN * (sum(time_s.values()) - quiet_s)

    def _part(self, function: int, vertex: int, line: int) -> int:
        """First line of the part of a function's own code in which something lies: a loop, a branch or a line."""
        outermost: Vertex | None = None
        while vertex != function:
            if self.psg[vertex].kind is not VertexKind.COMP:
                outermost = self.psg[vertex]
            vertex = self.psg[vertex].parent
        if outermost is None:
            return line
        return (outermost.site or outermost.place).line

    def call_that_tells(self, vertex: int) -> _Call | None:
        """The call of a function vertex, if that tells as much as what lies in the function; else None."""
        psg, function = self.psg, self.functions.get(self.psg[vertex].place)
        call = function.calls.get(vertex) if function is not None else None
        if function is None or call is None or function.everywhere or _is_one_of_several(vertex, psg):
            return None
        here = self._most_of(vertex)
        if not here:
            return None
        here_s = sum(self.excess[number].seconds for number in here)
        in_loops = (number for number in here if self._in_loop_of(vertex, self.places[number][0]))
        straight = sum(self.excess[number].seconds for number in in_loops) < MOST * here_s
        if function.several:
            alike = self._is_usual(vertex, here, function)
            if straight:
                return call if alike or _lines(vertex, psg) <= SMALL_LINES else None
            return call if alike and called_in_loop(vertex, psg) else None
        if not straight or not _is_wrapper(vertex, psg):
            return None
        forwards = any(self.excess[number][:2] != self.on_trial.get(number, self.places[number]) for number in here)
        return call if forwards or (called_in_loop(vertex, psg) and _is_known(vertex, call, psg)) else None

    def _most_of(self, vertex: int) -> list[int]:
        """The excess in a function's own code, of the ranks that have much in the function; none where most of it stays
        in what the function calls."""
        body = self.bodies[vertex]
        most = max(body.below.values())
        ranks = {rank for rank, seconds in body.below.items() if seconds >= NOTABLE * most}
        here = [number for number in body.here if self.excess[number].rank in ranks]
        here_s = sum(self.excess[number].seconds for number in here)
        return here if here_s > (1.0 - MOST) * sum(body.below[rank] for rank in ranks) else []

    def call_by_a_wrapper(self, vertex: int) -> _Call | None:
        """The call of a wrapper by another one, which tells as much if the call of that does."""
        psg, function = self.psg, self.functions.get(self.psg[vertex].place)
        call = function.calls.get(vertex) if function is not None else None
        if function is None or call is None or function.several or _is_one_of_several(vertex, psg):
            return None
        outer = psg.enclosing(call.vertex, VertexKind.FUNCTION)
        wraps = outer in self.bodies and _is_wrapper(vertex, psg) and _is_wrapper(outer, psg)
        return call if wraps and _is_known(vertex, call, psg) else None

    def _in_loop_of(self, function: int, vertex: int) -> bool:
        while vertex != function:
            if self.psg[vertex].kind is VertexKind.LOOP:
                return True
            vertex = self.psg[vertex].parent
        return False

    def _is_usual(self, vertex: int, here: list[int], function: _Function) -> bool:
        """Whether excess in a function lies in those parts of it that take the time where its calls have none."""
        usual_s, more = sum(function.usual.values()), defaultdict[int, float](float)
        for number in here:
            more[self._part(vertex, *self.places[number])] += self.excess[number].seconds
        more_s = sum(more.values())
        if usual_s <= SAMPLES * self.timeline.period_s:
            return False
        return sum(min(function.usual[part] / usual_s, more[part] / more_s) for part in more) >= ALIKE


def _is_one_of_several(function: int, psg: PSG) -> bool:
    """Whether what calls a function calls others as well, now this and now that."""
    here = psg[function]
    beside = (psg[other] for other in psg[here.parent].children)
    return any(
        other.kind is VertexKind.FUNCTION and other.site == here.site and other.place != here.place for other in beside
    )


def _own_code(function: int, psg: PSG) -> Iterable[Vertex]:
    """The outermost vertices of a function's own code, as its source shows it."""
    return (psg[child] for child in psg[function].children if psg[child].kind is not VertexKind.CALL)


def _lines(function: int, psg: PSG) -> float:
    """Lines of a function's body; infinite where its source is not known."""
    spans = [vertex.site or vertex.place for vertex in _own_code(function, psg)]
    if not spans:
        return float("inf")
    first, last = min(span.line for span in spans), max(max(span.line, span.end_line) for span in spans)
    whole = psg[function].place.line, psg[function].place.end_line
    # One stretch from the name of a procedure to its end is all that is known of Fortran.
    return max(last - first - 1, 1) if (first, last) == whole else last - first + 1


def _is_wrapper(function: int, psg: PSG) -> bool:
    """Whether a function is a few lines of straight code."""
    decides = any(vertex.kind in (VertexKind.LOOP, VertexKind.BRANCH) for vertex in _own_code(function, psg))
    return not decides and _lines(function, psg) <= WRAPPER_LINES


def _is_known(function: int, call: _Call, psg: PSG) -> bool:
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


def called_in_loop(function: int, psg: PSG) -> bool:
    """Whether what calls a function repeats it, without communication in between."""
    for above in psg.ancestors(function):
        if above.kind in (VertexKind.LOOP, VertexKind.FUNCTION) and psg.communicates(above.index):
            return False
        if above.kind is VertexKind.LOOP:
            return True
    return False
