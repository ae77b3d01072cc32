"""The causal profile: what a step would take if a place of the program took half as long, or nothing, on all ranks.

A virtual speed-up as in Coz (Curtsinger and Berger, SOSP 2015), of a whole job and by replay: no experiment is made.
Shares of the critical path alone mislead, as another path may be right behind it. So the places that matter are chosen
by the path, and by their seconds, and the replay answers for each.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.efficiency.stretch import Stretch
from scalana.detectors.evidence import BusyCores
from scalana.detectors.facts import Facts
from scalana.detectors.limits.data.loader_pace import Removal
from scalana.detectors.rollup.named_place import CodeLocation, named_places
from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.limits import MOST_FINDINGS
from scalana.detectors.thresholds.shares import MINOR, WORTH_IF_ONCE
from scalana.detectors.whatif.critical_path import CriticalPath, critical_path
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations

_NONE = np.zeros(0, np.int64)
HALF, NOTHING = 0.5, 1.0
"""What is taken out of a place."""


class Activity(str, Enum):
    """What is done at a place."""

    WORK = "work"
    """Of hosts, where there are devices."""
    TRANSFER = "transfer"
    DEVICE = "device"
    """Work of devices that was launched there."""
    DEVICE_WAIT = "device-wait"
    """Calls in which hosts wait for their devices."""


@dataclass(frozen=True, slots=True)
class PlaceProfile:
    """One place of the program, and what it means for a step. Seconds are those of a step."""

    location: CodeLocation
    """Own work, or the transfer of calls."""
    seconds: FloatArray
    """Spent there by the main thread ``[ranks]``."""
    cpu_s: float
    """Of these on a CPU, the mean of the ranks."""
    core_wait_s: float
    """Waiting for a core, likewise."""
    path_s: FloatArray
    """On the critical path ``[ranks]``."""
    half_s: float
    """What a step takes if all ranks take half as long here."""
    without_s: float
    """What a step takes if all ranks take no time here."""
    activities: IntArray
    """Rows of the timeline's activities that it is made of, empty for calls ``[activities of the place]``."""
    vertices: IntArray
    """Vertices of the calls that it is made of, in several contexts, empty for own work ``[vertices of the place]``."""
    activity: Activity = Activity.WORK

    @property
    def mean_s(self) -> float:
        """What an average rank spends."""
        return float(self.seconds.mean())

    @property
    def is_transfer(self) -> bool:
        """Whether it is communication."""
        return self.activity is Activity.TRANSFER


@dataclass(frozen=True, slots=True)
class CausalProfile:
    """What a step's time lies on, and what it would be otherwise."""

    step_s: float
    steps: int
    has_steps: bool
    """Whether the run shows steps; else its whole time is one."""
    places: tuple[PlaceProfile, ...]
    """Those that matter, the one without which a step is shortest first."""
    other_s: float
    """On the critical path at all other places, of a step."""
    ideal_network_s: float
    """What a step takes if transfers take nothing."""
    all_cores_s: float
    """What a step takes if no rank waits for a core."""
    busy: BusyCores | None = None
    """The cores that the job keeps busiest; None where none are known."""


LIMITS: SectionName[CausalProfile] = SectionName("limits")


def causal_profile(facts: Facts) -> CausalProfile | None:
    """Of the steady state of a run, or of all of it where it has no steps; None where nothing was recorded.

    Costs two replays a place, of at most :data:`MOST_FINDINGS`, side by side, and one pass over the calls.
    """
    stretch = facts.stretch
    if stretch is None or stretch.step_s <= 0.0:
        return None
    matter, changes, on_path_s = _to_change(facts, stretch)
    step_s = stretch.step_s
    *of_places, ideal_s, cores_s = stretch.left_s(changes, facts.replay)
    places = [
        replace(place, half_s=half_s, without_s=without_s)
        for place, half_s, without_s in zip(matter, of_places[::2], of_places[1::2], strict=True)
    ]
    return CausalProfile(
        step_s,
        stretch.steps,
        stretch.has_steps,
        tuple(sorted(places, key=lambda place: (place.without_s, -place.mean_s))),
        max(on_path_s - sum(float(place.path_s.sum()) for place in places), 0.0),
        ideal_s,
        cores_s,
    )


def _to_change(facts: Facts, stretch: Stretch) -> tuple[list[PlaceProfile], list[Change], float]:
    """The places that matter; the changes to replay, two for each place and two of all; and the seconds of a step on
    the critical path. Nothing else is kept of what this takes."""
    path = critical_path(facts.timeline, facts.waits, stretch.begin_s, stretch.end_s)
    shares = _Shares(facts, stretch, path)
    matter = [
        replace(place, seconds=place.seconds.copy(), path_s=place.path_s.copy())  # without the rows of all others
        for place in that_matter(shares.places(), stretch.step_s)
    ]
    changes = [shares.change(place, part) for place in matter for part in (HALF, NOTHING)]
    changes += [shares.without_transfers(), shares.without_core_waits()]
    return matter, changes, path.total_s / stretch.steps


def that_matter(places: list[PlaceProfile], step_s: float) -> list[PlaceProfile]:
    """The places on the path that take more than a slight part of a step, and those beside it that take much."""
    on_path: list[PlaceProfile] = []
    beside: list[PlaceProfile] = []
    for place in places:
        if float(place.path_s.sum()) >= WORTH_IF_ONCE * step_s:
            on_path.append(place)
        elif place.mean_s >= MINOR * step_s:
            beside.append(place)
    on_path.sort(key=lambda place: -float(place.path_s.sum()))
    beside.sort(key=lambda place: -place.mean_s)
    return [*on_path, *beside][:MOST_FINDINGS]


