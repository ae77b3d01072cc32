"""What-ifs side by side: every policy on the same devices, at several numbers of them, by several divisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.workload.errors import WorkloadError
from scalana.workload.replay import POLICIES, Replayed, Setting, replay
from scalana.workload.step_costs import StepCosts
from scalana.workload.trajectories import Workload

DIVISIONS = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
"""Parts of all devices that train, where trainers have devices of their own: the best is taken."""


@dataclass(frozen=True, slots=True)
class Place:
    """Devices, and what they do."""

    devices: int
    """All of them."""
    tensor: int
    """Devices of a replica."""
    trainers: int
    """Devices that train."""
    replicas: int
    """That generate."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A policy on some devices."""

    place: Place
    replayed: Replayed


def recorded_devices(workload: Workload, steps: StepCosts) -> int:
    """Processes that generate or train in a run; 0 where it does not say which generate."""
    if workload.times is None or (workload.replica < 0).any():
        return 0
    return len({*workload.replica.tolist(), *np.flatnonzero(steps.trains).tolist()})


def places(name: str, devices: int, tensor: int) -> Iterator[Place]:
    """How a policy can use so many devices."""
    if not POLICIES[name].apart:
        if devices >= tensor:  # replicas train, too
            yield Place(devices, tensor, devices, devices // tensor)
        return
    seen = set()
    for part in DIVISIONS:
        replicas = round(devices * (1.0 - part) / tensor)
        trainers = devices - replicas * tensor
        if replicas >= 1 and trainers >= 1 and replicas not in seen:
            seen.add(replicas)
            yield Place(devices, tensor, trainers, replicas)


def compare(
    workload: Workload, base: Setting, names: Sequence[str], devices: Sequence[int], tensors: Sequence[int]
) -> list[Compared]:
    """Replay policies on so many devices, each with the division between generation and training that is fastest.

    Args:
        workload: what is generated.
        base: costs, and the staleness that is allowed; ``replicas`` and ``trainers`` are decided here.
        names: of policies.
        devices: numbers of them to compare.
        tensors: numbers of devices of a replica to compare; ``base`` is of replicas with the first.

    Raises:
        WorkloadError: there are too few devices for a policy.
    """
    result = []
    for number in devices:
        for tensor in tensors:
            decode = base.decode if tensor == tensors[0] else base.decode.divided(tensor / tensors[0])
            settings = [replace(base, policy=name, decode=decode) for name in names]
            result += [_best(workload, setting, number, tensor) for setting in settings]
    return result


def _best(workload: Workload, setting: Setting, devices: int, tensor: int) -> Compared:
    """The fastest division of devices for a policy."""
    name, found = setting.policy, []
    for place in places(name, devices, tensor):
        # What was recorded is replayed on the processes, and with the tokens, that it had.
        trainers = place.trainers if name != "recorded" else None
        replicas = place.replicas if name != "recorded" else int(workload.replica.max()) + 1
        found.append(Compared(place, replay(workload, replace(setting, replicas=replicas, trainers=trainers))))
    if not found:
        needed = tensor + 1 if POLICIES[name].apart else tensor
        raise WorkloadError(f"--devices {devices}: policy {name} needs {needed} devices at least")
    return min(found, key=lambda one: one.replayed.total_s)
