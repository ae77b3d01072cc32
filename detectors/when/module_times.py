"""Time of every rank in the modules of its models, and the module that a finding lies in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.evidence import ModuleTime
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.factors import COMPARABLE
from scalana.detectors.thresholds.shares import CLEAR_MAJORITY, IN_PART
from scalana.detectors.when.modules_on_device import (
    CallPlaces,
    DeviceCalls,
    DeviceTimes,
    calls_on_devices,
    device_times,
)
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.ppg import PPG
from scalana.graphs.spans.device_waits import stretches_of_waiting
from scalana.graphs.spans.module_places import is_forward, module_vertices
from scalana.graphs.spans.modules import DIRECTIONS, Module, ModuleCalls, module_calls
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.timeline import Timeline

Way = tuple[int, int]
"""A module, and a direction in which it is gone through."""


@dataclass(frozen=True, slots=True)
class TimedCalls:
    """The calls of modules that count; columns are ``[calls]``."""

    module: IntArray
    direction: IntArray
    rank: IntArray
    step: IntArray
    elements: IntArray
    """Of the first argument, -1 where that is no tensor."""
    vertex: IntArray
    seconds: FloatArray
    """Without waiting for other ranks."""
    cpu_s: FloatArray
    """Of the thread that they run in, on a CPU; NaN where that is not known."""

    def of(self, kept: BoolArray) -> TimedCalls:
        """Some of them."""
        return TimedCalls(*(getattr(self, name)[kept] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class ModuleTimes:
    """What modules took on the steps in which all ranks timed theirs; seconds are those of a step, on hosts.

    Waiting for other ranks inside of a module is left out. What is inside of a module counts for it too.
    """

    modules: list[Module]
    seconds: FloatArray
    """Means ``[modules, directions, ranks]``; NaN on ranks where modules were not timed at all."""
    cpu_s: FloatArray
    """The same of the CPU time of their threads, NaN where it is not known of all calls."""
    calls: FloatArray
    """Calls in a step, likewise."""
    elements: FloatArray
    """Of the first argument, mean of a call ``[modules, ranks]``; NaN where that is no tensor."""
    steps: IntArray
    """Numbers of the steps."""
    places: list[list[IntArray]]
    """Vertices that are calls of each module, by direction ``[modules][directions]``."""
    timed: TimedCalls
    """What all of this is made of."""
    marked: DeviceCalls
    """What these calls left to do on devices, as far as that is known."""
    device: DeviceTimes | None
    """The same on devices; None where no module was marked on one."""

    def where(self, vertices: IntArray) -> ModuleTimes | None:
        """The same of the steps alone in which modules are called at some vertices; None where none of these was timed.

        A program may train several models of one class, one after the other.
        """
        steps = np.unique(self.timed.step[np.isin(self.timed.vertex, vertices)])
        if len(steps) == len(self.steps):
            return self
        if not len(steps):
            return None
        part = self.timed.of(np.isin(self.timed.step, steps))
        return _times_of(part, self.marked.in_steps(steps), self.modules, self.seconds.shape[2], self.places)

    def is_on_device(self, modules: list[int]) -> bool:
        """Whether it is known of all of some modules what they took on devices."""
        return self.device is not None and bool(self.device.is_known[modules].all())

    def taken_s(self) -> FloatArray:
        """Seconds, on devices of those modules of which that is known, else on hosts
        ``[modules, directions, ranks]``."""
        if self.device is None:
            return self.seconds
        return np.where(self.device.is_known[:, np.newaxis, np.newaxis], self.device.seconds, self.seconds)

    def of_ranks(self) -> BoolArray:
        """Whether modules were timed on a rank ``[ranks]``."""
        return ~np.isnan(self.seconds[0, 0]) if len(self.modules) else np.zeros(0, np.bool_)

    def children(self, module: int) -> list[int]:
        """The modules right inside of one; those that have none around them for -1."""
        return [number for number, inner in enumerate(self.modules) if inner.parent == module]


def module_times(ppg: PPG, waits: WaitStates, first: int = 0) -> ModuleTimes | None:
    """What the modules of a run took; None where none were timed, or never on the same steps.

    Steps before the ``first`` of the steady state, which compile and allocate, count only if no others were timed.
    """
    spans, timeline = ppg.spans, ppg.timeline
    calls = module_calls(spans)
    chosen = _in_common(calls, spans, timeline)
    if not chosen.any():
        return None
    if (chosen & (calls.step >= first)).any():
        chosen &= calls.step >= first
    rows = np.flatnonzero(chosen)
    vertex = module_vertices(calls, spans, ppg.psg, ppg.models.forwards)
    timed = TimedCalls(
        calls.module[rows],
        calls.direction[rows],
        calls.rank[rows],
        calls.step[rows],
        calls.elements[rows],
        vertex[rows],
        lasted_s(calls, rows, spans, waiting_in(timeline, waits)),
        spans.cpu_s(calls.row[rows]),
    )
    host, awaits = ppg.host, stretches_of_waiting(ppg.host, ppg.psg)
    awaiting = Periods.joined(host.rank[awaits], host.start_s[awaits], host.end_s[awaits], timeline.ranks)
    marked = calls_on_devices(spans, calls.modules, awaiting).in_steps(np.unique(timed.step))
    return _times_of(timed, marked, calls.modules, timeline.ranks, _places(calls, vertex))


def _times_of(
    timed: TimedCalls, marked: DeviceCalls, modules: list[Module], ranks: int, places: list[list[IntArray]]
) -> ModuleTimes:
    steps = np.unique(timed.step)
    host = CallPlaces(timed.module, timed.direction, timed.rank, timed.step)
    place = timed.module, timed.direction, timed.rank
    sums, times = summed_calls(place, timed.seconds, len(modules), ranks)
    on_cpu, _ = summed_calls(place, timed.cpu_s, len(modules), ranks)
    absent = ~np.isin(np.arange(ranks), timed.rank)
    for table in (sums, on_cpu, times):
        table /= len(steps)
        table[:, :, absent] = np.nan
    known = timed.elements >= 0
    elements, sized = np.zeros((2, len(modules), ranks))
    np.add.at(elements, (timed.module[known], timed.rank[known]), timed.elements[known].astype(np.float64))
    np.add.at(sized, (timed.module[known], timed.rank[known]), 1.0)
    elements = np.divide(elements, sized, out=np.full(elements.shape, np.nan), where=sized > 0)
    device = device_times(host, marked, len(modules), ranks)
    return ModuleTimes(modules, sums, on_cpu, times, elements, steps, places, timed, marked, device)


def _in_common(calls: ModuleCalls, spans: Spans, timeline: Timeline) -> BoolArray:
    """Which calls lie in steps that all ranks timed which timed any, and in the time of the run ``[calls]``."""
    begin = float(timeline.locations.start_s.min(initial=np.inf))
    stop = float(timeline.locations.end_s.max(initial=-np.inf))
    inside = (spans.end_s(calls.row) > begin) & (spans.start_s(calls.row) < stop) & (calls.step >= 0)
    pairs = np.unique(np.stack([calls.step[inside], calls.rank[inside]], axis=1), axis=0)
    steps, ranks = np.unique(pairs[:, 0], return_counts=True)
    common = steps[ranks == len(np.unique(pairs[:, 1]))]
    return np.asarray(inside & np.isin(calls.step, common))


def lasted_s(calls: ModuleCalls, rows: IntArray, spans: Spans, waiting: Periods) -> FloatArray:
    """Seconds of some calls without the periods of waiting ``[rows]``."""
    start, end = spans.start_s(calls.row[rows]), spans.end_s(calls.row[rows])
    return np.asarray(end - start - waiting.inside_s(calls.rank[rows], start, end))


def summed_calls(
    place: tuple[IntArray, IntArray, IntArray], seconds: FloatArray, modules: int, ranks: int
) -> tuple[FloatArray, FloatArray]:
    """Seconds of calls, and how many there are ``[modules, directions, ranks]``; ``place`` is these three of each."""
    sums, times = np.zeros((2, modules, len(DIRECTIONS), ranks))
    np.add.at(sums, place, seconds)
    np.add.at(times, place, 1.0)
    return sums, times


def waiting_in(timeline: Timeline, waits: WaitStates) -> Periods:
    """When ranks waited for others."""
    rows = np.flatnonzero(waits.wait_s > 0.0)
    rank = timeline.locations.rank[timeline.calls.location[rows]]
    enter = timeline.calls.enter_s[rows]
    return Periods.joined(rank, enter, enter + waits.wait_s[rows], timeline.ranks)


def _places(calls: ModuleCalls, vertex: IntArray) -> list[list[IntArray]]:
    keys = np.unique(np.stack([calls.module, calls.direction, vertex], axis=1), axis=0)
    found = [[np.zeros(0, np.int64) for _ in DIRECTIONS] for _ in calls.modules]
    for module, direction in np.unique(keys[:, :2], axis=0).tolist():
        found[module][direction] = keys[(keys[:, 0] == module) & (keys[:, 1] == direction), 2]
    return found


def with_modules(findings: Sequence[Finding], times: ModuleTimes, ppg: PPG) -> list[Finding]:
    """Findings with the module in which their ranks take longer than the others, where their place is one that the
    module's calls lead to."""
    stand_for = _stand_for(times.steps, _steps(ppg))
    return [_with_module(finding, times, stand_for, ppg) for finding in findings]


