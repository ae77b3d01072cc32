"""Steps of hosts and their devices as moments that follow each other: one graph for a replay.

A host works from launch to launch, and waits for its device in some calls. A device begins what its host launched when
it has ended what it was given before; a collective begins on each rank when what was launched before it is done, and
ends when all ranks have come to it and the data has moved. Which other things a device waits for, no record says: work
that begins as soon as a collective has ended did so because it had, and the results of a step's collectives are needed
by the next step at the latest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.streams.lanes import Device, Devices
from scalana.detectors.streams.stretches import Stretches
from scalana.detectors.thresholds.seconds import AT_ONCE_S, SHORT_GAP_S, TINY_S
from scalana.detectors.whatif.moments import Links, Moments
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.steps.steps import Steps
from scalana.graphs.timeline import Timeline

_END, _HOST, _BEGIN, _MEET = range(4)
"""In which order moments of one time follow each other."""
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Parts(ColumnTable):
    """What links stand for; columns are ``[parts]``."""

    link: IntArray
    """-1 for none."""
    rank: IntArray
    what: IntArray
    """Kind of work of a host or a device; of transfers the row of the timeline's calls, -1 where it is not known."""
    start_s: FloatArray
    seconds: FloatArray


@dataclass(frozen=True, slots=True)
class Round:
    """Steps that follow each other, in all of which all devices were looked at."""

    moments: Moments
    steps: int
    begin_s: FloatArray
    """When each rank began them ``[ranks]``."""
    end_s: FloatArray
    host: Parts
    """What hosts did between their launches, but for waiting for their devices."""
    launches: Parts
    """Stretches of hosts up to a launch that are no longer than launching takes; of no kind."""
    device: Parts
    """Work of devices."""
    transfers: Parts
    """Communication of devices, from when all were there."""
    waits: Parts
    """Calls in which hosts waited for their devices, and for how long."""
    idle: Parts
    """What hosts did while their devices had nothing to do; a part of :attr:`host`, without links."""
    idle_s: FloatArray
    """What each device had nothing to do, neither work nor communication ``[ranks that have one]``."""
    marks: IntArray
    """How many marks a host recorded in each link ``[links]``."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What a host gave to its device in a round; in the order in which that began."""

    launched_s: FloatArray
    """``[given]``"""
    start_s: FloatArray
    end_s: FloatArray
    what: IntArray
    """Kind of work; of communication the row of the timeline's calls."""
    instance: IntArray
    """Of communication, -1 where it is not known, and of all work."""

    def __len__(self) -> int:
        return len(self.start_s)


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank in a round."""

    number: int
    device: Device
    begin_s: float
    end_s: float
    work: _Given
    talk: _Given
    wait_s: FloatArray
    """Begin and end of the calls in which it waited for its device ``[waits, 2]``."""
    wait_what: IntArray
    """``[waits]``"""
    awaited_s: FloatArray
    """When what it waited for ended ``[waits]``."""
    behind: BoolArray
    """Whether that was given to the device in the round before ``[waits]``."""

    @property
    def device_s(self) -> float:
        """From the first work of its device to the last."""
        return float(self.work.end_s.max() - self.work.start_s.min())

    @property
    def busy_s(self) -> float:
        """Seconds of work and communication of its device."""
        begin_s, end_s = self.device.busy.covered_s(np.array([self.begin_s, self.end_s]))
        return float(end_s - begin_s)


@dataclass(frozen=True, slots=True)
class _Part:
    """A rank's part in communication."""

    rank: int
    come: int
    """The moment in which it comes to it, and that in which it goes on."""
    go: int
    start_s: float
    end_s: float
    call: int
    """Row of the timeline's calls, -1 where it is not known."""


_Meets = dict[tuple[int, int, int], list[_Part]]
"""All parts of each communication, by its instance; where that is not known, by the rank and a number."""


