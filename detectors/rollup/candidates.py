"""From the blame table to candidate findings: entries that are one cause, joined.

Entries of one place are joined over ranks. Entries of different lines of one loop without communication are one
cause: the line that holds most of it on a rank, else the loop; so are those of a function that is called in such a
loop. The lines of any other function are joined only where no line or loop of it holds a large part. What lies in many
functions that one line or function calls, and none of which holds a large part of it, stands there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.library_calls import PartSeconds, library_place, settled, whole_call
from scalana.detectors.rollup.named_place import CodeLocation, named_places
from scalana.detectors.rollup.role_work import beyond_role
from scalana.detectors.thresholds.shares import NOTABLE, SHARE_OF_ITS_OWN, VANISHING
from scalana.graphs.arrays.hashing import distinct, number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.structure.psg import PSG, VertexKind


@dataclass(frozen=True, slots=True)
class Candidate:
    """Entries of the blame table that are one cause, bound to the run that they were found in."""

    blamed: BlamedRun
    code_location: CodeLocation
    entries: IntArray
    """Rows of the blame table."""
    lost_s: float
    ranks: list[int]
    """Ranks that hold a notable part of it, in order."""

    def joined(self, others: Iterable[Candidate]) -> Candidate:
        """With the entries and the seconds of others, at the same place and on the same ranks."""
        parts = [self, *others]
        entries = np.concatenate([part.entries for part in parts]) if len(parts) > 1 else self.entries
        return replace(self, entries=entries, lost_s=sum(part.lost_s for part in parts))


def shares_of(candidate: Candidate) -> np.ndarray:
    """Which rows of the table's shares come to rest on a candidate ``[rows of Shares]``."""
    return shares_of_entries(candidate.entries, candidate.blamed.table)


def shares_of_entries(entries: IntArray, table: BlameTable) -> np.ndarray:
    """Which rows of the table's shares come to rest on some of its entries ``[rows of Shares]``."""
    hit = np.zeros(len(table.target) + 1, dtype=bool)  # the last for no entry
    hit[entries] = True
    return np.asarray(hit[table.share_entry])


def join_entries(blamed: BlamedRun) -> list[Candidate]:
    """Join the entries of a blame table, largest candidate first. Every entry is in exactly one candidate."""
    table, timeline, psg = blamed.table, blamed.timeline, blamed.psg
    if not len(table.target):
        return []
    rank = timeline.locations.rank[table.location]
    code_locations, number = _code_locations_by_rank(blamed, rank)
    order = np.argsort(number, kind="stable")
    first = np.searchsorted(number[order], np.arange(len(code_locations) + 1))
    candidates = []
    for code_location, low, high in zip(code_locations, first[:-1].tolist(), first[1:].tolist(), strict=True):
        candidates.append(_candidate(code_location, order[low:high], blamed, rank))
    candidates = _join_parts(candidates, blamed, rank)
    candidates = _join_small_callees(_join_called(candidates, psg), blamed, rank)
    return sorted(_join_contexts(candidates, blamed, rank), key=lambda candidate: -candidate.lost_s)


def _join_parts(candidates: list[Candidate], blamed: BlamedRun, rank: IntArray) -> list[Candidate]:
    """Join the parts of a library's call that are one cause: where :func:`.library_calls.settled` has them stand."""
    table, psg = blamed.table, blamed.psg
    ranks = int(rank.max(initial=-1)) + 1
    own = [candidate for candidate in candidates if candidate.code_location.kind == TargetKind.OWN]
    calls = {
        whole_call(candidate.code_location.vertex, psg)
        for candidate in own
        if library_place(candidate.code_location.vertex, psg) is not None
    }
    own = [candidate for candidate in own if whole_call(candidate.code_location.vertex, psg) in calls]
    held = [
        PartSeconds(
            candidate.code_location.vertex,
            candidate.ranks,
            weighted_count(rank[candidate.entries], table.seconds[candidate.entries], ranks),
        )
        for candidate in own
    ]
    at = dict(zip(map(id, own), settled(held, psg), strict=True))
    joined: dict[CodeLocation, list[IntArray]] = defaultdict(list)
    for candidate in candidates:
        vertex = at.get(id(candidate), candidate.code_location.vertex)
        joined[candidate.code_location._replace(vertex=vertex)].append(candidate.entries)
    return [_candidate(place, np.concatenate(parts), blamed, rank) for place, parts in joined.items()]


def _candidate(code_location: CodeLocation, entries: IntArray, blamed: BlamedRun, rank: IntArray) -> Candidate:
    seconds = np.bincount(rank[entries], weights=blamed.table.seconds[entries])
    notable = np.nonzero(seconds >= NOTABLE * seconds.max())[0]
    return Candidate(blamed, code_location, entries, float(seconds.sum()), notable.tolist())


