"""Why kernels take longer on one device than on others: more of them, other inputs, or the same work for longer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from scalana.detectors.device import advice
from scalana.detectors.device.backtrack import Cause, Costs
from scalana.detectors.streams.lanes import Devices
from scalana.detectors.thresholds.factors import SAME_SIZE
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.detectors.when.advice import Reason


@dataclass(frozen=True, slots=True)
class Difference:
    """A reason, and what is to be said of it."""

    reason: Reason
    text: str


def difference(causes: list[Cause], costs: Costs, devices: Devices) -> Difference | None:
    """What most of the excess of some kernels comes of; None where nothing is behind most of it."""
    ranks, counts = sorted(devices.of_rank), devices.counts()
    weight: dict[Reason, float] = defaultdict(float)
    texts: dict[Reason, tuple[float, str]] = {}
    for cause in causes:
        _, rank, what = cause
        if what < 0:
            continue
        row = ranks.index(rank)
        if devices.kinds.module(what) is not None:
            did = costs.did[cause].values()
            found = _of_module(what, row, sum(one.here_s for one in did), sum(one.others_s for one in did), devices)
        else:
            found = _of_kind(what, counts[row], np.median(np.delete(counts, row, axis=0), axis=0), devices)
        weight[found.reason] += costs.lost_s[cause]
        texts[found.reason] = max(texts.get(found.reason, (0.0, "")), (costs.lost_s[cause], found.text))
    most = max(weight, key=lambda reason: weight[reason], default=None)
    if most is None or weight[most] < MAJORITY * sum(weight.values()):
        return None
    return Difference(most, texts[most][1])


def _of_kind(what: int, here: np.ndarray, usual: np.ndarray, devices: Devices) -> Difference:
    """Of one kind of kernel, by how many of each kind there are here, and usually."""
    if devices.kinds.inputs[what] >= 0 and here[what] > SAME_SIZE * usual[what]:
        alike = (devices.kinds.vertex == devices.kinds.vertex[what]) & (devices.kinds.name == devices.kinds.name[what])
        others = np.flatnonzero(alike & (usual > here))
        if len(others):
            largest = int(others[np.argmax(usual[others] - here[others])])
            mine, theirs = (devices.kinds.names[int(devices.kinds.inputs[kind])] for kind in (what, largest))
            return Difference(Reason.INPUTS, advice.INPUTS.format(here=mine, others=theirs))
    if here[what] > SAME_SIZE * usual[what]:
        return Difference(Reason.NUMBER, advice.NUMBER.format(here=here[what], others=usual[what]))
    same = advice.SAME_SHAPE if devices.kinds.inputs[what] >= 0 else ""
    return Difference(Reason.TIME, advice.NO_MORE + same)


def _of_module(what: int, row: int, here_s: float, others_s: float, devices: Devices) -> Difference:
    """Of a module, of which it is not known what it launches, but maybe how large its inputs are."""
    sizes = np.array([devices.of_rank[rank].elements[what] for rank in sorted(devices.of_rank)])
    usual = np.delete(sizes, row)
    usual = usual[~np.isnan(usual)]
    if not np.isnan(sizes[row]) and len(usual) and sizes[row] > SAME_SIZE * np.median(usual):
        text = advice.ELEMENTS.format(here=sizes[row], others=np.median(usual))
        return Difference(Reason.INPUTS, text)
    if others_s <= 0.0:
        return Difference(Reason.MODULE, advice.NO_SUCH)
    same = advice.SAME_SIZE if not np.isnan(sizes[row]) else ""
    taken = np.array([devices.of_rank[rank].seconds[what] for rank in sorted(devices.of_rank)])
    ratio = taken[row] / max(float(np.median(np.delete(taken, row))), 1e-9)
    if ratio < SAME_SIZE:  # as a whole it is not longer, but what it does by itself is
        ratio = here_s / others_s
    return Difference(Reason.MODULE, advice.LONGER.format(ratio=ratio) + same)
