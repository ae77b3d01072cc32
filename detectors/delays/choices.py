"""What ranks run instead of each other between the same two points: arms of a branch, methods behind one call.

A rank that takes the plain product where the others take the blocked one is late by what the two differ in, not by all
of the plain one; and a rank that takes the faster of two is not late with it at all.

The parts of a choice are siblings in the structure, without communication: arms of one ``if``; functions that one call
leads to; or parts that no rank runs both of, the first of which is a branch that ranks do not come back from (``if
simple: return plain(a)``).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scalana.detectors.delays.contexts import ALONE
from scalana.detectors.thresholds.shares import MAJORITY, NEXT_TO_NOTHING, TOO_SMALL
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind
from scalana.graphs.timeline import Timeline

_CALLED = (VertexKind.FUNCTION, VertexKind.CALL)
_GOES_ON = ("else", "elif", "case", "default")


class _Part(NamedTuple):
    """A part of a program, in whatever context it stands."""

    place: Place
    site: Place | None


def find_choices(timeline: Timeline, psg: PSG) -> IntArray:
    """A number for all activities below the parts of one choice, of several the outermost; :data:`ALONE` for any other
    ``[activities]``. O(activities x depth), and one pass over the own work of the run."""
    vertices = timeline.activities.vertex.tolist()
    chain_of = {vertex: _chain(vertex, psg) for vertex in set(vertices)}
    chains, parts = [chain_of[vertex] for vertex in vertices], _Parts(psg)
    seconds = _seconds_of_parts([parts.of_chain(chain) for chain in chains], timeline)
    choices, known = _Choices(), set[tuple[int, ...]]()
    for parent in sorted({psg[vertex].parent for chain in chain_of.values() for vertex in chain}):
        for siblings in _without_communication(parent, psg):
            run = [(psg[vertex], seconds[part]) for vertex in siblings if (part := parts.of(vertex)) in seconds]
            which = tuple(parts.of(vertex.index) for vertex, _ in run)
            if which in known:
                continue
            known.add(which)
            for one, other in _alternatives(run, psg):
                choices.join(parts.of(one.index), parts.of(other.index))
    number = [next((n for v in chain if (n := choices.number(parts.of(v))) != ALONE), ALONE) for chain in chains]
    return np.array(number, dtype=np.int64)


def with_alternatives(activities: IntArray, ranks: list[int], choice: IntArray, timeline: Timeline) -> IntArray:
    """Activities of a cause on some ranks, with those of the choices in which it is most of what these ranks do:
    what others do there instead is what one compares with. ``choice`` is what :func:`find_choices` gives."""
    chosen = np.unique(choice[activities])
    chosen = chosen[chosen != ALONE]
    if not len(chosen):
        return activities
    own = timeline.own
    rows = np.flatnonzero(np.isin(choice, chosen)[own.activity])
    rows = rows[np.isin(timeline.locations.rank[burst_locations(timeline)[own.burst[rows]]], ranks)]
    done_s = weighted_count(own.activity[rows], own.seconds[rows], len(choice))
    whole_s = weighted_count(np.maximum(choice, 0), np.where(choice != ALONE, done_s, 0.0), int(choice.max()) + 1)
    here = activities[choice[activities] != ALONE]
    part_s = weighted_count(choice[here], done_s[here], len(whole_s))
    of_it = chosen[part_s[chosen] >= MAJORITY * whole_s[chosen]]
    return np.union1d(activities, np.flatnonzero(np.isin(choice, of_it)))


def same_in_choices(activities: IntArray, work: IntArray, choice: IntArray) -> IntArray:
    """The activities that are the same work as some, in whatever context, and part of the same choice. ``work`` is what
    :func:`~scalana.detectors.delays.contexts.same_work` gives."""
    pair, _ = number_columns(work, choice)
    known = activities[(work[activities] != ALONE) & (choice[activities] != ALONE)]
    return np.flatnonzero(np.isin(pair, pair[known]))


class _Parts:
    """Numbers of the parts that vertices are, which are faster to compare."""

    def __init__(self, psg: PSG) -> None:
        self._psg = psg
        self._of_vertex: dict[int, int] = {}
        self._numbers: dict[_Part, int] = {}

    def of(self, vertex: int) -> int:
        """The part that a vertex is."""
        number = self._of_vertex.get(vertex)
        if number is None:
            here = self._psg[vertex]
            number = self._numbers.setdefault(_Part(here.place, here.site), len(self._numbers))
            self._of_vertex[vertex] = number
        return number

    def of_chain(self, vertices: list[int]) -> set[int]:
        """The parts that some vertices are."""
        return {self.of(vertex) for vertex in vertices}


class _Choices:
    """Parts that are alternatives to each other, directly or by others: sets that are joined."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}
        self._numbers: dict[int, int] = {}

    def join(self, one: int, other: int) -> None:
        self._above.setdefault(one, one)
        self._above.setdefault(other, other)
        self._above[self._top(other)] = self._top(one)

    def _top(self, part: int) -> int:
        while self._above[part] != part:
            part = self._above[part]
        return part

    def number(self, part: int) -> int:
        """Of the choice that a part belongs to, :data:`ALONE` for none."""
        if part not in self._above:
            return ALONE
        return self._numbers.setdefault(self._top(part), len(self._numbers))