def _code_locations_by_rank(blamed: BlamedRun, rank: IntArray) -> tuple[list[CodeLocation], IntArray]:
    """The code locations that occur, and which of them every entry's is.

    Decided rank by rank; entries that are small, of which a large job has very many, are decided over all ranks.
    """
    table, timeline, psg = blamed.table, blamed.timeline, blamed.psg
    decider = np.where(table.seconds >= VANISHING * float(table.seconds.sum()), rank, -1)
    case, chosen = number_columns(decider, table.target)
    deciders = decider[chosen].tolist()
    seconds = np.bincount(case, weights=table.seconds, minlength=len(chosen)).tolist()
    leaves = [_leaf(blamed, target) for target in table.target[chosen].tolist()]
    numbers: dict[CodeLocation, int] = {}
    named = named_places(leaves, deciders, beyond_role(leaves, deciders, seconds, timeline), timeline, psg)
    place = [numbers.setdefault(code_location, len(numbers)) for code_location in named]
    # In the order in which the entries, the largest first, come to them.
    code_locations, number = list(numbers), np.array(place, dtype=np.int64)[case]
    _, first, number = distinct(number)
    order = np.argsort(first)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return [code_locations[row] for row in order.tolist()], back[number]


def _leaf(blamed: BlamedRun, target: int) -> CodeLocation:
    table, timeline, psg = blamed.table, blamed.timeline, blamed.psg
    kind, row = table.numbering.describe(target)
    if kind != TargetKind.OWN:
        return CodeLocation(kind, row, -1)
    return _outside_comm(
        CodeLocation(kind, int(timeline.activities.vertex[row]), int(timeline.activities.line[row])), psg
    )


def _outside_comm(leaf: CodeLocation, psg: PSG) -> CodeLocation:
    return leaf if leaf.vertex < len(psg) else CodeLocation(leaf.kind, 0, leaf.line)


def _join_called(candidates: list[Candidate], psg: PSG) -> list[Candidate]:
    """Join the parts of one cause that lie in a caller and in what it calls, on the same ranks, where one holds more.

    A small function without loops stands with its caller's lines: a compiler puts it into the caller and mixes what
    they do, so that a sample names either. It is called in the same loop, or else computes outside of one, where it
    could take no time by itself. The line that calls a function which holds more, in turn, stands with that.
    """
    largest: dict[int, int] = {}
    called_at: dict[tuple[int, int], int] = {}
    result: list[list[Candidate]] = []  # each with its parts, the one that stands for them first
    for candidate in sorted(candidates, key=lambda c: -c.lost_s):
        if candidate.code_location.kind == TargetKind.OWN:
            vertex = candidate.code_location.vertex
            loop, function, caller_loop, caller = _around(vertex, psg)
            library = psg[vertex].kind is VertexKind.CALL  # which may well take time by itself
            if caller_loop < 0 and library:
                caller = -1
            main = largest.get(caller_loop if caller_loop >= 0 else caller) if loop < 0 and caller >= 0 else None
            if main is None and not (library and _is_python(psg[vertex].place.file)):
                main = called_at.get((psg.enclosing(vertex, VertexKind.FUNCTION), candidate.code_location.line))
            if main is not None and set(candidate.ranks) <= set(result[main][0].ranks):
                result[main].append(candidate)
                continue
            for container in (loop, function):
                if container >= 0:
                    largest.setdefault(container, len(result))
            for call in _calls_above(vertex, psg):
                called_at.setdefault(call, len(result))
        result.append([candidate])
    return [main.joined(parts) for main, *parts in result]


def _is_python(file: str) -> bool:
    """Whether it is Python's, whose samples tell a library's call from others on its line."""
    return file.endswith(".py") or file.startswith("<")


def _calls_above(vertex: int, psg: PSG) -> Iterator[tuple[int, int]]:
    """The function and the line of every call that leads to a vertex."""
    for above in psg.ancestors(vertex):
        site = above.site if above.kind is VertexKind.FUNCTION else None
        place = above.place if above.kind is VertexKind.CALL else site
        if place is not None and above.parent > 0:
            yield psg.enclosing(above.parent, VertexKind.FUNCTION), place.line


