"""Devices, as a detector."""

from __future__ import annotations

import numpy as np

from scalana.detectors.detector import Outcome
from scalana.detectors.device.account import account
from scalana.detectors.device.late_devices import GAP, LATE, SKEW, detect
from scalana.detectors.device.waits import meetings_of, members_of
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.reconcile import Extent, Verdict
from scalana.detectors.streams.activities import short
from scalana.detectors.streams.lanes import Devices
from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import FloatArray


class DeviceWaits:
    """See :mod:`scalana.detectors.device.late_devices`."""

    kinds = (BY_NAME[LATE], BY_NAME[GAP], BY_NAME[SKEW])

    def detect(self, facts: Facts) -> Outcome:
        """One finding for each place that made others wait on their devices, and where the devices' time went."""
        devices = facts.devices
        members = members_of(devices)
        meetings = meetings_of(devices, members, facts.timeline)
        findings = detect(devices, facts.timeline, facts.psg, members, meetings, facts.ppg.models.forwards)
        # A call that a device carries out is no wait of the host: others speak of other seconds.
        verdicts = [Verdict(finding, _extent(finding, devices)) for finding in findings]
        return Outcome(verdicts, sections={"device": account(devices, meetings)})


def _extent(finding: Finding, devices: Devices) -> Extent:
    """What devices did that a finding speaks of: the kernels that it names, or all where a device is slow; nothing,
    where they had nothing to do."""
    if finding.kind == SKEW:
        return Extent(())
    time = finding.evidence.device
    named = set(time.kernels) if time is not None and time.kernels is not None and time.slowdown is None else None
    kinds = [named is None or short(devices.kinds.text(kind)) in named for kind in range(len(devices.kinds))]
    windows = []
    for rank in finding.ranks:
        device = devices.of_rank[rank]
        work = np.stack((device.work.start_s, device.work.end_s), axis=1)
        chosen = np.array(kinds)[device.work.what]
        windows.append(work[chosen] if finding.kind == LATE else _between(work, device.windows))
    return Extent(tuple(finding.ranks), windows_s=joined(np.concatenate(windows)), on_device=True)


def _between(work_s: FloatArray, windows_s: FloatArray) -> FloatArray:
    """What of some windows lies between the stretches of work in them ``[gaps, 2]``; as of :attr:`Device.windows`."""
    found = []
    for begin, _, end in windows_s.tolist():
        inside = work_s[(work_s[:, 0] < end) & (work_s[:, 1] > begin)]
        gaps = np.stack((np.append(begin, inside[:, 1]), np.append(inside[:, 0], end)), axis=1)
        found.append(gaps[gaps[:, 1] > gaps[:, 0]])
    return np.concatenate(found)