class _Shares:
    """What ranks do in a stretch of time, by place."""

    def __init__(self, facts: Facts, stretch: Stretch, path: CriticalPath) -> None:
        timeline, own = facts.timeline, facts.timeline.own
        self._facts, self._stretch, self._path = facts, stretch, path
        self._removal = Removal.of(stretch, facts)
        location = burst_locations(timeline)
        self._row_location, bursts = location[own.burst], len(location)
        self._row_part = stretch.row_part
        inside_s = own.seconds * self._row_part
        of_burst = path.burst_s / np.maximum(np.bincount(own.burst, inside_s, bursts), 1e-300)
        self._row_path_s = inside_s * np.minimum(of_burst, 1.0)[own.burst]
        self._transfer_s = facts.waits.transfer_s(timeline) * stretch.call_part

    def places(self) -> list[PlaceProfile]:
        """Every place at which ranks spend time."""
        return [*self._of_work(), *self._of_calls()]

    def change(self, place: PlaceProfile, part: float) -> Change:
        """A part of what ranks spend at a place, taken out of the run."""
        timeline = self._facts.timeline
        if place.is_transfer:
            here = np.isin(timeline.calls.vertex, place.vertices)
            return self._removal.of_transfers(np.where(here, part * self._transfer_s, 0.0))
        rows = np.isin(timeline.own.activity, place.activities)
        return self._removal.of_work(rows, part * timeline.own.seconds)

    def without_transfers(self) -> Change:
        """All transfers taken out: an ideal network."""
        return self._removal.of_transfers(self._transfer_s)

    def without_core_waits(self) -> Change:
        """All waiting for cores taken out."""
        own = self._facts.timeline.own
        return self._removal.of_work(np.ones(len(own), np.bool_), own.core_wait_s)

    def _of_work(self) -> list[PlaceProfile]:
        timeline, psg, steps = self._facts.timeline, self._facts.psg, self._stretch.steps
        own, table, ranks = timeline.own, timeline.activities, timeline.ranks
        main = timeline.locations.is_main[self._row_location]
        rank = timeline.locations.rank[self._row_location]
        part = np.where(main, self._row_part, 0.0) / steps

        def by_activity(seconds: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(own.activity, seconds, len(table)), np.float64)

        of_activity = by_activity(own.seconds * part)
        path_of_activity = by_activity(self._row_path_s)
        seen = np.flatnonzero((of_activity > 0.0) | (path_of_activity > 0.0))
        leaves = [CodeLocation(TargetKind.OWN, int(table.vertex[n]), int(table.line[n])) for n in seen]
        seconds_of = of_activity[seen].tolist()
        named = named_places(leaves, [-1] * len(leaves), seconds_of, timeline, psg)
        groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for number, place in enumerate(named):
            groups[_key(place, self._facts)].append(number)
        group_of = np.full(len(table), -1, np.int64)
        for group, numbers in enumerate(groups.values()):
            group_of[seen[numbers]] = group
        row_group = group_of[own.activity]
        known = row_group >= 0
        at = (row_group * ranks + rank)[known]

        def by_place(seconds: FloatArray) -> FloatArray:
            """``[places, ranks]``"""
            summed = np.bincount(at, seconds[known], len(groups) * ranks)
            return np.asarray(summed.reshape(len(groups), ranks), np.float64)

        seconds, path_s = by_place(own.seconds * part), by_place(self._row_path_s) / steps
        cpu_s, core_wait_s = (by_place(column * part).mean(axis=1) for column in (own.cpu_s, own.core_wait_s))
        return [
            PlaceProfile(
                named[numbers[0]],
                seconds[group],
                float(cpu_s[group]),
                float(core_wait_s[group]),
                path_s[group],
                0.0,
                0.0,
                seen[numbers],
                _NONE,
            )
            for group, numbers in enumerate(groups.values())
        ]

    def _of_calls(self) -> list[PlaceProfile]:
        timeline, steps = self._facts.timeline, self._stretch.steps
        calls, locations = timeline.calls, timeline.locations
        groups: dict[tuple[object, ...], int] = {}
        vertices = np.unique(calls.vertex)
        number = np.zeros(int(vertices.max(initial=-1)) + 2, np.int64)
        chosen: list[CodeLocation] = []
        for vertex in vertices.tolist():
            place = CodeLocation(TargetKind.TRANSFER, vertex, -1)
            key = _key(place, self._facts)
            if key not in groups:
                groups[key] = len(groups)
                chosen.append(place)
            number[vertex] = groups[key]
        at = number[calls.vertex] * timeline.ranks + locations.rank[calls.location]

        def by_place(seconds: FloatArray) -> FloatArray:
            summed = np.bincount(at, seconds, len(groups) * timeline.ranks)
            return np.asarray(summed.reshape(len(groups), timeline.ranks) / steps, np.float64)

        seconds = by_place(np.where(locations.is_main[calls.location], self._transfer_s, 0.0))
        path_s, cpu_s = by_place(self._path.call_s), by_place(calls.cpu_s * self._stretch.call_part).mean(axis=1)
        group_of = number[vertices]
        return [
            PlaceProfile(
                place,
                seconds[row],
                float(cpu_s[row]),
                0.0,
                path_s[row],
                0.0,
                0.0,
                _NONE,
                vertices[group_of == row],
                Activity.TRANSFER,
            )
            for row, place in enumerate(chosen)
        ]


def _key(place: CodeLocation, facts: Facts) -> tuple[object, ...]:
    """What makes places of several contexts one to a reader: the lines."""
    if not 0 <= place.vertex < len(facts.psg):
        return (place.kind, place.vertex)
    vertex = facts.psg[place.vertex]
    first, last = place.lines(vertex.place)
    name = "" if first else vertex.place.name  # all that there is of an imported trace without lines
    return (place.kind, vertex.place.file, first, last, name, vertex.operation)