class _Collected:
    """Moments, links, and what these stand for, as they are found."""

    def __init__(self) -> None:
        self._at: list[FloatArray] = []
        self._tie: list[IntArray] = []
        self._links: list[tuple[IntArray, IntArray, FloatArray, BoolArray]] = []
        self._moments = self._count = 0
        self.parts: dict[str, list[Parts]] = defaultdict(list)
        self.marks: list[tuple[IntArray, IntArray]] = []
        """Links, and how many marks lie in each."""

    def moments(self, at_s: FloatArray, tie: int) -> IntArray:
        """Take some moments, and number them."""
        self._at.append(np.asarray(at_s, np.float64))
        self._tie.append(np.full(len(at_s), tie, np.int64))
        self._moments += len(at_s)
        return np.arange(self._moments - len(at_s), self._moments)

    def link(
        self,
        later: IntArray,
        earlier: IntArray,
        seconds: FloatArray | float = 0.0,
        of_last_round: BoolArray | bool = False,
    ) -> IntArray:
        """Take some links, and number them."""
        count = len(later)
        behind, between = np.zeros(count, np.bool_) | of_last_round, np.zeros(count) + seconds
        self._links.append((np.asarray(later, np.int64), np.asarray(earlier, np.int64), between, behind))
        self._count += count
        return np.arange(self._count - count, self._count)

    def made(self, round_s: float) -> tuple[Moments, IntArray]:
        """All of them, in order; and where each link is."""
        later, earlier, seconds, behind = (np.concatenate(column) for column in zip(*self._links, strict=True))
        at_s, tie = np.concatenate(self._at), np.concatenate(self._tie)
        return Moments.of(at_s, tie, round_s, Links(later, earlier, seconds, behind))

    def all_marks(self, links: int, where: IntArray) -> IntArray:
        """How many marks lie in each link, with links where these are now ``[links]``."""
        found = np.zeros(links, np.int64)
        for some, number in self.marks:
            kept = where[some] >= 0
            found[where[some][kept]] = number[kept]
        return found

    def all(self, name: str, where: IntArray) -> Parts:
        """What is known by a name, with its links where these are now."""
        some = self.parts[name]
        if not some:
            return Parts(_NONE, _NONE, _NONE, np.zeros(0), np.zeros(0))
        link = np.concatenate([one.link for one in some])
        link = np.where(link >= 0, where[np.maximum(link, 0)], -1)
        columns = (np.concatenate([getattr(one, name) for one in some]) for name in Parts.__slots__[1:])
        return Parts(link, *columns)


def rounds_of(devices: Devices, timeline: Timeline, steps: Steps | None) -> list[Round]:
    """The rounds of the steady state; a run without steps is one."""
    stretches = _stretches(devices, timeline.ranks, steps)
    found = [_round(devices, timeline, (begin_s, end_s), count) for begin_s, end_s, count in stretches]
    return [one for one in found if one is not None]


def _stretches(devices: Devices, ranks: int, steps: Steps | None) -> list[tuple[FloatArray, FloatArray, int]]:
    """Begins and ends of stretches of steps that follow each other ``[ranks]``, and how many steps these are."""
    first, last = np.full(ranks, -np.inf), np.full(ranks, np.inf)
    for rank, device in devices.of_rank.items():
        first[rank], last[rank] = device.windows[0, 0], device.windows[-1, 2]
    if steps is None or steps.warm_up >= len(steps):
        return [(first, last, 1)]
    start_s, end_s = steps.on_all_ranks()
    end_s = np.concatenate((np.maximum(start_s[1:], end_s[:-1]), end_s[-1:]))
    rows = np.arange(steps.warm_up, len(steps))
    if devices.marked:
        rows = rows[np.isin(steps.number[rows], list(devices.stands_for))]
    else:
        inside = (start_s[rows] >= first - TINY_S).all(axis=1) & (start_s[rows] < last).all(axis=1)
        rows = rows[inside]
    if not len(rows):
        return []
    groups = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    return [(start_s[group[0]], end_s[group[-1]], len(group)) for group in groups]


def _round(devices: Devices, timeline: Timeline, between_s: tuple[FloatArray, FloatArray], steps: int) -> Round | None:
    """The moments of one round; None where no device worked in it."""
    begin_s, end_s = between_s
    tolerance_s = max(timeline.period_s, AT_ONCE_S)
    ranks = [
        _of_rank(rank, devices, timeline, (float(begin_s[rank]), float(end_s[rank])), tolerance_s)
        for rank in sorted(devices.of_rank)
    ]
    if not all(len(rank.work) for rank in ranks):
        return None
    ranks = _ending_together(ranks)
    length_s = [max(rank.end_s - rank.begin_s, rank.device_s) for rank in ranks]
    collected = _Collected()
    meets: _Meets = defaultdict(list)
    for rank in ranks:
        _link_rank(rank, collected, meets)
    _link_meetings(meets, collected)
    moments, where = collected.made(float(np.median(length_s)))
    names = ("host", "launches", "device", "transfers", "waits", "idle")
    idle_s = np.array([rank.end_s - rank.begin_s - rank.busy_s for rank in ranks])
    parts = {name: collected.all(name, where) for name in names}
    marks = collected.all_marks(len(moments.links.seconds), where)
    return Round(moments, steps, begin_s, end_s, idle_s=idle_s, marks=marks, **parts)


