"""The line that is named: the call of a small helper, rather than a line in it, where going into it tells no more.

Excess is found where samples are: in the innermost line of the user's own code. Often that is no line that anybody
would edit, but the clock read of a waiting loop, a wrapper of ``sleep``, the ``dot`` or the logger that the whole
program shares. What makes the rank different is then that it *calls* the helper, or how often.

Excess is rolled up from the innermost functions outwards. What of it has come to lie in a function's own body goes on
to the line of the call, unless it tells more to stay:

* another part of the cause stays, in a function that is called from here or in a loop of its own;
* the function is slower wherever a rank calls it: then its other calls of it have excess, too, in proportion to the
  time in them;
* nothing but this line calls it, and it is more than a wrapper that is called in a loop, or that forwards to a helper:
  its name and its line say the same as the call does;
* nobody runs it but the ranks that are late, and it is not one loop that calls it: it is what makes them different;
* the line of the call calls several functions, as a table of handlers does: only the function says which of them.

A function with a loop of its own that holds the excess is long by itself. Its loop stays, unless calls elsewhere have
no excess, be it those that other ranks make instead, and show that it always spends its time in the same parts. If it
is called in a loop, it then runs more often; if its calls elsewhere take some of the time that the excess does, this
call has it do more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scalana.detectors.rollup.call_sites import (
    Call,
    Line,
    Sites,
    call_of,
    call_sites,
    called_in_loop,
    contexts,
    depth,
    functions_around,
    in_own_loop,
    is_known,
    is_one_of_several,
    is_wrapper,
    lines_of,
)
from scalana.detectors.thresholds.counts import MANY, SMALL_LINES
from scalana.detectors.thresholds.shares import (
    MAJORITY,
    MINOR,
    NEXT_TO_NOTHING,
    NOTABLE,
    SHARE_OF_ITS_OWN,
    SUBSTANTIAL,
)
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.metrics import burst_locations
from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind
from scalana.graphs.timeline import Timeline


class Excess(NamedTuple):
    """Some excess at a line of the program."""

    vertex: int
    line: int
    rank: int
    """Or whatever else decides together about where its excess belongs."""
    seconds: float


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
        functions = list(functions_around(vertex, psg))
        if functions:
            bodies[functions[0]].here.append(number)
        for function in functions:
            bodies[function].below[rank] += seconds
    places = [(vertex, line) for vertex, line, _, _ in excess]
    on_trial: dict[int, tuple[int, int]] = {}
    helpers = _Helpers(bodies, excess, places, on_trial, timeline, psg)
    for function in sorted(bodies, key=lambda function: -depth(function, psg)):
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


@dataclass(slots=True)
class _Function:
    """All calls of one function of the program."""

    calls: dict[int, Call]
    """Where it is called, by its vertex."""
    several: bool
    """Whether several lines call it."""
    path: dict[int, Line]
    """The innermost call on the way to each of its vertices that several lines make: its own, or one of a caller."""
    everywhere: bool = False
    """Whether it is slower wherever it is called."""
    usual: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Own time in its parts where its calls have no excess."""


