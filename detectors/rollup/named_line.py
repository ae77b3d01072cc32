"""The line that is named: the call of a small helper, rather than a line in it, where going into it tells no more.

Excess is found where samples are: in the innermost line of the user's own code. Often that is no line that anybody
would edit, but the clock read of a waiting loop, a wrapper of ``sleep``, the ``dot`` or the logger that the whole
program shares. What makes the rank different is then that it *calls* the helper, or how often.

Excess is rolled up from the innermost functions outwards. What of it has come to lie in a function's own body goes on
to the line of the call, unless it tells more to stay:

* another part of the cause stays, in a function that is called from here or in a loop of its own;
* the function is slower wherever it is called: then the other calls of it have excess, too, in proportion to the time
  in them;
* nothing but this line calls it, and it is more than a wrapper: its name and its line say the same as the call does;
* the line of the call calls several functions, as a table of handlers does: only the function says which of them.

A function with a loop of its own that holds the excess is long by itself. Its loop stays, unless it is called in a
loop and the calls elsewhere show that it always spends its time in the same parts: it then runs more often.
"""

from __future__ import annotations

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
IN_PROPORTION = 0.2
"""So many times the excess for each second of a function's time that one call has, the other calls have where it is
the function that is slower; far from 1, for on shared cores calls that come later find others behind them."""
NOT_BY_CHANCE = 0.1
"""Part of the excess at one call from which the other calls have any."""
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
    helpers = _Helpers(bodies, excess, places, timeline, psg)
    for function in sorted(bodies, key=lambda function: -_depth(function, psg)):
        call = helpers.call_that_tells(function)
        if call is None:
            continue
        for number in bodies[function].here:
            places[number] = call.vertex, call.line
        outer = psg.enclosing(call.vertex, VertexKind.FUNCTION)
        if outer in bodies:
            bodies[outer].here.extend(bodies[function].here)
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
class _Helpers:
    """Decides which functions are helpers, the innermost first."""

    bodies: dict[int, _Body]
    excess: list[Excess]
    places: list[tuple[int, int]]
    """Vertex and line where each excess has come to by now."""
    timeline: Timeline
    psg: PSG
    contexts: dict[Place, dict[int, _Call]] = field(default_factory=lambda: defaultdict(dict))
    """All vertices of each function, and where it is called there."""
    parts_s: dict[int, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """Own time of all ranks at and below vertices of functions that are called at several lines, by part."""

    def __post_init__(self) -> None:
        """Look up the calls of all functions that hold excess, and the time in those that are called at several."""
        psg = self.psg
        for function in _contexts({psg[function].place for function in self.bodies}, psg):
            call = _call_of(function, psg)
            if call is not None:
                self.contexts[psg[function].place][function] = call
        several = [calls for calls in self.contexts.values() if len({call[1:] for call in calls.values()}) > 1]
        if several:
            self._measure({function for calls in several for function in calls})

    def _measure(self, functions: set[int]) -> None:
        own, activities, psg = self.timeline.own, self.timeline.activities, self.psg
        seconds = weighted_count(own.activity, own.seconds, len(activities)).tolist()
        around: dict[int, list[int]] = {}
        for vertex, line, amount in zip(activities.vertex.tolist(), activities.line.tolist(), seconds, strict=True):
            if vertex not in around:
                around[vertex] = [function for function in _functions(vertex, psg) if function in functions]
            for function in around[vertex]:
                self.parts_s[function][self._part(function, vertex, line)] += amount

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

    def call_that_tells(self, function: int) -> _Call | None:
        """The call of a function vertex, if that tells as much as what lies in the function; else None."""
        psg, body = self.psg, self.bodies[function]
        call = self.contexts[psg[function].place].get(function)
        if call is None or not body.here or _is_one_of_several(function, psg):
            return None
        most = max(body.below.values())
        ranks = {rank for rank, seconds in body.below.items() if seconds >= NOTABLE * most}
        all_s = sum(body.below[rank] for rank in ranks)
        here = [number for number in body.here if self.excess[number].rank in ranks]
        here_s = sum(self.excess[number].seconds for number in here)
        if here_s <= (1.0 - MOST) * all_s:
            return None
        straight_s = sum(
            self.excess[number].seconds for number in here if not self._in_loop_of(function, self.places[number][0])
        )
        straight = straight_s > (1.0 - MOST) * here_s
        here_calls, elsewhere = self._other_calls(function, call)
        if elsewhere:
            if self._slower_everywhere(here_calls, elsewhere, ranks):
                return None
            alike = self._does_the_same(function, here, elsewhere)
            if straight:
                return call if alike or _lines(function, psg) <= SMALL_LINES else None
            return call if alike and called_in_loop(function, psg) else None
        if not straight or not _is_wrapper(function, psg):
            return None
        forwards = any(self.excess[number].vertex != self.places[number][0] for number in here)
        return call if forwards or (called_in_loop(function, psg) and _is_known(function, psg)) else None

    def _in_loop_of(self, function: int, vertex: int) -> bool:
        while vertex != function:
            if self.psg[vertex].kind is VertexKind.LOOP:
                return True
            vertex = self.psg[vertex].parent
        return False

    def _other_calls(self, function: int, call: _Call) -> tuple[list[int], list[int]]:
        """The vertices of a function that are called by the same line, and those that others call."""
        calls = self.contexts[self.psg[function].place]
        same = [other for other, at in calls.items() if at[1:] == call[1:]]
        return same, [other for other, at in calls.items() if at[1:] != call[1:]]

    def _slower_everywhere(self, here: list[int], elsewhere: list[int], ranks: set[int]) -> bool:
        """Whether ranks have as much excess at other calls of a function, for the time in them."""
        excess_s = [
            sum(self.bodies[f].below.get(rank, 0.0) for f in some if f in self.bodies for rank in ranks)
            for some in (here, elsewhere)
        ]
        time_s = [sum(sum(self.parts_s[f].values()) for f in some if f in self.parts_s) for some in (here, elsewhere)]
        in_proportion = excess_s[1] * time_s[0] >= IN_PROPORTION * excess_s[0] * time_s[1]
        return in_proportion and excess_s[1] >= NOT_BY_CHANCE * excess_s[0]

    def _does_the_same(self, function: int, here: list[int], elsewhere: list[int]) -> bool:
        """Whether what is excess in a function lies in those parts of it that take the time elsewhere, too."""
        usual, more = defaultdict[int, float](float), defaultdict[int, float](float)
        for other in elsewhere:
            for part, seconds in self.parts_s.get(other, {}).items():
                usual[part] += seconds
        for number in here:
            more[self._part(function, *self.places[number])] += self.excess[number].seconds
        usual_s, more_s = sum(usual.values()), sum(more.values())
        if usual_s <= SAMPLES * self.timeline.period_s:
            return False
        return sum(min(usual[part] / usual_s, more[part] / more_s) for part in more) >= ALIKE


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
    return max(max(span.line, span.end_line) for span in spans) - min(span.line for span in spans) + 1


def _is_wrapper(function: int, psg: PSG) -> bool:
    """Whether a function is a few lines of straight code."""
    decides = any(vertex.kind in (VertexKind.LOOP, VertexKind.BRANCH) for vertex in _own_code(function, psg))
    return not decides and _lines(function, psg) <= WRAPPER_LINES


def _is_known(function: int, psg: PSG) -> bool:
    """Whether a call leads to one function for certain: the source shows it, or it is no method."""
    here = psg[function]
    if here.site is not None and psg[here.parent].kind is not VertexKind.CALL:
        return True
    name = here.place.name.rpartition("<locals>.")[2]
    return name.endswith("<lambda>") or not ("." in name or "::" in name)


def called_in_loop(function: int, psg: PSG) -> bool:
    """Whether what calls a function repeats it, without communication in between."""
    for above in psg.ancestors(function):
        if above.kind in (VertexKind.LOOP, VertexKind.FUNCTION) and psg.communicates(above.index):
            return False
        if above.kind is VertexKind.LOOP:
            return True
    return False