def _with_module(finding: Finding, times: ModuleTimes, stand_for: FloatArray, ppg: PPG) -> Finding:
    if finding.vertex < 0 or finding.where.module is not None:
        return finding
    there = times.where(_near(finding.vertex, ppg.psg))
    if there is None:
        return finding
    steps = float(stand_for[np.isin(times.steps, there.steps)].sum())
    found = _module_of(finding, there, steps, ppg)
    return finding if found is None else _in_module(finding, there, *found)


def is_half_of(half: Finding, finding: Finding, times: ModuleTimes, psg: PSG) -> bool:
    """Whether a finding lies in the forward of a module, or in one inside of it, of which another one tells the
    backward, or the other way round, on the same ranks and in the same steps."""
    if half.ranks != finding.ranks or None in (half.where.direction, finding.where.direction):
        return False
    inner, outer = (f"{one.where.module}." for one in (half, finding))
    here, there = (times.where(_near(one.vertex, psg)) for one in (half, finding))
    if not inner.startswith(outer) or half.where.direction == finding.where.direction:
        return False
    return here is not None and there is not None and bool(np.isin(here.steps, there.steps).any())


def _near(vertex: int, psg: PSG) -> IntArray:
    """A vertex, those around it and those below."""
    around = [one.index for one in psg.ancestors(vertex)]
    return np.array([*around, *(one.index for one in psg.walk(vertex))], np.int64)