def _join_small_callees(candidates: list[Candidate], blamed: BlamedRun, rank: IntArray) -> list[Candidate]:
    """Join what lies below one line that calls, or one function, without communication, where no part of it is large.

    So a table of handlers is one cause, and so are many modules that one line imports: the innermost that holds them.
    """
    psg = blamed.psg
    parts: dict[tuple[int, int], list[int]] = defaultdict(list)
    code_locations: dict[tuple[int, int], CodeLocation] = {}
    everything: list[Candidate | None] = []
    around: list[list[tuple[int, int]]] = []

    def include(candidate: Candidate, places: list[tuple[int, int]]) -> None:
        for place in places:
            parts[place].append(len(everything))
        everything.append(candidate)
        around.append(places)

    for candidate in candidates:
        code_location, places = candidate.code_location, {}
        if code_location.kind == TargetKind.OWN and 0 < code_location.vertex < len(psg):
            places = {
                (psg.enclosing(other.vertex, VertexKind.FUNCTION), other.line): other
                for other in _above(code_location, psg)
            }
        for place, other in places.items():
            code_locations.setdefault(place, other)
        include(candidate, list(places))
    # Innermost first: what is called stands behind its caller, and a function's lines after -1.
    for place in sorted(code_locations, reverse=True):
        held = [(number, part) for number in parts[place] if (part := everything[number]) is not None]
        by_line: dict[tuple[str, int], float] = defaultdict(float)
        for _, part in held:  # one line that is called from many places is one part
            by_line[_line_of(part.code_location, psg)] += part.lost_s
        if len(held) < 2 or max(by_line.values()) >= SHARE_OF_ITS_OWN * sum(by_line.values()):
            continue
        joined = _candidate(code_locations[place], np.concatenate([part.entries for _, part in held]), blamed, rank)
        for number, _ in held:
            everything[number] = None
        include(joined, sorted({outer for number, _ in held for outer in around[number] if outer < place}))
    return [candidate for candidate in everything if candidate is not None]


def _line_of(code_location: CodeLocation, psg: PSG) -> tuple[str, int]:
    """The file and the first line of a place in the structure."""
    place = psg[code_location.vertex].place
    return place.file, code_location.lines(place)[0]


def _above(code_location: CodeLocation, psg: PSG) -> Iterator[CodeLocation]:
    """A code location, and the functions and the lines of calls around it, innermost first, up to what communicates."""
    yield code_location
    for above in psg.ancestors(code_location.vertex):
        if above.kind is VertexKind.CALL:
            yield CodeLocation(code_location.kind, above.index, above.place.line)
        elif above.kind is VertexKind.FUNCTION:
            if above.parent <= 0 or psg.communicates(above.index):
                return
            if above.place.name != "<module>":
                yield CodeLocation(code_location.kind, above.index, -1)
            if above.site is not None and above.site.line > 0:
                yield CodeLocation(code_location.kind, above.parent, above.site.line)


def _around(vertex: int, psg: PSG) -> tuple[int, int, int, int]:
    """The innermost loop without communication around a vertex and its function, and the same of what calls that.

    -1 where there is none; Python's functions have no callers in this sense, since every call has a frame of its own.
    """
    found = [-1, -1, -1, -1]
    level = 0
    while vertex > 0 and level < 4:
        kind = psg[vertex].kind
        if kind is VertexKind.LOOP and found[level] < 0:
            found[level] = -1 if psg.communicates(vertex) else vertex
        elif kind is VertexKind.FUNCTION:
            if _is_python(psg[vertex].place.file):
                break
            found[level + 1] = vertex
            level += 2
        vertex = psg[vertex].parent
    return found[0], found[1], found[2], found[3]


def _join_contexts(candidates: list[Candidate], blamed: BlamedRun, rank: IntArray) -> list[Candidate]:
    """Join candidates of one place that was reached by several call paths, where they are about the same ranks."""
    psg = blamed.psg
    joined: dict[object, list[Candidate]] = defaultdict(list)
    ordered = sorted(candidates, key=lambda c: -c.lost_s)
    for candidate in ordered:
        code_location = candidate.code_location
        if code_location.vertex < 0 or code_location.vertex >= len(psg):
            joined[code_location].append(candidate)
            continue
        place = psg[code_location.vertex].place
        line = code_location.line if code_location.line >= 0 else place.line
        function = (
            psg.function_of(code_location.vertex) if line <= 0 else ""
        )  # without lines, that is all there is to tell
        key = (
            code_location.kind,
            place.file,
            line,
            code_location.line >= 0,
            library_place(code_location.vertex, psg),
            function,
        )
        for row, other in enumerate(joined[key]):
            if set(other.ranks) & set(candidate.ranks) or other.lost_s > 20 * candidate.lost_s:
                joined[key][row] = other.joined([candidate])
                break
        else:
            joined[key].append(candidate)
    return [candidate for group in joined.values() for candidate in group]
