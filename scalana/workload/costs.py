"""What generation costs: a decoding step as a line over what is active, fitted to a run or named.

A decoding step with ``b`` active trajectories that hold ``K`` tokens of context takes ``floor_s + sequence_s * b +
context_s * K``, and gives each of them one token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.workload.errors import WorkloadError

MOST_SLOTS = 256
"""Trajectories that an engine has active at once where nothing shows it: vLLM's default."""


WEIGHTS_PART = 0.45
"""Part of a decoding step of one trajectory in which weights are read: 46 % of 4.9 ms for 15.2 GB on two devices with
3.35 TB/s, 44 % of 11.1 ms for 65.5 GB on four. The rest (94 and 97 us a layer) is launches and exchanges."""


@dataclass(frozen=True, slots=True)
class Decode:
    """Costs of generation on one replica."""

    floor_s: float
    """Of a decoding step, whatever is active."""
    sequence_s: float = 0.0
    """What each active trajectory adds to it."""
    context_s: float = 0.0
    """What each token of context that active trajectories hold adds to it."""
    start_s: float = 0.0
    """Before the first token of a turn."""
    read_s: float = 0.0
    """For each token that is read and is not in the cache."""
    slots: int = MOST_SLOTS
    """Trajectories that a replica has at once, at most."""
    whole_batches: bool = False
    """Whether trajectories of a batch end together, with the longest of them."""
    factor: tuple[float, ...] = ()
    """How many times as long each recorded replica takes, by rank; empty where they are as fast as each other."""

    def divided(self, times: float) -> Decode:
        """The same on so many times as many devices a replica: reading weights (:data:`WEIGHTS_PART` of a decoding
        step), contexts and prompts is divided over them, the rest is not. A replica is as fast as is usual."""
        floor = self.floor_s * (1.0 - WEIGHTS_PART + WEIGHTS_PART / times)
        shared = self.sequence_s / times, self.context_s / times, self.start_s, self.read_s / times
        return Decode(floor, *shared, self.slots, self.whole_batches)

    def of(self, replicas: IntArray) -> Decode:
        """The same with the factors of some recorded replicas alone, which are numbered from 0 on."""
        return replace(self, factor=tuple(self.factor[one] for one in replicas.tolist() if one < len(self.factor)))

    def factors(self, replicas: int) -> FloatArray:
        """The same for any number of replicas: those that were not recorded are as fast as is usual ``[replicas]``."""
        known = np.array(self.factor[:replicas], np.float64)
        return np.concatenate((known, np.ones(replicas - len(known))))


TENSOR = {"7b-tp2": 2, "32b-tp4": 4}
"""Devices of a replica."""
NAMED = {
    "7b-tp2": Decode(4.9e-3, 19e-6, 10e-9),
    "32b-tp4": Decode(11.1e-3, 11e-6, 23e-9),
}
"""Engines on H800, read from the decoding curves of Laminar (arXiv:2510.12633, figure 4) with 4,096 tokens a sequence:
Qwen2.5 of a size, on so many devices a replica."""


def named(name: str) -> Decode:
    """Costs by name.

    Raises:
        WorkloadError: there are none of that name.
    """
    try:
        return NAMED[name]
    except KeyError:
        raise WorkloadError(f"--costs {name}: unknown; known are {', '.join(NAMED)}") from None
