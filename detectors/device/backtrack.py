"""From waiting on a device to what made the awaited rank late.

Between the last operation that two ranks both left and the one in which one of them waits, the awaited rank took longer. What
its device did there, more than that of the rank that waits, is the excess: kernels; communication with others, whose own
waiting is handed on to whoever caused it; or nothing at all, and then what the thread of the host did more that
should have launched the next kernel. Seconds of waiting are split over the excess without remainder, as delay costs are
(Boehme et al., ICPP 2010).
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.device.lanes import Device, Devices, Stretches
from scalana.detectors.device.waits import Meeting, Member
from scalana.graphs.timeline import Timeline

_NOTICED_S = 1e-6
"""Less than a rank is later is no lateness: the resolution of many traces."""


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


@dataclass(slots=True)
class Costs:
    """What each cause costs."""

    lost_s: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    """Rank-seconds of waiting that nothing hid."""
    saving_s: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    """By how much the awaited ranks alone were later than the next one, while others waited for nothing else."""
    meetings: dict[Cause, set[int]] = field(default_factory=lambda: defaultdict(set))
    """In which operations."""
    here_s: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    """What the awaited rank did of it there, in all."""
    others_s: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    """What those that waited did of it there, on average over them, in all."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a rank did between two operations."""

    work: dict[int, float]
    """Seconds of kinds of work on its device."""
    waits: dict[int, float]
    """Seconds in other operations, by instance, that no work hid."""
    gap_s: float
    host: dict[int, float]
    """Seconds of what its host did while it should have launched."""
    length_s: float


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
        charge = {instance: meeting.exposed_s for instance, meeting in self.meetings.items()}
        order = sorted(self.meetings.values(), key=lambda meeting: -meeting.awaited.start_s)
        for meeting in order:
            lost_s = charge[meeting.instance]
            if lost_s > 0.0:
                self._split(meeting, lost_s, charge)
        return self.costs

    def _split(self, meeting: Meeting, lost_s: float, charge: dict[int, float]) -> None:
        awaited = meeting.awaited
        waited_s = sum(seconds for _, seconds, _ in meeting.waiting)
        removable_s = max(awaited.start_s - meeting.second_s, 0.0)
        share_of_exposed = meeting.exposed_s / waited_s if waited_s > 0.0 else 0.0
        here: dict[int, Profile] = {}
        for member, seconds, exposed in meeting.waiting:
            # What is handed on from later operations is split as this one's own waiting is.
            part = exposed / meeting.exposed_s if meeting.exposed_s > 0.0 else seconds / waited_s
            if seconds < _NOTICED_S or part <= 0.0:
                continue
            before = self._last_common(awaited, member)
            key = -1 if before is None else before[0].number
            if key not in here:
                here[key] = self._profile(awaited, None if before is None else before[0])
            there = self._profile(member, None if before is None else before[1])
            shares = self._shares(awaited.rank, seconds, here[key], there, before is None)
            gain_s = removable_s * share_of_exposed / len(meeting.waiting)
            for cause, share, mine, theirs in shares:
                if isinstance(cause, int):
                    if cause in charge:
                        charge[cause] += lost_s * part * share
                        continue
                    cause = (Why.UNKNOWN, awaited.rank, -1)
                costs = self.costs
                costs.lost_s[cause] += lost_s * part * share
                costs.saving_s[cause] += gain_s * share
                costs.meetings[cause].add(meeting.instance)
                costs.here_s[cause] += mine / len(meeting.waiting)
                costs.others_s[cause] += theirs / len(meeting.waiting)

    def _last_common(self, awaited: Member, other: Member) -> tuple[Member, Member] | None:
        """The parts of two ranks in the last operation that both left before."""
        instances = self.devices.of_rank[awaited.rank].communication.instance
        for number in range(awaited.number - 1, -1, -1):
            parts = self.members.get(int(instances[number]), {})
            mine, theirs = parts.get(awaited.rank), parts.get(other.rank)
            if mine and theirs and mine.end_s <= awaited.start_s and theirs.end_s <= other.start_s:
                return mine, theirs
        return None

    def _profile(self, member: Member, before: Member | None) -> Profile:
        device = self.devices.of_rank[member.rank]
        begin = before.end_s if before is not None else device.begin_s
        end = member.start_s
        what, seconds = device.work.within(begin, end)
        talk = device.communication
        waits: dict[int, float] = defaultdict(float)
        inside = np.flatnonzero(
            (talk.end_s > begin) & (talk.start_s < end) & (np.arange(len(talk.start_s)) != member.number)
        )
        covered = float(seconds.sum())
        for number in inside.tolist():
            low, high = max(float(talk.start_s[number]), begin), min(float(talk.end_s[number]), end)
            hidden = device.work.covered_s(np.array([low, high]))
            open_s = (high - low) - float(hidden[1] - hidden[0])
            if open_s > 0.0:
                waits[int(talk.instance[number])] += open_s
        gap_s = max(end - begin - covered - sum(waits.values()), 0.0)
        return Profile(_summed(what, seconds), waits, gap_s, self._host(device, member, before), end - begin)

    def _host(self, device: Device, member: Member, before: Member | None) -> dict[int, float]:
        """What the host did from when it launched one operation until it launched the next."""
        begin = device.begin_s if before is None else self._launched_s(device, before)
        end = self._launched_s(device, member)
        found = _summed(*device.helpers.within(begin, end))
        for what, seconds in _summed(*device.main.within(begin, end, device.helpers)).items():
            found[what] = found.get(what, 0.0) + seconds
        return found

    def _launched_s(self, device: Device, member: Member) -> float:
        call = int(device.communication.call[member.number])
        return float(self.timeline.calls.enter_s[call]) if call >= 0 else member.start_s

    def _shares(
        self, rank: int, late_s: float, here: Profile, there: Profile, first: bool
    ) -> list[tuple[Cause | int, float, float, float]]:
        """Why a rank was so much later than another: causes, or other operations, and the share of each; with the
        seconds that it and the other one did of it."""
        longer_s = max(here.length_s - there.length_s, 0.0)
        explained = min(longer_s / late_s, 1.0) if first else 1.0
        found: list[tuple[Cause | int, float, float, float]] = []
        if explained < 1.0:
            found.append(((Why.SKEW, rank, -1), 1.0 - explained, late_s * (1.0 - explained), 0.0))
        more: list[tuple[Cause | int, float, float, float]] = []
        for what, seconds in here.work.items():
            other = there.work.get(what, 0.0)
            if seconds > other:
                more.append(((Why.KERNELS, rank, what), seconds - other, seconds, other))
        others_wait_s = sum(there.waits.values())
        waits_s = sum(here.waits.values())
        if waits_s > others_wait_s:
            for instance, seconds in here.waits.items():
                more.append((instance, (waits_s - others_wait_s) * seconds / waits_s, seconds, 0.0))
        if here.gap_s > there.gap_s:
            more += self._gap(rank, here.gap_s - there.gap_s, here, there)
        whole = sum(excess for _, excess, _, _ in more)
        if whole <= 0.0:
            return [*found, ((Why.UNKNOWN, rank, -1), explained, late_s * explained, 0.0)]
        return found + [(cause, explained * excess / whole, mine, theirs) for cause, excess, mine, theirs in more]

    @staticmethod
    def _gap(rank: int, gap_s: float, here: Profile, there: Profile) -> list[tuple[Cause | int, float, float, float]]:
        """What the host did more, of which a gap of so many seconds is made up."""
        more = {what: seconds - there.host.get(what, 0.0) for what, seconds in here.host.items()}
        more = {what: excess for what, excess in more.items() if excess > 0.0}
        whole, longer = sum(more.values()), sum(here.host.values()) - sum(there.host.values())
        if whole <= 0.0:
            return [((Why.UNKNOWN, rank, -1), gap_s, gap_s, 0.0)]
        # Where the host was not that much later itself, it is not the host.
        known = min(1.0, max(longer, 0.0) / gap_s)
        known = 1.0 if known > 0.8 else known
        found: list[tuple[Cause | int, float, float, float]] = [
            ((Why.GAP, rank, what), gap_s * known * excess / whole, here.host[what], there.host.get(what, 0.0))
            for what, excess in more.items()
        ]
        if known < 1.0:
            found.append(((Why.UNKNOWN, rank, -1), gap_s * (1.0 - known), gap_s * (1.0 - known), 0.0))
        return found


def _summed(what: np.ndarray, seconds: np.ndarray) -> dict[int, float]:
    kinds, inverse = np.unique(what, return_inverse=True)
    sums = np.bincount(inverse, seconds, len(kinds))
    return dict(zip(kinds.tolist(), sums.tolist(), strict=True))


def gaps_within(work: Stretches, begin_s: float, end_s: float) -> np.ndarray:
    """Lengths of the gaps between the stretches from one time to another, in seconds."""
    low = int(np.searchsorted(work.end_s, begin_s))
    high = int(np.searchsorted(work.start_s, end_s))
    begins = np.concatenate(([begin_s], work.end_s[low:high]))
    ends = np.concatenate((work.start_s[low:high], [end_s]))
    lengths = np.asarray(ends - begins)
    return lengths[lengths > 0.0]
