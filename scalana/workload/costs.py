"""What generation costs: a decoding step as a line over what is active, fitted to a run or named.

A decoding step with ``b`` active trajectories that hold ``K`` tokens of context takes ``floor_s + sequence_s * b +
context_s * K``, and gives each of them one token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import FloatArray
from scalana.workload.errors import WorkloadError

MOST_SLOTS = 256
"""Trajectories that an engine has active at once where nothing shows it: vLLM's default."""


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

    def factors(self, replicas: int) -> FloatArray:
        """The same for any number of replicas: those that were not recorded are as fast as is usual ``[replicas]``."""
        known = np.array(self.factor[:replicas], np.float64)
        return np.concatenate((known, np.ones(replicas - len(known))))


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
