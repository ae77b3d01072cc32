"""Causes that all ranks share where devices work, as a detector."""

from __future__ import annotations

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts, Need
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.limits import device_causes
from scalana.detectors.limits.causal_profile import LIMITS
from scalana.detectors.limits.device_causes import DeviceCause
from scalana.detectors.limits.device_profile import DeviceProfile, device_profile
from scalana.detectors.reconcile import Extent, Verdict
from scalana.detectors.thresholds.shares import MAJORITY

KINDS = (
    device_causes.COPY,
    device_causes.SYNC,
    device_causes.LAUNCH,
    device_causes.HOST,
    device_causes.DEVICE,
)
"""Of its findings those that there are on devices alone; others are as of :class:`Limits`."""


class LimitsOnDevices:
    """What all ranks and their devices spend in a step, and what less of it would bring."""

    kinds = tuple(BY_NAME[kind] for kind in KINDS)

    def detect(self, facts: Facts) -> Outcome:
        """Of the steps that devices were looked at in; none in single steps of a run. Pipelines and loops of
        reinforcement learning have accounts of their own."""
        if facts.is_part or facts.has(Need.ACTIONS) or facts.has(Need.PHASES):
            return Outcome()
        profile = device_profile(facts)
        if profile is None:
            return Outcome()
        causes = device_causes.device_causes(profile, facts)
        verdicts = [Verdict(one.cause.finding, one.cause.extent) for one in causes]
        return Outcome(verdicts, _explained(causes, profile), sections={LIMITS.name: profile.whole})


def _explained(causes: list[DeviceCause], profile: DeviceProfile) -> list[Extent]:
    """That devices have nothing to do, where causes explain most of it that are alike on all ranks: no rank is then at
    fault for what its device has less to do than those of others."""
    even_s = sum(one.idle_s for one in causes if one.cause.is_even)
    found = []
    for rank, idle_s in zip(profile.replay.ranks, profile.replay.idle_s().tolist(), strict=True):
        device = profile.devices.of_rank[rank]
        if even_s <= 0.0 or even_s < MAJORITY * idle_s:
            continue
        begin_s, end_s = float(device.windows[0, 0]), float(device.windows[-1, 2])
        found.append(Extent((rank,), windows_s=device.busy.gaps(begin_s, end_s), on_device=True))
    return found