def _chain(vertex: int, psg: PSG) -> list[int]:
    """A vertex and those above it that are without communication, the outermost first."""
    found: list[int] = []
    while 0 < vertex < len(psg) and not psg.communicates(vertex) and psg[vertex].parent >= 0:
        found.append(vertex)
        vertex = psg[vertex].parent
    return found[::-1]


def _without_communication(parent: int, psg: PSG) -> Iterator[list[int]]:
    """The children of a vertex that follow each other without communication in between."""
    for communicates, siblings in itertools.groupby(psg[parent].children, psg.communicates):
        if not communicates:
            yield list(siblings)


def _seconds_of_parts(parts: list[set[int]], timeline: Timeline) -> dict[int, FloatArray]:
    """What every rank was seen to spend in each part that is not too small, in all of its contexts ``[ranks]``.
    ``parts`` are those that each activity lies in."""
    own = timeline.own
    total_s = weighted_count(own.activity, own.seconds, len(parts))
    whole_s: dict[int, float] = defaultdict(float)
    for around, amount in zip(parts, total_s.tolist(), strict=True):
        for part in around:
            whole_s[part] += amount
    least_s = TOO_SMALL * float(total_s.sum())
    seconds = {part: np.zeros(timeline.ranks) for part, amount in whole_s.items() if amount > least_s}
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst]].astype(np.int64)
    number, first = number_columns(own.activity.astype(np.int64), rank)
    of_pair = np.bincount(number, own.seconds, len(first))
    of_pair[np.bincount(number, own.samples, len(first)) == 0.0] = 0.0
    activity, begins = own.activity[first], np.searchsorted(own.activity[first], np.arange(len(parts) + 1))
    assert bool(np.all(np.diff(activity) >= 0))
    for around, low, high in zip(parts, begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        for part in around & seconds.keys():
            seconds[part][rank[first[low:high]]] += of_pair[low:high]
    return seconds


def _alternatives(run: list[tuple[Vertex, FloatArray]], psg: PSG) -> Iterator[tuple[Vertex, Vertex]]:
    """Pairs of siblings that are alternatives, of those that follow each other with the seconds of every rank."""
    of_one_branch = {
        v.index for (one, _), (other, _) in itertools.pairwise(run) if _goes_on(one, other) for v in (one, other)
    }
    for number, (one, one_s) in enumerate(run):
        later = run[number + 1 :]
        is_alone = one.kind is VertexKind.BRANCH and one.index not in of_one_branch
        leaves = is_alone and all(_is_either(one_s, other_s) for _, other_s in later)
        for other, other_s in later:
            called = _may_be_called(one, other, psg) and _is_either(one_s, other_s)
            if leaves or called or _goes_on(one, other) or _is_one_call(one, other):
                yield one, other


def _goes_on(one: Vertex, other: Vertex) -> bool:
    """Whether one of two siblings is the arm of a branch, and the other one the next arm of the same."""
    is_branch = one.kind is VertexKind.BRANCH and other.kind is VertexKind.BRANCH
    return is_branch and other.position == one.position + 1 and other.place.name.startswith(_GOES_ON)


def _is_one_call(one: Vertex, other: Vertex) -> bool:
    """Whether two siblings are what one call in the source may lead to."""
    both = one.kind is VertexKind.FUNCTION and other.kind is VertexKind.FUNCTION
    return both and one.site is not None and one.site == other.site and one.place != other.place


def _may_be_called(one: Vertex, other: Vertex, psg: PSG) -> bool:
    """Whether one of two siblings may be called instead of the other: by one call, or in one line."""
    if one.kind not in _CALLED or other.kind not in _CALLED or one.place == other.place:
        return False
    same_line = (one.site or one.place).line == (other.site or other.place).line
    return same_line or psg[one.parent].kind is VertexKind.CALL


def _is_either(one_s: FloatArray, other_s: FloatArray) -> bool:
    """Whether no rank does both."""
    mine, theirs = (some_s > NEXT_TO_NOTHING * float(some_s.max(initial=0.0)) for some_s in (one_s, other_s))
    return bool(mine.any() and theirs.any()) and not bool((mine & theirs).any())
