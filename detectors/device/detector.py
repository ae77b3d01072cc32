"""Devices, as a detector."""

from __future__ import annotations

from scalana.detectors.detector import Outcome
from scalana.detectors.device.account import account
from scalana.detectors.device.detect import GAP, LATE, SKEW, detect
from scalana.detectors.device.lanes import devices_of
from scalana.detectors.device.waits import meetings_of, members_of
from scalana.detectors.facts import Facts, Need
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.reconcile import Extent, Told


class DeviceWaits:
    """See :mod:`scalana.detectors.device.detect`."""

    kinds = (BY_NAME[LATE], BY_NAME[GAP], BY_NAME[SKEW])
    needs = frozenset({Need.DEVICE})

    def detect(self, facts: Facts) -> Outcome:
        """One finding for each place that made others wait on their devices, and where the devices' time went."""
        devices = devices_of(facts.ppg.spans, facts.timeline, facts.ppg.host, facts.psg)
        members = members_of(devices)
        meetings = meetings_of(devices, members, facts.timeline)
        findings = detect(devices, facts.timeline, facts.psg, members, meetings, facts.ppg.models.forwards)
        # A call that a device carries out is no wait of the host: others speak of other seconds.
        told = [Told(finding, Extent(())) for finding in findings]
        return Outcome(told, sections={"device": account(devices, meetings)})
