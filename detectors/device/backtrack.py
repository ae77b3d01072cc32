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
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.device.lanes import Device, Devices
from scalana.detectors.device.waits import Meeting, Member
from scalana.detectors.thresholds.limits import FURTHEST_BACK
from scalana.detectors.thresholds.seconds import SAME_TIME_S
from scalana.detectors.thresholds.shares import EXPLAINED, WORTH_FOLLOWING
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
Part = tuple[Cause | int, float, Did]
"""A cause, or the operation that was waited in; how much of a lateness it is; and what was done of it."""


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
    length_s: float


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
        weight = self.devices.weight
        charge = {instance: meeting.exposed_s * weight[instance] for instance, meeting in self.meetings.items()}
        order = sorted(self.meetings.values(), key=lambda meeting: -meeting.awaited.start_s)
        for meeting in order:
            lost_s = charge[meeting.instance]
            if lost_s > 0.0:
                self._split(meeting, lost_s, charge)
        return self.costs

    def _split(self, meeting: Meeting, lost_s: float, charge: dict[int, float]) -> None:
        awaited = meeting.awaited
        waited_s = sum(seconds for _, seconds, _ in meeting.waiting)
        for member, seconds, exposed in meeting.waiting:
            # What is handed on from later operations is split as this one's own waiting is.
            part = exposed / meeting.exposed_s if meeting.exposed_s > 0.0 else seconds / waited_s
            if seconds < SAME_TIME_S or part <= 0.0:
                continue
            parts = self._parts(awaited, member)
            whole = sum(size for _, size, _ in parts)
            for cause, size, did in parts:
                share = size / whole
                if isinstance(cause, int):
                    if cause in charge:
                        charge[cause] += lost_s * part * share
                        continue
                    cause = (Why.UNKNOWN, awaited.rank, -1)
                self.costs.add(cause, meeting.instance, lost_s, part * share, did)

    def _last_common(self, awaited: Member, other: Member) -> tuple[Member, Member] | None:
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
        return Profile(_summed(what, seconds), waits, gap_s, end - begin)

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
            _, idle_s = stretches.within(begin, end, device.busy)
            waits = self.devices.blocking[kinds]
            for kind, length, own in zip(kinds[waits].tolist(), all_s[waits], idle_s[waits], strict=True):
                did[kind] += float(own)
                blocked[kind] += float(length - own)
        return HostProfile(did, blocked)

    def _launched_s(self, device: Device, member: Member) -> float:
        call = int(device.communication.call[member.number])
        return float(self.timeline.calls.enter_s[call]) if call >= 0 else member.start_s

    def _parts(self, awaited: Member, other: Member) -> list[Part]:
        """What made a rank come later to an operation than another, each with a size; the sizes are no seconds.

        A device that is late stays late until the other one has nothing to do but wait for it. What it did more, it
        may have done before operations that both have come to since.
        """
        found: list[Part] = []
        left, mine, theirs = 1.0, awaited, other
        for _ in range(FURTHEST_BACK):
            before = self._last_common(mine, theirs)
            here = self._profile(mine, None if before is None else before[0])
            there = self._profile(theirs, None if before is None else before[1])
            more: list[Part] = []
            for what, seconds in here.work.items():
                usual = there.work.get(what, 0.0)
                if seconds > usual:
                    cause = Why.KERNELS, mine.rank, what
                    more.append((cause, seconds - usual, Did(mine.number, seconds, usual)))
            for instance, seconds in here.waits.items():
                if seconds > there.waits.get(instance, 0.0):
                    more.append((instance, seconds - there.waits.get(instance, 0.0), _NOTHING))
            if here.gap_s > there.gap_s:
                more += self._gap(mine, theirs, here.gap_s - there.gap_s, before)
            if before is None:
                carried_s = self._begin_s(mine) - self._begin_s(theirs)
            else:
                carried_s = before[0].start_s - before[1].start_s
                for instance, seconds in there.waits.items():
                    carried_s -= max(seconds - here.waits.get(instance, 0.0), 0.0)
            carried_s = max(carried_s, 0.0)
            whole = carried_s + sum(size for _, size, _ in more)
            if whole <= 0.0:
                break
            found += [(cause, left * size / whole, did) for cause, size, did in more]
            left *= carried_s / whole
            if before is None:
                found.append(((Why.SKEW, mine.rank, -1), left, _NOTHING))
                left = 0.0
            if left < WORTH_FOLLOWING or before is None:
                break
            mine, theirs = before
        return found or [((Why.UNKNOWN, awaited.rank, -1), 1.0, _NOTHING)]

    def _gap(self, awaited: Member, other: Member, gap_s: float, before: tuple[Member, Member] | None) -> list[Part]:
        """What made the host of a rank launch later than that of another, of which a gap of so many seconds is made up.

        A host that is late stays late until the others' hosts wait for their devices: what it did more, it may have
        done before operations that both have left since.
        """
        late_s = self._host_late_s(awaited, other)
        known = min(1.0, max(late_s, 0.0) / gap_s)
        known = 1.0 if known > EXPLAINED else known
        found: list[Part] = []
        left, mine, theirs = known, awaited, other
        for _ in range(FURTHEST_BACK):
            if left < WORTH_FOLLOWING:
                break
            here = self._host(mine, None if before is None else before[0])
            there = self._host(theirs, None if before is None else before[1])
            worked, longer_s = _excess(here.did, there.did)
            blocked, waited_s = _excess(here.blocked, there.blocked)
            if before is None:
                carried_s = self._begin_s(mine) - self._begin_s(theirs)
            else:
                carried_s = self._host_late_s(*before)
            carried_s = max(carried_s + min(waited_s, 0.0), 0.0)
            own = [
                (more, whole, length / sum(more.values()))
                for more, whole, length in ((worked, here.did, longer_s), (blocked, here.blocked, waited_s))
                if length > 0.0
            ]
            all_s = carried_s + sum(max(length, 0.0) for length in (longer_s, waited_s))
            if all_s <= 0.0:
                break
            for more, whole, scale in own:
                usual = there.did if whole is here.did else there.blocked
                for what, excess in more.items():
                    part = left * excess * scale / all_s
                    did = Did(mine.number, whole[what], usual.get(what, 0.0))
                    found.append(((Why.GAP, mine.rank, what), gap_s * part, did))
            left *= carried_s / all_s
            if before is None:
                found.append(((Why.SKEW, mine.rank, -1), gap_s * left, _NOTHING))
                left = 0.0
            else:
                mine, theirs = before
                before = self._last_common(mine, theirs)
        unknown_s = gap_s * (1.0 - known + left)
        if unknown_s > 0.0:
            found.append(((Why.UNKNOWN, awaited.rank, -1), unknown_s, _NOTHING))
        return found

    def _begin_s(self, member: Member) -> float:
        return self.devices.of_rank[member.rank].begin_s(member.start_s)

    def _host_late_s(self, mine: Member, theirs: Member) -> float:
        """By how much later the host of one rank launched an operation than that of another."""
        devices = self.devices.of_rank
        return self._launched_s(devices[mine.rank], mine) - self._launched_s(devices[theirs.rank], theirs)


def _excess(here: dict[int, float], there: dict[int, float]) -> tuple[dict[int, float], float]:
    """What one rank did more of than another, and by how much it did more in all."""
    more = {what: seconds - there.get(what, 0.0) for what, seconds in here.items()}
    return {what: s for what, s in more.items() if s > 0.0}, sum(here.values()) - sum(there.values())


def _summed(what: np.ndarray, seconds: np.ndarray) -> dict[int, float]:
    kinds, inverse = np.unique(what, return_inverse=True)
    sums = np.bincount(inverse, seconds, len(kinds))
    return dict(zip(kinds.tolist(), sums.tolist(), strict=True))
