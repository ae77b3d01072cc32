"""The causal profile of a run with devices: of what hosts do, of what devices do, and of hosts that wait for these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.facts import Facts
from scalana.detectors.limits.causal_profile import HALF, NOTHING, Activity, CausalProfile, PlaceProfile, that_matter
from scalana.detectors.rollup.named_place import CodeLocation, named_places
from scalana.detectors.streams.lanes import Devices
from scalana.detectors.whatif.device_replay import DeviceReplay, Removal, shorter
from scalana.detectors.whatif.device_rounds import Parts, Round, rounds_of
from scalana.detectors.whatif.unmarked import unmarked_step_s, without_marks
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.device_waits import waits_at
from scalana.graphs.structure.psg import PSG

_NONE = np.zeros(0, np.int64)
_PARTS = {
    Activity.WORK: "host",
    Activity.DEVICE: "device",
    Activity.DEVICE_WAIT: "waits",
    Activity.TRANSFER: "transfers",
}
"""Where rounds have what a place is made of."""


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """A place of the program, with what is known of it where devices work."""

    place: PlaceProfile
    kinds: IntArray
    """Kinds of work that it is made of; of communication vertices of calls ``[kinds]``."""
    idle_s: FloatArray
    """What hosts spend there while their devices have nothing to do, in a step ``[ranks]``."""


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """What a step's time lies on where devices work, and what it would be otherwise."""

    whole: CausalProfile
    places: tuple[DevicePlace, ...]
    """In the order of those of :attr:`whole`."""
    replay: DeviceReplay
    devices: Devices

    def of(self, activity: Activity) -> list[DevicePlace]:
        """The places at which something is done."""
        return [one for one in self.places if one.place.activity is activity]


def device_profile(facts: Facts) -> DeviceProfile | None:
    """Of the steps that devices were looked at in; None where there are none, or some ranks have no device."""
    devices = facts.devices
    ranks = sorted(devices.of_rank)
    if set(ranks) | set(facts.run.missing_ranks) != set(range(facts.timeline.ranks)):
        return None
    rounds = rounds_of(devices, facts.timeline, facts.steps)
    if devices.marked and facts.steps is not None:
        marked = np.array(sorted(devices.stands_for), np.int64)
        rounds = without_marks(rounds, unmarked_step_s(facts.steps, marked))
    if not rounds:
        return None
    replay = DeviceReplay(rounds, ranks)
    found = [one for activity in _PARTS for one in _places(activity, replay, devices, facts)]
    chosen = that_matter([one.place for one in found], replay.step_s)
    known = {id(one.place): one for one in found}
    matter = [_predicted(known[id(place)], replay, facts) for place in chosen]
    matter.sort(key=lambda one: (one.place.without_s, -one.place.mean_s))
    on_path_s = sum(float(one.moments.critical_s().sum()) for one in rounds) / replay.steps
    whole = CausalProfile(
        replay.step_s,
        replay.steps,
        facts.steps is not None,
        tuple(one.place for one in matter),
        max(on_path_s - sum(float(one.place.path_s.sum()) for one in matter), 0.0),
        replay.changed_step_s(shorter(NOTHING, "transfers")),
        replay.step_s,
    )
    return DeviceProfile(whole, tuple(matter), replay, devices)


def removal(place: DevicePlace, part: float | FloatArray, facts: Facts) -> Removal:
    """A part of what is spent at a place."""
    return shorter(part, _PARTS[place.place.activity], lambda parts: _here(place, parts, facts))


def _here(place: DevicePlace, parts: Parts, facts: Facts) -> BoolArray:
    what = parts.what
    if place.place.is_transfer:
        what = np.append(facts.timeline.calls.vertex, -1)[what]
    return np.isin(what, place.kinds)


def _predicted(one: DevicePlace, replay: DeviceReplay, facts: Facts) -> DevicePlace:
    """A place with what a step takes without half of it, and without it."""
    half_s, without_s = (replay.changed_step_s(removal(one, part, facts)) for part in (HALF, NOTHING))
    return replace(one, place=replace(one.place, half_s=half_s, without_s=without_s))