def _of_rank(
    rank: int, devices: Devices, timeline: Timeline, between_s: tuple[float, float], tolerance_s: float
) -> _Rank:
    """What a rank and its device did in a round."""
    device, (begin_s, end_s) = devices.of_rank[rank], between_s
    work, talk = device.work, device.communication
    mine = np.flatnonzero((device.launched_s >= begin_s) & (device.launched_s < end_s))
    given = _Given(
        device.launched_s[mine], work.start_s[mine], work.end_s[mine], work.what[mine], np.full(len(mine), -1)
    )
    enter_s = np.append(timeline.calls.enter_s, np.nan)[talk.call]
    launched_s = np.where(talk.call >= 0, np.minimum(enter_s, talk.start_s), talk.start_s)
    ours = np.flatnonzero((launched_s >= begin_s) & (launched_s < end_s))
    told = _Given(launched_s[ours], talk.start_s[ours], talk.end_s[ours], talk.call[ours], talk.instance[ours])
    wait_s, what = _waits(device.main, devices.blocking, begin_s, end_s)
    ends_s = np.concatenate((given.end_s, told.end_s))
    since_s = np.concatenate((given.launched_s, told.launched_s))
    awaited_s = np.array([_awaited_s(wait, since_s, ends_s, tolerance_s) for wait in wait_s])
    # What comes before the first launch waits for what the round before has launched, if for anything.
    behind = wait_s[:, 0] + tolerance_s < since_s.min(initial=np.inf)
    awaited_s = np.where(behind, ends_s.max(initial=-np.inf) - (end_s - begin_s), awaited_s)
    if len(wait_s):
        # What is seen in samples is seen to end some time later.
        near = np.abs(wait_s[:, 1] - awaited_s) <= tolerance_s
        wait_s[near, 1] = np.minimum(awaited_s[near], end_s)
    kept = behind | (awaited_s > wait_s[:, 0]) if len(wait_s) else behind
    return _Rank(rank, device, begin_s, end_s, given, told, wait_s[kept], what[kept], awaited_s[kept], behind[kept])


def _ending_together(ranks: list[_Rank]) -> list[_Rank]:
    """The same, where no communication ends before all have come to it."""
    last_s: dict[int, float] = defaultdict(lambda: -np.inf)
    for rank in ranks:
        for instance, start_s in zip(rank.talk.instance.tolist(), rank.talk.start_s.tolist(), strict=True):
            last_s[instance] = max(last_s[instance], start_s) if instance >= 0 else -np.inf
    found = []
    for rank in ranks:
        come_s = np.maximum(rank.talk.start_s, [last_s[instance] for instance in rank.talk.instance.tolist()])
        end_s = np.maximum(rank.talk.end_s, np.nextafter(come_s, np.inf))
        found.append(replace(rank, talk=replace(rank.talk, end_s=end_s)))
    return found


def _waits(main: Stretches, blocking: BoolArray, begin_s: float, end_s: float) -> tuple[FloatArray, IntArray]:
    """Begin and end of the calls in which a host waited for its device ``[waits, 2]``, and their kinds ``[waits]``."""
    low, high = np.searchsorted(main.end_s, begin_s, side="right"), np.searchsorted(main.start_s, end_s)
    rows = np.arange(low, high)
    rows = rows[blocking[main.what[rows]]]
    if not len(rows):
        return np.zeros((0, 2)), _NONE
    # One call may be seen in several frames of it.
    apart = (np.diff(rows) > 1) | (main.start_s[rows[1:]] > main.end_s[rows[:-1]] + TINY_S)
    groups = np.split(rows, np.flatnonzero(apart) + 1)
    length_s = main.end_s - main.start_s
    longest = [int(group[np.argmax(length_s[group])]) for group in groups]
    edges = [(max(main.start_s[group[0]], begin_s), min(main.end_s[group[-1]], end_s)) for group in groups]
    return np.array(edges), main.what[longest]


def _awaited_s(wait_s: FloatArray, launched_s: FloatArray, ends_s: FloatArray, tolerance_s: float) -> float:
    """When what a host waited for in a call ended: the last that it had launched by then, and that ended by the end of
    the call; -inf for nothing."""
    begin_s, end_s = wait_s
    before = (launched_s <= min(begin_s + tolerance_s, end_s)) & (ends_s <= end_s + tolerance_s)
    return float(ends_s[before].max(initial=-np.inf))


