"""From waiting on a device to what made the awaited rank late.

Between the last operation that two ranks both came to and the one in which one of them waits, the awaited rank took
longer. What its device did there, more than that of the rank that waits, is the excess: kernels; communication with
others, whose own waiting is handed on to whoever caused it; or nothing at all, and then what the thread of the host did
more that should have launched the next kernel. Seconds of waiting are split over the excess without remainder, as delay
costs are (Boehme et al., ICPP 2010). Lateness that is older than the last common operation is followed back to where
it arose: neither device nor host is on time again only because others waited for it once.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.delays.delay_costs import IntervalDelays, Shares, excess, follow_back, propagate
from scalana.detectors.device.waits import Meeting, Member
from scalana.detectors.streams.lanes import Device, Devices
from scalana.detectors.thresholds.seconds import SAME_TIME_S
from scalana.detectors.thresholds.shares import EXPLAINED
from scalana.graphs.timeline import Timeline


class Why(enum.Enum):
    """What made a rank late."""

    KERNELS = "kernels"
    GAP = "gap"
    """Nothing ran, and the host did something else."""
    UNKNOWN = "unknown"
    """Nothing ran, and the host did no more than others."""
    SKEW = "skew"
    """It was late when its record began."""


Cause = tuple[Why, int, int]
"""Why, whose rank, and the kind of work on the device or the host (-1 for none)."""


@dataclass(frozen=True, slots=True)
class Did:
    """What two ranks did of something before they came to an operation."""

    number: int
    """Row of the operation in the communication of the rank that was late, -1 where nothing was done."""
    here_s: float
    others_s: float


_NOTHING = Did(-1, 0.0, 0.0)
Blamed = tuple[Cause | int, Did]
"""A cause, or the operation that was waited in; and what was done of it."""
Pair = tuple[Member, Member]
"""The parts that the late rank and another have in an operation."""


@dataclass(slots=True)
class Costs:
    """What each cause costs."""

    lost_s: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    """Rank-seconds of waiting that nothing hid, of all steps that those which were looked at stand for."""
    shares: dict[Cause, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """Its part of every operation in which others waited for it, by instance."""
    lost_in: dict[Cause, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """The same seconds as in ``lost_s``, by instance of the operation."""
    did: dict[Cause, dict[int, Did]] = field(default_factory=lambda: defaultdict(dict))
    """What was done of it, before every operation once."""

    def add(self, cause: Cause, instance: int, lost_s: float, share: float, did: Did) -> None:
        """Charge a cause with a part of the waiting in an operation."""
        self.lost_s[cause] += lost_s * share
        self.lost_in[cause][instance] += lost_s * share
        self.shares[cause][instance] += share
        if did.number >= 0:
            self.did[cause][did.number] = did


@dataclass(frozen=True, slots=True)
class Profile:
    """What a rank did between two operations."""

    work: dict[int, float]
    """Seconds of kinds of work on its device."""
    waits: dict[int, float]
    """Seconds in other operations, by instance, that no work hid."""
    gap_s: float


@dataclass(frozen=True, slots=True)
class HostProfile:
    """What a host did from when it launched one operation until it launched another."""

    did: dict[int, float]
    """Seconds of kinds of work."""
    blocked: dict[int, float]
    """Seconds of calls in which it waited for its device, while that was busy."""


@dataclass(slots=True)
class Backtracking:
    """The walk over all operations, the last first."""

    devices: Devices
    timeline: Timeline
    members: dict[int, dict[int, Member]]
    meetings: dict[int, Meeting]
    costs: Costs = field(default_factory=Costs)

    def run(self) -> Costs:
        """Split all waiting."""
        order = sorted(self.meetings.values(), key=lambda meeting: -meeting.awaited.start_s)
        number: dict[Cause | int, int] = {meeting.instance: row for row, meeting in enumerate(order)}
        lost_s = np.array([meeting.exposed_s * self.devices.weight[meeting.instance] for meeting in order])
        charged = lost_s > 0.0
        kept: list[tuple[int, float, Cause, Did]] = []
        handed: list[tuple[int, int, float]] = []
        for row, meeting in enumerate(order):
            for (cause, did), share in self._split(meeting) if charged[row] else ():
                to = number.get(cause, -1)
                if to > row:
                    handed.append((row, to, share))
                    charged[to] = True
                else:
                    kept.append((row, share, _unknown(meeting.awaited) if isinstance(cause, int) else cause, did))
        shares = Shares.of(((row, target, share) for target, (row, share, *_) in enumerate(kept)), handed)
        flow_s = propagate(lost_s, shares)[0].tolist()
        for row, share, cause, did in kept:
            self.costs.add(cause, order[row].instance, flow_s[row], share, did)
        return self.costs

    def _split(self, meeting: Meeting) -> Iterator[tuple[Blamed, float]]:
        """What made ranks wait in an operation, with shares that add up to 1."""
        waited_s = sum(seconds for _, seconds, _ in meeting.waiting)
        for member, seconds, exposed in meeting.waiting:
            # What is handed on from later operations is split as this one's own waiting is.
            part = exposed / meeting.exposed_s if meeting.exposed_s > 0.0 else seconds / waited_s
            if seconds < SAME_TIME_S or part <= 0.0:
                continue
            parts, _ = follow_back((meeting.awaited, member), self._delays, _skew)
            parts = parts or [((_unknown(meeting.awaited), _NOTHING), 1.0)]
            whole = sum(size for _, size in parts)
            yield from ((blamed, part * size / whole) for blamed, size in parts)

    def _last_common(self, awaited: Member, other: Member) -> Pair | None:
        """The parts of two ranks in the last operation that both left before."""
        instances = self.devices.of_rank[awaited.rank].communication.instance
        since_s = self._begin_s(awaited)
        for number in range(awaited.number - 1, -1, -1):
            parts = self.members.get(int(instances[number]), {})
            mine, theirs = parts.get(awaited.rank), parts.get(other.rank)
            if mine and mine.start_s < since_s:
                return None
            if mine and theirs and mine.end_s <= awaited.start_s and theirs.end_s <= other.start_s:
                return mine, theirs
        return None

    def _profile(self, member: Member, before: Member | None) -> Profile:
        """What a device did from when it came to one operation until it came to the next."""
        device = self.devices.of_rank[member.rank]
        begin = before.start_s if before is not None else device.begin_s(member.start_s)
        end = member.start_s
        what, seconds = device.work.within(begin, end)
        talk = device.communication
        waits: dict[int, float] = defaultdict(float)
        until = begin
        for number in talk.within(begin, end):
            if number == member.number:
                continue
            low, high = max(float(talk.start_s[number]), until), min(float(talk.end_s[number]), end)
            if high <= low:
                continue
            until = high
            hidden = device.work.covered_s(np.array([low, high]))
            waits[int(talk.instance[number])] += max((high - low) - float(hidden[1] - hidden[0]), 0.0)
        gap_s = max(end - begin - float(seconds.sum()) - sum(waits.values()), 0.0)
        return Profile(_summed(what, seconds), waits, gap_s)

    def _host(self, member: Member, before: Member | None) -> HostProfile:
        """What a host did from when it launched one operation until it launched the next."""
        device = self.devices.of_rank[member.rank]
        begin = device.begin_s(member.start_s) if before is None else self._launched_s(device, before)
        end = self._launched_s(device, member)
        if begin >= end:  # its device was so far behind that all of it was launched before
            return HostProfile({}, {})
        did: dict[int, float] = defaultdict(float)
        blocked: dict[int, float] = defaultdict(float)
        for stretches, but in ((device.helpers, None), (device.main, device.helpers)):
            what, seconds = stretches.within(begin, end, but)
            passive = self.devices.blocking[what]
            for kind, length in _summed(what[~passive], seconds[~passive]).items():
                did[kind] += length
            # A call that waits for the device does so while that is busy; the rest of it is the host's own.
            kinds, all_s = stretches.within(begin, end)
            waits = self.devices.blocking[kinds]
            if not waits.any():
                continue
            _, idle_s = stretches.within(begin, end, device.busy)
            for kind, length, own in zip(kinds[waits].tolist(), all_s[waits], idle_s[waits], strict=True):
                did[kind] += float(own)
                blocked[kind] += float(length - own)
        return HostProfile(did, blocked)

    def _launched_s(self, device: Device, member: Member) -> float:
        call = int(device.communication.call[member.number])
        return float(self.timeline.calls.enter_s[call]) if call >= 0 else member.start_s

    def _delays(self, end: Pair) -> IntervalDelays[Blamed, Pair]:
        """What made a rank come later to an operation than another, since the last one that both came to."""
        mine, theirs = end
        before = self._last_common(mine, theirs)
        here, there = (self._profile(*one) for one in zip(end, before or (None, None), strict=True))
        delays = _more(Why.KERNELS, mine, here.work, there.work)
        delays += [((instance, _NOTHING), seconds) for instance, seconds in excess(here.waits, there.waits).items()]
        if here.gap_s > there.gap_s:
            delays += self._gap(mine, theirs, here.gap_s - there.gap_s)
        if before is None:
            return IntervalDelays(delays, self._begin_s(mine) - self._begin_s(theirs), None)
        waited_s = sum(excess(there.waits, here.waits).values())
        return IntervalDelays(delays, before[0].start_s - before[1].start_s - waited_s, before)

    def _gap(self, mine: Member, theirs: Member, gap_s: float) -> list[tuple[Blamed, float]]:
        """What made the host of a rank launch later than that of another, of which a gap of so many seconds is made
        up."""
        known = min(1.0, max(self._host_late_s(mine, theirs), 0.0) / gap_s)
        known = 1.0 if known > EXPLAINED else known
        found, left = follow_back((mine, theirs), self._host_delays, _skew, known)
        if 1.0 - known + left > 0.0:
            found.append(((_unknown(mine), _NOTHING), 1.0 - known + left))
        return [(blamed, gap_s * part) for blamed, part in found]

    def _host_delays(self, end: Pair) -> IntervalDelays[Blamed, Pair]:
        """What made a host launch an operation later than another, since it launched the last common one."""
        mine, theirs = end
        before = self._last_common(mine, theirs)
        here, there = (self._host(*one) for one in zip(end, before or (None, None), strict=True))
        delays: list[tuple[Blamed, float]] = []
        for did, usual in ((here.did, there.did), (here.blocked, there.blocked)):
            longer_s = sum(did.values()) - sum(usual.values())
            if longer_s > 0.0:
                more = _more(Why.GAP, mine, did, usual)
                scale = longer_s / sum(seconds for _, seconds in more)
                delays += [(blamed, seconds * scale) for blamed, seconds in more]
        late_s = self._begin_s(mine) - self._begin_s(theirs) if before is None else self._host_late_s(*before)
        # By what the other host waited longer for its device, this one has caught up.
        waited_s = sum(there.blocked.values()) - sum(here.blocked.values())
        return IntervalDelays(delays, late_s - max(waited_s, 0.0), before)

    def _begin_s(self, member: Member) -> float:
        return self.devices.of_rank[member.rank].begin_s(member.start_s)

    def _host_late_s(self, mine: Member, theirs: Member) -> float:
        """By how much later the host of one rank launched an operation than that of another."""
        devices = self.devices.of_rank
        return self._launched_s(devices[mine.rank], mine) - self._launched_s(devices[theirs.rank], theirs)


def _more(why: Why, mine: Member, did: dict[int, float], usual: dict[int, float]) -> list[tuple[Blamed, float]]:
    """What a rank did more of than another before it came to an operation."""
    return [
        (((why, mine.rank, what), Did(mine.number, did[what], usual.get(what, 0.0))), seconds)
        for what, seconds in excess(did, usual).items()
    ]


def _skew(end: Pair) -> Blamed:
    return (Why.SKEW, end[0].rank, -1), _NOTHING


def _unknown(mine: Member) -> Cause:
    return Why.UNKNOWN, mine.rank, -1


def _summed(what: np.ndarray, seconds: np.ndarray) -> dict[int, float]:
    kinds, inverse = np.unique(what, return_inverse=True)
    sums = np.bincount(inverse, seconds, len(kinds))
    return dict(zip(kinds.tolist(), sums.tolist(), strict=True))