def _places(activity: Activity, replay: DeviceReplay, devices: Devices, facts: Facts) -> Iterable[DevicePlace]:
    """The places at which hosts or devices do something."""
    ranks = facts.timeline.ranks
    vertex_of = facts.timeline.calls.vertex if activity is Activity.TRANSFER else devices.kinds.vertex
    wide = len(vertex_of) + 1 if activity is not Activity.TRANSFER else int(vertex_of.max(initial=-1)) + 2
    seconds, path_s, idle_s = (np.zeros((wide, ranks)) for _ in range(3))

    def by_kind(parts: Parts) -> IntArray:
        what = np.append(vertex_of, -1)[parts.what] if activity is Activity.TRANSFER else parts.what
        return np.asarray(np.where(what >= 0, what, wide - 1))

    for one in replay.rounds:
        parts: Parts = getattr(one, _PARTS[activity])
        at = by_kind(parts), parts.rank
        np.add.at(seconds, at, parts.seconds)
        np.add.at(path_s, at, _on_path(parts, one))
        if activity is Activity.WORK:
            np.add.at(idle_s, (by_kind(one.idle), one.idle.rank), one.idle.seconds)
    kinds = np.flatnonzero(seconds[:-1].any(axis=1))
    for place, rows in _grouped(activity, kinds, seconds[kinds].sum(axis=1), devices, facts):
        activities = _activities(rows, devices, facts) if activity is Activity.WORK else _NONE
        vertices = rows if activity is Activity.TRANSFER else _NONE
        spent = seconds[rows][:, replay.ranks].sum(axis=0) / replay.steps
        cpu_s, core_wait_s = _parts_of(activities, float(spent.mean()), facts)
        profile = PlaceProfile(
            place,
            spent,
            cpu_s,
            core_wait_s,
            path_s[rows][:, replay.ranks].sum(axis=0) / replay.steps,
            0.0,
            0.0,
            activities,
            vertices,
            activity,
        )
        yield DevicePlace(profile, rows, idle_s[rows][:, replay.ranks].sum(axis=0) / replay.steps)


def _on_path(parts: Parts, of: Round) -> FloatArray:
    """What of some parts lies on the critical path of their round ``[parts]``."""
    links = len(of.moments.links.seconds)
    known = parts.link >= 0
    whole = weighted_count(parts.link[known], parts.seconds[known], links)
    share = np.minimum(of.moments.critical_s() / np.maximum(whole, 1e-300), 1.0)
    return np.where(known, parts.seconds * np.append(share, 0.0)[parts.link], 0.0)


def _grouped(
    activity: Activity, kinds: IntArray, seconds: FloatArray, devices: Devices, facts: Facts
) -> list[tuple[CodeLocation, IntArray]]:
    """Places, and the kinds of work that each is made of."""
    if activity is Activity.TRANSFER:
        leaves = [CodeLocation(TargetKind.TRANSFER, kind, -1) for kind in kinds.tolist()]
        named = leaves
    else:
        lines = _lines(facts) if activity is not Activity.DEVICE else {}
        vertices = np.maximum(devices.kinds.vertex[kinds], 0).tolist()
        if activity is Activity.DEVICE_WAIT:
            vertices = [_waiting_call(vertex, facts.psg) for vertex in vertices]
        leaves = [CodeLocation(TargetKind.OWN, vertex, lines.get(vertex, -1)) for vertex in vertices]
        named = named_places(leaves, [-1] * len(leaves), seconds.tolist(), facts.timeline, facts.psg)
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, place in enumerate(named):
        groups[_key(place, facts.psg)].append(number)
    best = (max(numbers, key=lambda number: seconds[number]) for numbers in groups.values())
    return [(named[number], kinds[numbers]) for number, numbers in zip(best, groups.values(), strict=True)]


def _waiting_call(vertex: int, psg: PSG) -> int:
    """The outermost of the calls around one that waits for a device which does so by its name, as ``tensor.item()``
    does around ``cudaStreamSynchronize``."""
    while (above := psg[vertex].parent) > 0 and waits_at(above, psg):
        vertex = above
    return vertex


def _key(place: CodeLocation, psg: PSG) -> Hashable:
    """What makes places one to a reader: the lines, or the name where there are none."""
    if not 0 <= place.vertex < len(psg):
        return place.kind, place.vertex
    here = psg[place.vertex].place
    first, last = place.lines(here)
    return (place.kind, here.file, first, last) if first > 0 else (place.kind, here.file, here.name)


def _lines(facts: Facts) -> dict[int, int]:
    """The line of every vertex at which most of the time of main threads is spent."""
    table, own = facts.timeline.activities, facts.timeline.own
    spent = weighted_count(own.activity, own.seconds, len(table))
    order = np.argsort(spent, kind="stable")  # the longest has the word
    order = order[~table.helper[order] & (table.line[order] > 0)]
    return dict(zip(table.vertex[order].tolist(), table.line[order].tolist(), strict=True))


def _activities(kinds: IntArray, devices: Devices, facts: Facts) -> IntArray:
    """Rows of the timeline's activities that are at the vertices of some kinds of work of hosts."""
    table = facts.timeline.activities
    return np.flatnonzero(np.isin(table.vertex, devices.kinds.vertex[kinds]) & ~table.helper)


def _parts_of(activities: IntArray, spent_s: float, facts: Facts) -> tuple[float, float]:
    """Which parts of what is spent in some activities are on a CPU, and wait for one."""
    own = facts.timeline.own
    here = np.isin(own.activity, activities)
    whole_s = max(float(own.seconds[here].sum()), 1e-300)
    return spent_s * float(own.cpu_s[here].sum()) / whole_s, spent_s * float(own.core_wait_s[here].sum()) / whole_s