def _link_rank(rank: _Rank, collected: _Collected, meets: _Meets) -> None:
    """Take the moments of one rank, and what follows what."""
    work = rank.work
    first, launches, resumes = _link_host(rank, collected)
    begins, ends = collected.moments(work.start_s, _BEGIN), collected.moments(work.end_s, _END)
    collected.link(begins, launches[: len(work)])
    collected.link(begins[1:], ends[:-1])
    collected.link(begins[:1], ends[-1:], of_last_round=True)
    if rank.device_s > rank.end_s - rank.begin_s:
        # A host that launches faster than its device works is held by that sooner or later, wherever this is.
        collected.link(first, ends[-1:], of_last_round=True)
    length_s = work.end_s - work.start_s
    links = collected.link(ends, begins, length_s)
    collected.parts["device"].append(Parts(links, _filled(links, rank.number), work.what, work.start_s, length_s))
    comes, goes = _link_talk(rank, collected, meets, launches[len(work) :])
    _link_streams(rank, collected, (begins, ends), (comes, goes))
    _link_waits(rank, collected, resumes, np.concatenate((ends, goes)))


def _link_host(rank: _Rank, collected: _Collected) -> tuple[IntArray, IntArray, IntArray]:
    """Take what a host did; returns its first moment, those of all launches, of work before those of communication, and
    those in which its waits end."""
    launched_s = np.concatenate((rank.work.launched_s, rank.talk.launched_s))
    count, waits = len(launched_s), len(rank.wait_s)
    at_s = np.concatenate((launched_s, rank.wait_s[:, 1]))
    order = np.argsort(at_s, kind="stable")
    edges_s = np.concatenate(([rank.begin_s], np.clip(at_s[order], rank.begin_s, rank.end_s), [rank.end_s]))
    moments = collected.moments(edges_s, _HOST)
    inner = np.empty(count + waits, np.int64)
    inner[order] = moments[1:-1]
    # Up to the end of a wait it works only until it begins to wait, and from when what it waits for is done.
    from_s = np.concatenate((np.full(count, np.inf), rank.wait_s[:, 0]))
    until_s = np.maximum(np.minimum(edges_s[1:], np.append(from_s[order], np.inf)), edges_s[:-1])
    own_s = np.maximum(rank.wait_s[:, 1] - np.maximum(rank.awaited_s, rank.wait_s[:, 0]), 0.0)
    after_s = np.append(np.concatenate((np.zeros(count), own_s))[order], 0.0)
    links = collected.link(moments[1:], moments[:-1], until_s - edges_s[:-1] + after_s)
    ours = np.empty(count + waits, np.int64)
    ours[order] = links[:-1]
    owned = Parts(ours[count:], _filled(own_s, rank.number), rank.wait_what, rank.wait_s[:, 1] - own_s, own_s)
    collected.parts["host"].append(owned)
    collected.link(moments[:1], moments[-1:], of_last_round=True)
    collected.marks.append((links, np.diff(np.searchsorted(rank.device.marks_s, edges_s))))
    burst, row, start_s, seconds = overlaps(edges_s[:-1], until_s, rank.device.main)
    what = rank.device.main.what[row]
    collected.parts["host"].append(Parts(links[burst], _filled(burst, rank.number), what, start_s, seconds))
    short = np.flatnonzero(np.append(order < count, False) & (until_s - edges_s[:-1] <= SHORT_GAP_S))
    length_s = (until_s - edges_s[:-1])[short]
    none = _filled(short, -1)
    collected.parts["launches"].append(Parts(links[short], _filled(short, rank.number), none, edges_s[short], length_s))
    idle = rank.device.busy.gaps(rank.begin_s, rank.end_s)
    _, row, start_s, seconds = overlaps(idle[:, 0], idle[:, 1], rank.device.main)
    none = _filled(row, -1)
    what = rank.device.main.what[row]
    collected.parts["idle"].append(Parts(none, _filled(row, rank.number), what, start_s, seconds))
    return moments[:1], inner[:count], inner[count:]


