"""Where the seconds of a cause go below the line that is named: the innermost function that holds most of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Leaf
from scalana.detectors.rollup.call_sites import calls_of
from scalana.detectors.rollup.candidates import Candidate, join_entries
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.timeline import Timeline


class Step(NamedTuple):
    """A function on the way down from the one in which a cause is named."""

    function: int
    """Its vertex."""
    place: Place
    line: int
    """Of its own code: where the seconds are, or where it calls what comes next."""


def steps_below(root: Place, vertex: int, line: int, psg: PSG) -> list[Step]:
    """The functions between one and some work below it, the outermost first; none where it is not below."""
    steps: list[Step] = []
    while True:
        function = psg.enclosing(vertex, VertexKind.FUNCTION) if 0 < vertex < len(psg) else -1
        if function < 0:
            return []
        if psg[function].place == root:
            return steps[::-1]
        steps.append(Step(function, psg[function].place, line))
        vertex = psg[function].parent
        site = psg[function].site or psg[vertex].place
        line = site.line


def work_below(candidate: Candidate) -> Iterator[tuple[list[Step], float]]:
    """The ways from the function in which a cause is named to its work, with the seconds of each."""
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    seconds: dict[int, float] = defaultdict(float)
    for target, amount in zip(
        table.target[candidate.entries].tolist(), table.seconds[candidate.entries].tolist(), strict=True
    ):
        seconds[target] += amount
    own = [target for target in seconds if table.numbering.describe(target)[0] == TargetKind.OWN]
    yield from _ways(candidate.code_location, [(target, seconds[target]) for target in own], timeline, psg)


def _ways(
    named: CodeLocation, work: Iterable[tuple[int, float]], timeline: Timeline, psg: PSG
) -> Iterator[tuple[list[Step], float]]:
    """The ways from the function in which something is named to activities, with the seconds of each."""
    function = psg.enclosing(named.vertex, VertexKind.FUNCTION)
    for activity, amount in work if function >= 0 else ():
        vertex, line = int(timeline.activities.vertex[activity]), int(timeline.activities.line[activity])
        yield steps_below(psg[function].place, vertex, line, psg), amount


def place_of_excess(
    location: IntArray, activity: IntArray, seconds: FloatArray, blamed: BlamedRun
) -> tuple[Candidate, Leaf | None] | None:
    """The place with most of what locations did more than usual, and the leaf below; None where it is nothing. The
    columns are activities of locations, and how much more, each ``[entries]``."""
    excess = blamed.table.of_excess(location, activity, seconds)
    for candidate in join_entries(replace(blamed, table=excess)):
        return candidate, leaf_of(candidate)
    return None


def leaf_of(candidate: Candidate) -> Leaf | None:
    """The leaf of a cause: see :func:`leaf_below`."""
    psg = candidate.blamed.psg
    if candidate.code_location.kind != TargetKind.OWN or not 0 < candidate.code_location.vertex < len(psg):
        return None
    return _leaf(list(work_below(candidate)), psg)


def leaf_below(named: CodeLocation, work: Iterable[tuple[int, float]], timeline: Timeline, psg: PSG) -> Leaf | None:
    """File, line and function of the leaf of some work, and at how many lines that function is called; None where most
    of the work lies in the very function in which it is named, or in many small ones.

    Args:
        named: Where it is named.
        work: Rows of the activities of the run, with the seconds of each.
        timeline: Of the run.
        psg: Its structure.
    """
    return _leaf(list(_ways(named, work, timeline, psg)), psg)


def _leaf(ways: list[tuple[list[Step], float]], psg: PSG) -> Leaf | None:
    enough = MAJORITY * sum(seconds for _, seconds in ways)
    leaf: Step | None = None
    for depth in range(max((len(steps) for steps, _ in ways), default=0)):
        held: dict[Place, float] = defaultdict(float)
        for steps, seconds in ways:
            if len(steps) > depth:
                held[steps[depth].place] += seconds
        place = max(held, key=lambda place: held[place])
        if held[place] < enough:
            break
        ways = [(steps, seconds) for steps, seconds in ways if len(steps) > depth and steps[depth].place == place]
        lines: dict[int, float] = defaultdict(float)
        for steps, seconds in ways:
            lines[steps[depth].line] += seconds
        leaf = ways[0][0][depth]._replace(line=max(lines, key=lambda line: lines[line]))
    if leaf is None:
        return None
    return Leaf(leaf.place.file, leaf.line, leaf.place.name, len(calls_of(leaf.function, psg)))
