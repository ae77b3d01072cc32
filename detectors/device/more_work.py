"""Why kernels take longer on one device than on others: more of them, other inputs, or the same work for longer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scalana.detectors.device.backtrack import Cause
from scalana.detectors.device.lanes import Devices
from scalana.detectors.when.reasons import Reason

_MORE = 1.02
"""Factor from which a device has more kernels than others."""
_MOST = 0.5
"""Part of what is lost that one reason must be behind to be told."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A reason, and what is to be said of it."""

    reason: Reason
    text: str


def difference(causes: list[Cause], lost_s: Mapping[Cause, float], devices: Devices) -> Difference | None:
    """What most of the excess of some kernels comes of; None where nothing is behind most of it."""
    ranks, counts = sorted(devices.of_rank), devices.counts()
    weight: dict[Reason, float] = defaultdict(float)
    texts: dict[Reason, tuple[float, str]] = {}
    for cause in causes:
        _, rank, what = cause
        if what < 0:
            continue
        row = ranks.index(rank)
        found = _of_kind(what, row, counts[row], np.median(np.delete(counts, row, axis=0), axis=0), devices)
        weight[found.reason] += lost_s[cause]
        texts[found.reason] = max(texts.get(found.reason, (0.0, "")), (lost_s[cause], found.text))
    most = max(weight, key=lambda reason: weight[reason], default=None)
    if most is None or weight[most] < _MOST * sum(weight.values()):
        return None
    return Difference(most, texts[most][1])


def _of_kind(what: int, row: int, here: np.ndarray, usual: np.ndarray, devices: Devices) -> Difference:
    """Of one kind of kernel, by how many of each kind there are here, and usually."""
    if devices.kinds.inputs[what] >= 0 and here[what] > _MORE * usual[what]:
        alike = (devices.kinds.vertex == devices.kinds.vertex[what]) & (devices.kinds.name == devices.kinds.name[what])
        others = np.flatnonzero(alike & (usual > here))
        if len(others):
            largest = int(others[np.argmax(usual[others] - here[others])])
            mine, theirs = (devices.kinds.names[int(devices.kinds.inputs[kind])] for kind in (what, largest))
            return Difference(Reason.INPUTS, f"on inputs of {mine}, where others have {theirs}")
    if here[what] > _MORE * usual[what]:
        return Difference(Reason.NUMBER, f"of which it has {here[what]:.0f}, and others {usual[what]:.0f}")
    if devices.kinds.module(what) is not None:
        return Difference(Reason.MODULE, _of_module(what, row, devices))
    told = " on inputs of the same shape" if devices.kinds.inputs[what] >= 0 else ""
    return Difference(Reason.TIME, f"though it has no more of them than others{told}")


def _of_module(what: int, row: int, devices: Devices) -> str:
    """How much longer a module takes, of which it is not known what it launches."""
    seconds = np.array([devices.of_rank[rank].seconds[what] for rank in sorted(devices.of_rank)])
    usual = float(np.median(np.delete(seconds, row)))
    return f"which takes {float(seconds[row]) / usual:.1f} times as long there" if usual > 0.0 else "which others lack"