@dataclass(slots=True)
class _Time:
    """Own time at and below vertices of functions."""

    of_part: dict[int, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """Of all ranks, by vertex and part."""
    of_rank: dict[int, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """Of the ranks that hold much of the excess, by vertex and rank."""

    def seconds(self, vertex: int) -> float:
        """Of all ranks."""
        return sum(self.of_part[vertex].values()) if vertex in self.of_part else 0.0


def _quiet(excess_s: Mapping[Line, float], time_s: Mapping[Line, float]) -> list[Line]:
    """The calls without excess, beside the one that has most, for the time in them."""
    most = max(excess_s, key=lambda line: excess_s[line])
    return [line for line in excess_s if excess_s[line] * time_s[most] < SUBSTANTIAL * excess_s[most] * time_s[line]]


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
    sites: Sites = field(default_factory=dict)
    """Which functions each call leads to."""
    ran: set[int] = field(default_factory=set)
    """Vertices in and below which samples were seen. What a name may stand for by the source alone is no choice."""

    def __post_init__(self) -> None:
        """Look up all calls of these functions, and compare those of functions that are called at several lines."""
        psg = self.psg
        self.sites = call_sites(psg)
        for vertex in np.unique(self.timeline.activities.vertex).tolist():
            while 0 <= vertex < len(psg) and vertex not in self.ran:
                self.ran.add(vertex)
                vertex = psg[vertex].parent
        calls: dict[Place, dict[int, Call]] = defaultdict(dict)
        for vertex in contexts({psg[vertex].place for vertex in self.bodies}, psg):
            call = call_of(vertex, psg)
            if call is not None:
                calls[psg[vertex].place][vertex] = call
        several = {place for place, at in calls.items() if len({call[1:] for call in at.values()}) > 1}
        for place, at in calls.items():
            paths = {vertex: self._chosen_call(vertex, calls, several) for vertex in at}
            self.functions[place] = _Function(at, place in several, paths)
        compared = [function for function in self.functions.values() if len(set(function.path.values())) > 1]
        if compared:
            time = self._time_in({vertex for function in compared for vertex in function.calls})
            for function in compared:
                self._compare(function, time)

    def _chosen_call(self, vertex: int, calls: dict[Place, dict[int, Call]], several: set[Place]) -> Line:
        """The innermost call on the way to a function vertex of a function that several lines call; that of the
        outermost that is known, where there is none."""
        call = calls[self.psg[vertex].place][vertex]
        while self.psg[vertex].place not in several:
            vertex = self.psg.enclosing(call.vertex, VertexKind.FUNCTION)
            outer = (
                calls[self.psg[vertex].place].get(vertex) if vertex >= 0 and self.psg[vertex].place in calls else None
            )
            if outer is None:
                break
            call = outer
        return call[1:]

    def _late_ranks(self, vertices: Iterable[int]) -> set[int]:
        """Ranks that hold much of the excess in some functions."""
        by_rank: dict[int, float] = defaultdict(float)
        for vertex in vertices:
            for rank, seconds in (self.bodies[vertex].below if vertex in self.bodies else {}).items():
                by_rank[rank] += seconds
        most = max(by_rank.values(), default=0.0)
        return {rank for rank, seconds in by_rank.items() if seconds >= NOTABLE * most}

    def _time_in(self, functions: set[int]) -> _Time:
        """Own time at and below function vertices."""
        result = _Time()
        timeline, psg = self.timeline, self.psg
        own, activities = timeline.own, timeline.activities
        seconds = weighted_count(own.activity, own.seconds, len(activities)).tolist()
        around: list[list[int]] = []
        known: dict[int, list[int]] = {}
        for vertex, line, amount in zip(activities.vertex.tolist(), activities.line.tolist(), seconds, strict=True):
            if vertex not in known:
                known[vertex] = [function for function in functions_around(vertex, psg) if function in functions]
            around.append(known[vertex])
            for function in known[vertex]:
                result.of_part[function][self._part(function, vertex, line)] += amount
        rows = np.flatnonzero(np.array([bool(inside) for inside in around])[own.activity])
        rank = timeline.locations.rank[burst_locations(timeline)[own.burst[rows]]]
        late = np.isin(rank, list(self._late_ranks(functions)))
        rows, rank = rows[late], rank[late].astype(np.int64)
        number, first = number_columns(own.activity[rows].astype(np.int64), rank)
        sums = np.bincount(number, own.seconds[rows], len(first))
        for activity, who, amount in zip(
            own.activity[rows][first].tolist(), rank[first].tolist(), sums.tolist(), strict=True
        ):
            for function in around[activity]:
                result.of_rank[function][who] += amount
        return result

    def _compare(self, function: _Function, time: _Time) -> None:
        """Tell whether a function is slower wherever it is called, and what is usual where it is not."""
        ranks = self._late_ranks(function.calls)
        lines: dict[Line, list[int]] = defaultdict(list)
        for vertex, line in function.path.items():
            lines[line].append(vertex)
        excess_s = {
            line: {
                rank: sum(self.bodies[vertex].below.get(rank, 0.0) for vertex in vertices if vertex in self.bodies)
                for rank in ranks
            }
            for line, vertices in lines.items()
        }
        quiet_for: dict[Line, float] = defaultdict(float)
        all_s = everywhere_s = 0.0
        for rank in ranks:
            more_s = {line: by_rank[rank] for line, by_rank in excess_s.items()}
            did_s = {line: sum(time.of_rank[vertex].get(rank, 0.0) for vertex in lines[line]) for line in lines}
            whole_s, quiet = sum(more_s.values()), _quiet(more_s, did_s)
            all_s += whole_s
            for line in quiet:
                quiet_for[line] += whole_s
            quiet_s = sum(did_s[line] for line in quiet)
            spread = whole_s >= (1.0 + SHARE_OF_ITS_OWN) * max(more_s.values())
            if spread and quiet_s < MINOR * (sum(did_s.values()) - quiet_s):
                everywhere_s += whole_s
        function.everywhere = everywhere_s > MAJORITY * all_s
        usual = {line for line, seconds in quiet_for.items() if seconds > MAJORITY * all_s}
        for line in usual | self._of_others(lines, ranks, time):
            for vertex in lines[line]:
                for part, seconds in time.of_part.get(vertex, {}).items():
                    function.usual[part] += seconds

    def _of_others(self, lines: Mapping[Line, list[int]], late: set[int], time: _Time) -> set[Line]:
        """The calls of a function that have no excess, and that the ranks which have much of it do not make: what
        others do instead shows what is usual, too."""
        excess_s = {
            line: sum(sum(self.bodies[vertex].below.values()) for vertex in vertices if vertex in self.bodies)
            for line, vertices in lines.items()
        }
        did_s = {line: sum(time.seconds(vertex) for vertex in vertices) for line, vertices in lines.items()}
        late_s = {
            line: sum(time.of_rank[vertex].get(rank, 0.0) for vertex in vertices for rank in late)
            for line, vertices in lines.items()
        }
        return {line for line in _quiet(excess_s, did_s) if late_s[line] <= NEXT_TO_NOTHING * did_s[line]}

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

    def call_that_tells(self, vertex: int) -> Call | None:
        """The call of a function vertex, if that tells as much as what lies in the function; else None."""
        call = self._call_of_helper(vertex)
        if call is None:
            return None
        by_itself = all(self.excess[number][:2] == self.places[number] for number in self._most_of(vertex))
        repeated = in_own_loop(call.vertex, self.psg) and not self._is_called_at_several(vertex)
        return None if by_itself and not repeated and self._is_run_by_few(vertex) else call

    def _is_called_at_several(self, vertex: int) -> bool:
        """Whether several lines were seen to call a function."""
        calls = self.functions[self.psg[vertex].place].calls
        return len({call[1:] for context, call in calls.items() if context in self.ran}) > 1

    def _is_run_by_few(self, vertex: int) -> bool:
        """Whether nobody runs a function but the ranks that hold much of its excess, wherever it is called: or, where
        these are not known, one rank alone. It is what makes them different, then."""
        psg, timeline = self.psg, self.timeline
        below = np.zeros(len(psg) + 1, np.bool_)  # the last for what is outside of the structure
        for context in self.functions[psg[vertex].place].calls:
            below[[inside.index for inside in psg.walk(context)]] = True
        own = timeline.own
        rows = np.flatnonzero(below[np.minimum(timeline.activities.vertex, len(psg))][own.activity])
        rank = timeline.locations.rank[burst_locations(timeline)[own.burst[rows]]]
        seconds = weighted_count(rank, own.seconds[rows], timeline.ranks)
        run = set(np.flatnonzero(seconds > NEXT_TO_NOTHING * float(seconds.max(initial=0.0))).tolist())
        late = {rank for rank in self._late_ranks([vertex]) if rank >= 0}
        return run <= late if late else len(run) == 1

    def _call_of_helper(self, vertex: int) -> Call | None:
        """The call of a function vertex, if that tells as much whoever runs the function; else None."""
        psg, function = self.psg, self.functions.get(self.psg[vertex].place)
        call = function.calls.get(vertex) if function is not None else None
        if function is None or call is None or function.everywhere:
            return None
        if is_one_of_several(vertex, self.sites, psg, self.ran if function.several else None):
            return None
        here = self._most_of(vertex)
        if not here:
            return None
        here_s = sum(self.excess[number].seconds for number in here)
        in_loops = (number for number in here if self._in_loop_of(vertex, self.places[number][0]))
        straight = sum(self.excess[number].seconds for number in in_loops) < MAJORITY * here_s
        if function.several:
            alike = self._is_usual(vertex, here, function)
            if straight:
                return call if alike or lines_of(vertex, psg) <= SMALL_LINES else None
            return call if alike and (called_in_loop(vertex, psg) or self._is_used(here, function)) else None
        if not straight or not is_wrapper(vertex, psg):
            return None
        forwards = any(self.excess[number][:2] != self.on_trial.get(number, self.places[number]) for number in here)
        return call if (forwards or called_in_loop(vertex, psg)) and is_known(vertex, call, psg) else None

    def _most_of(self, vertex: int) -> list[int]:
        """The excess in a function's own code, of the ranks that have much in the function; none where most of it stays
        in what the function calls."""
        body = self.bodies[vertex]
        most = max(body.below.values())
        ranks = {rank for rank, seconds in body.below.items() if seconds >= NOTABLE * most}
        here = [number for number in body.here if self.excess[number].rank in ranks]
        here_s = sum(self.excess[number].seconds for number in here)
        return here if here_s > (1.0 - MAJORITY) * sum(body.below[rank] for rank in ranks) else []

    def call_by_a_wrapper(self, vertex: int) -> Call | None:
        """The call of a wrapper by another one, or of a function whose callers are what several lines call: it tells as
        much if the call of that does."""
        psg, function = self.psg, self.functions.get(self.psg[vertex].place)
        call = function.calls.get(vertex) if function is not None else None
        if function is None or call is None or function.several or is_one_of_several(vertex, self.sites, psg):
            return None
        outer = psg.enclosing(call.vertex, VertexKind.FUNCTION)
        if outer not in self.bodies or not is_known(vertex, call, psg):
            return None
        wraps = is_wrapper(vertex, psg) and is_wrapper(outer, psg)
        here = self._most_of(vertex) if len(set(function.path.values())) > 1 and not function.everywhere else []
        shared = here and self._is_used(here, function) and self._is_usual(vertex, here, function)
        return call if wraps or shared else None

    def _in_loop_of(self, function: int, vertex: int) -> bool:
        while vertex != function:
            if self.psg[vertex].kind is VertexKind.LOOP:
                return True
            vertex = self.psg[vertex].parent
        return False

    def _is_used(self, here: list[int], function: _Function) -> bool:
        """Whether the calls of a function that have no excess take a rank some of the time that its excess does: others
        use it as well."""
        more_s = sum(self.excess[number].seconds for number in here)
        each_s = more_s / len({self.excess[number].rank for number in here})
        return sum(function.usual.values()) > NEXT_TO_NOTHING * each_s * self.timeline.ranks

    def _is_usual(self, vertex: int, here: list[int], function: _Function) -> bool:
        """Whether excess in a function lies in those parts of it that take the time where its calls have none."""
        usual_s, more = sum(function.usual.values()), defaultdict[int, float](float)
        for number in here:
            more[self._part(vertex, *self.places[number])] += self.excess[number].seconds
        more_s = sum(more.values())
        if usual_s <= MANY * self.timeline.period_s:
            return False
        return sum(min(function.usual[part] / usual_s, more[part] / more_s) for part in more) >= MAJORITY