def _link_talk(rank: _Rank, collected: _Collected, meets: _Meets, launches: IntArray) -> tuple[IntArray, IntArray]:
    """Take the parts that a rank has in the communication of devices; returns when it comes to each, and when it goes
    on."""
    talk = rank.talk
    comes, goes = collected.moments(talk.start_s, _BEGIN), collected.moments(talk.end_s, _END)
    collected.link(comes, launches)
    collected.link(comes[1:], goes[:-1])
    collected.link(comes[:1], goes[-1:], of_last_round=True)
    for number, (instance, come, go) in enumerate(
        zip(talk.instance.tolist(), comes.tolist(), goes.tolist(), strict=True)
    ):
        key = (instance, -1, -1) if instance >= 0 else (-1, rank.number, number)
        meets[key].append(
            _Part(rank.number, come, go, float(talk.start_s[number]), float(talk.end_s[number]), int(talk.what[number]))
        )
    return comes, goes


def _link_streams(
    rank: _Rank, collected: _Collected, work: tuple[IntArray, IntArray], talk: tuple[IntArray, IntArray]
) -> None:
    """Take what streams of one device wait for on each other."""
    (begins, ends), (comes, goes), did, told = work, talk, rank.work, rank.talk
    if not len(told):
        return
    # A collective waits for what was launched before it.
    before = np.searchsorted(np.maximum.accumulate(did.launched_s), told.launched_s, side="right") - 1
    known = np.flatnonzero(before >= 0)
    known = known[did.end_s[before[known]] <= told.start_s[known] + AT_ONCE_S]
    collected.link(comes[known], ends[before[known]])
    # Work that could have begun before, and begins as soon as communication is done, waits for that.
    could_s = np.maximum(did.launched_s, np.append(-np.inf, did.end_s[:-1]))
    order = np.argsort(told.end_s, kind="stable")
    last = np.searchsorted(told.end_s[order], did.start_s + TINY_S, side="right") - 1
    over_s = np.append(told.end_s[order], -np.inf)[last]
    held = np.flatnonzero((last >= 0) & (did.start_s - over_s <= AT_ONCE_S) & (over_s > could_s))
    collected.link(begins[held], goes[order[last[held]]])
    # The next step needs what this one has communicated.
    collected.link(begins[:1], goes[[int(np.argmax(told.end_s))]], of_last_round=True)


def _link_waits(rank: _Rank, collected: _Collected, resumes: IntArray, ends: IntArray) -> None:
    """Take that a host goes on when what it waits for is done."""
    ends_s = np.concatenate((rank.work.end_s, rank.talk.end_s))
    order = np.argsort(ends_s, kind="stable")
    at = np.searchsorted(ends_s[order], rank.awaited_s)
    last = np.full(len(at), np.argmax(ends_s))
    awaited = np.where(rank.behind, last, order[np.minimum(at, len(order) - 1)])
    links = collected.link(resumes, ends[awaited], of_last_round=rank.behind)
    waited_s = np.minimum(rank.awaited_s, rank.wait_s[:, 1]) - rank.wait_s[:, 0]
    collected.parts["waits"].append(
        Parts(links, _filled(links, rank.number), rank.wait_what, rank.wait_s[:, 0], np.maximum(waited_s, 0.0))
    )


def _link_meetings(meets: _Meets, collected: _Collected) -> None:
    """Take that communication goes on when all are there, and the data has moved."""
    for parts in meets.values():
        last_s = max(part.start_s for part in parts)
        (meet,) = collected.moments(np.array([last_s]), _MEET).tolist()
        come, go = np.array([part.come for part in parts]), np.array([part.go for part in parts])
        collected.link(np.full(len(come), meet), come)
        seconds = np.array([max(part.end_s - last_s, 0.0) for part in parts])
        links = collected.link(go, np.full(len(go), meet), seconds)
        rank, call = np.array([part.rank for part in parts]), np.array([part.call for part in parts])
        collected.parts["transfers"].append(Parts(links, rank, call, np.full(len(go), last_s), seconds))


def overlaps(
    begin_s: FloatArray, end_s: FloatArray, stretches: Stretches
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """What some intervals, in order and apart, have in common with stretches: the row of each, from when and how long
    ``[common]`` each."""
    low = np.searchsorted(stretches.end_s, begin_s, side="right")
    high = np.maximum(np.searchsorted(stretches.start_s, end_s, side="left"), low)
    count = np.where(end_s > begin_s, high - low, 0)
    interval = np.repeat(np.arange(len(begin_s)), count)
    row = np.arange(len(interval)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    since_s = np.maximum(begin_s[interval], stretches.start_s[row])
    return interval, row, since_s, np.minimum(end_s[interval], stretches.end_s[row]) - since_s


def _filled(like: IntArray, value: int) -> IntArray:
    return np.full(len(like), value, np.int64)