def _module_of(finding: Finding, times: ModuleTimes, steps: float, ppg: PPG) -> Way | None:
    """The innermost module that holds most of what the finding's ranks take longer, and in which direction, in the
    steps of ``times``, which stand for so many ``steps`` of the run; on their devices, if it is these that do."""
    here, others = _sides(finding, times)
    if not here.any() or not others.any():
        return None
    is_of_device = kind_of(finding.kind).is_on_device
    taken = times.taken_s() if is_of_device else times.seconds
    excess = each_way = taken[:, :, here].mean(axis=2) - np.median(taken[:, :, others], axis=2)
    if is_of_device:  # what a backward launches stands where the forward is called
        excess = np.broadcast_to(each_way.sum(axis=1, keepdims=True), each_way.shape)
    expected, run = _expected_s(finding), excess * steps
    around = _around(finding.vertex, times, ppg)
    inside = {way for way in _below(finding.vertex, times, ppg.psg) if run[way] <= COMPARABLE * expected}
    roots = [way for way in inside if (times.modules[way[0]].parent, way[1]) not in inside]
    best = None
    for level in (*around, roots):
        best = max(level, key=lambda way: float(excess[way]), default=None)
        if best is not None and excess[best] > 0.0 and run[best] >= IN_PART * expected:
            break
        best = None
    known = inside.union(*around)
    while best is not None:
        children = [(child, best[1]) for child in times.children(best[0]) if (child, best[1]) in known]
        inner = max(children, key=lambda way: float(excess[way]), default=None)
        if inner is None or excess[inner] < CLEAR_MAJORITY * excess[best]:
            break
        best = inner
    return (best[0], int(np.argmax(each_way[best[0]]))) if best is not None and is_of_device else best


def _sides(finding: Finding, times: ModuleTimes) -> tuple[BoolArray, BoolArray]:
    """The finding's ranks, and the others, as far as their modules were timed ``[ranks]``."""
    known = times.of_ranks()
    here = np.isin(np.arange(len(known)), finding.ranks) & known
    return here, known & ~here


