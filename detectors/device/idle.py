"""Where the main threads of hosts were while their devices had nothing to do: what is to be made shorter, or done ahead
of time, for devices to be busier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scalana.detectors.streams.lanes import Device, Devices


@dataclass(frozen=True, slots=True)
class Idle:
    """One place of the program."""

    vertex: int
    seconds: float
    """Of all devices, in what was looked at, while their hosts were there."""


def idle_of(devices: Devices) -> list[Idle]:
    """The places where hosts were while their devices had nothing to do, the longest first."""
    found: dict[int, float] = defaultdict(float)
    for device in devices.of_rank.values():
        for begin, end in gaps_of(device):
            what, seconds = device.main.within(begin, end)
            for kind, length in zip(what.tolist(), seconds.tolist(), strict=True):
                found[int(devices.kinds.vertex[kind])] += length
    return sorted((Idle(*one) for one in found.items()), key=lambda one: -one.seconds)


def gaps_of(device: Device) -> Iterable[tuple[float, float]]:
    """Begin and end of the stretches, in the windows, in which a device had nothing to do."""
    busy = device.busy
    for begin, end in device.windows[:, 1:].tolist():
        yield from busy.gaps(begin, end).tolist()
