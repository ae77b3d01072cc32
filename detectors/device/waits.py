"""Waiting in communication on devices, judged where it happens.

The kernels of one collective end together: the member whose kernel began last was awaited, and what the others' began
earlier is waiting. It costs nothing where the device computes meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from scalana.detectors.streams.lanes import Device, Devices
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_CODE, Waits


@dataclass(frozen=True, slots=True)
class Member:
    """A rank's part in one operation."""

    rank: int
    number: int
    """Row in the communication of its device."""
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Meeting:
    """One operation in which ranks waited."""

    instance: int
    awaited: Member
    waiting: tuple[tuple[Member, float, float], ...]
    """Each with the seconds that it waited, and those of them that nothing hid."""
    members: tuple[Member, ...]

    @property
    def exposed_s(self) -> float:
        """Rank-seconds of waiting that nothing hid."""
        return sum(exposed for _, _, exposed in self.waiting)

    def saved_s(self, ranks: Collection[int]) -> float:
        """By how much earlier the operation would go on, where nothing hides it, if these ranks were on time."""
        waited_s = sum(seconds for _, seconds, _ in self.waiting)
        others = max((member.start_s for member in self.members if member.rank not in ranks), default=0.0)
        earliest = min(member.start_s for member in self.members)
        sooner = max(self.awaited.start_s - max(others, earliest), 0.0)
        return sooner * self.exposed_s / waited_s if waited_s > 0.0 else 0.0


def members_of(devices: Devices) -> dict[int, dict[int, Member]]:
    """The parts that ranks have in every operation, by instance and rank."""
    found: dict[int, dict[int, Member]] = defaultdict(dict)
    for rank, device in devices.of_rank.items():
        talk = device.communication
        columns = (talk.instance, talk.start_s, talk.end_s)
        for number, (instance, start, end) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if instance < 0:
                continue
            known = found[instance].get(rank)
            if known is not None:  # one operation in several kernels
                found[instance][rank] = Member(rank, known.number, known.start_s, max(end, known.end_s))
            else:
                found[instance][rank] = Member(rank, number, start, end)
    return found


def meetings_of(devices: Devices, members: dict[int, dict[int, Member]], timeline: Timeline) -> dict[int, Meeting]:
    """All operations in which anybody waited, by instance."""
    found = {}
    for instance, parts in members.items():
        if len(parts) < 2:
            continue
        waits = BY_CODE[int(timeline.instances.operation[instance])].waits
        root = int(timeline.instances.root[instance])
        pair = _who_waits(parts, waits, root)
        if pair is None:
            continue
        awaited, waiting = pair
        told = []
        for member in waiting:
            waited = min(awaited.start_s, member.end_s) - member.start_s
            if waited > 0.0:
                told.append((member, waited, _exposed_s(devices.of_rank[member.rank], member, waited)))
        if told:
            found[instance] = Meeting(instance, awaited, tuple(told), tuple(parts.values()))
    return found


def _who_waits(parts: dict[int, Member], waits: Waits, root: int) -> tuple[Member, list[Member]] | None:
    """Who is awaited in an operation, and who waits for it; None if nobody does."""
    last = max(parts.values(), key=lambda member: (member.start_s, member.rank))
    others = [member for member in parts.values() if member is not last]
    if waits is Waits.ALL:
        return last, others
    if waits is Waits.ROOT and root in parts:
        return parts[root], [member for member in parts.values() if member.rank != root]
    if waits is Waits.AT_ROOT and root in parts and last.rank != root:
        return last, [parts[root]]
    if waits in (Waits.SENDER, Waits.NOBODY, Waits.RECEIVER) and len(parts) == 2:
        # Kernels of a send and of its receive run together, whichever began first.
        return last, others
    return None


def _exposed_s(device: Device, member: Member, waited_s: float) -> float:
    """How much of a wait nothing hides: what its kernel is longer than kernels of work hide, beyond what it would be
    had it not waited.

    Without the wait it would have ended so much earlier: the kernels that run in the last seconds of it hide the wait,
    those before hide the transfer.
    """
    covered = device.work.covered_s(np.array([member.end_s - waited_s, member.end_s]))
    return max(waited_s - float(covered[1] - covered[0]), 0.0)