def _around(vertex: int, times: ModuleTimes, ppg: PPG) -> list[list[Way]]:
    """The calls of modules that lead to a vertex, from the innermost outwards.

    Of several modules that one line calls, those whose ``forward`` is on the way, as far as that is known.
    """
    at: dict[int, list[Way]] = {}
    for module, ways in enumerate(times.places):
        for direction, vertices in enumerate(ways):
            for one in vertices.tolist():
                at.setdefault(one, []).append((module, direction))
    levels = []
    entered: Place | None = None
    for one in (ppg.psg[vertex], *ppg.psg.ancestors(vertex)):
        entered = one.place if one.kind is VertexKind.FUNCTION else entered
        if one.index in at:
            level, forwards = at[one.index], ppg.models.forwards
            known = [way for way in level if entered and is_forward(entered, times.modules[way[0]], forwards)]
            levels.append(known or level)
    return levels


def _below(vertex: int, times: ModuleTimes, psg: PSG) -> set[Way]:
    """The modules, and in which direction, that are called below a vertex."""
    below = {one.index for one in psg.walk(vertex)} - {vertex}
    return {
        (module, direction)
        for module, ways in enumerate(times.places)
        for direction, vertices in enumerate(ways)
        if not below.isdisjoint(vertices.tolist())
    }


def _steps(ppg: PPG) -> int:
    """How many steps the run made, as far as they were marked."""
    return int(ppg.spans.table.step.max(initial=0)) + 1


def _stand_for(timed: IntArray, steps: int) -> FloatArray:
    """For how many of all steps each of those stands that were timed: for those that are nearest to it ``[timed]``."""
    edges = np.concatenate(([0.0], (timed[1:] + timed[:-1]) / 2, [float(steps)]))
    return np.asarray(np.diff(edges))


def _expected_s(finding: Finding) -> float:
    """What each of the finding's ranks spends more than others over the run, at its place or in its phase, as far as
    that is known."""
    place, loop = finding.evidence.place, finding.evidence.loop
    if loop is not None:
        return (loop.phase_s_here - loop.phase_s_others) * loop.in_steps
    return place.seconds_here - place.seconds_others if place is not None and place.seconds_others is not None else 0.0


def _in_module(finding: Finding, times: ModuleTimes, module: int, way: int) -> Finding:
    """A finding in a module, with what that takes one way."""
    named = times.modules[module]
    where = replace(finding.where, module=named.name or named.root, module_class=named.kind, direction=DIRECTIONS[way])
    time = _compared(finding, times, module, way)
    return replace(finding, where=where, evidence=replace(finding.evidence, module_time=time))


def _compared(finding: Finding, times: ModuleTimes, module: int, way: int) -> ModuleTime:
    """What a module takes on the finding's ranks, and on the others."""
    here, others = _sides(finding, times)

    def both(values: FloatArray) -> tuple[float, float]:
        return float(values[here].mean()), float(np.median(values[others]))

    is_of_device = kind_of(finding.kind).is_on_device
    mine, theirs = both((times.taken_s() if is_of_device else times.seconds)[module, way])
    time = ModuleTime(seconds_here=mine, seconds_others=theirs, steps=len(times.steps))
    if times.is_on_device([module]):
        # A finding of hosts is about the host's seconds, and one of devices about the device's.
        mine, theirs = both((times.seconds if is_of_device else times.taken_s())[module, way])
        time = (
            replace(time, on="device", host_seconds_here=mine, host_seconds_others=theirs)
            if is_of_device
            else replace(time, on="host", device_seconds_here=mine, device_seconds_others=theirs)
        )
    cpu_s = times.cpu_s[module, way]
    if not np.isnan(cpu_s[here | others]).any():
        mine, theirs = both(cpu_s)
        time = replace(time, cpu_here=mine, cpu_others=theirs)
    mine, theirs = both(times.calls[module, way])
    if not np.isclose(mine, theirs):
        time = replace(time, calls_here=mine, calls_others=theirs)
    elements = times.elements[module]
    if not np.isnan(elements[here]).any() and not np.isnan(elements[others]).all():
        mine, theirs = float(elements[here].mean()), float(np.nanmedian(elements[others]))
        time = replace(time, elements_here=mine, elements_others=theirs)
    return time


MODULES: SectionName[ModuleTimes] = SectionName("modules")
"""Where modules were timed."""
