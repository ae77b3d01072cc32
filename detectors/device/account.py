"""Where the seconds of the devices went: shares that add up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.device.idle import Idle, idle_of
from scalana.detectors.device.waits import Meeting
from scalana.detectors.streams.lanes import Devices
from scalana.detectors.streams.stretches import without_overlap


@dataclass(slots=True)
class DeviceAccount:
    """Device-seconds, from the first thing on each device to the last; the four parts of it add up."""

    total_s: float = 0.0
    busy_s: float = 0.0
    """Kernels and copies but for communication."""
    waiting_s: float = 0.0
    """In communication for another rank, while nothing else runs."""
    transfer_s: float = 0.0
    """In communication, the rest of what nothing hides."""
    gap_s: float = 0.0
    """Nothing runs."""
    hidden_s: float = 0.0
    """Communication behind kernels: a part of the busy time."""
    ranks: list[int] = field(default_factory=list)
    lanes: list[tuple[int, str, float, int]] = field(default_factory=list)
    """Rank, name, busy seconds and spans of every stream."""
    idle: list[Idle] = field(default_factory=list)
    """Where hosts were while their devices had nothing to do, the longest first."""
    marked: bool = False
    """Whether jobs marked on streams what they launched, on some steps."""

    def share(self, seconds: float) -> float:
        """Seconds as a part of all."""
        return seconds / self.total_s if self.total_s > 0.0 else 0.0


def account(devices: Devices, meetings: dict[int, Meeting]) -> DeviceAccount:
    """Add up what all devices did."""
    made = DeviceAccount(
        ranks=sorted(devices.of_rank), lanes=devices.lanes, idle=idle_of(devices), marked=devices.marked
    )
    for device in devices.of_rank.values():
        talk = device.communication
        apart = without_overlap(talk.start_s, talk.end_s, talk.instance)
        length = float((apart.end_s - apart.start_s).sum())
        hidden = float((device.work.covered_s(apart.end_s) - device.work.covered_s(apart.start_s)).sum())
        busy = float((device.work.end_s - device.work.start_s).sum())
        total = device.total_s
        made.total_s += total
        made.busy_s += busy
        made.hidden_s += hidden
        made.transfer_s += length - hidden
        made.gap_s += total - busy - (length - hidden)
    exposed = sum(meeting.exposed_s for meeting in meetings.values())
    # Communication of several streams at once is counted once above, and for every stream in the meetings.
    made.waiting_s = min(exposed, made.transfer_s)
    made.transfer_s -= made.waiting_s
    made.gap_s = max(float(np.round(made.gap_s, 12)), 0.0)
    return made
