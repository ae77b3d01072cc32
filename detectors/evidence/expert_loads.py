"""Evidence about experts that a loop waits for, as they are loaded while it computes."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class OtherLoads:
    """A pass through the layers with experts loaded earlier, or with more of them kept."""

    change: str
    """``ahead``, ``in-draft`` or ``more-slots``."""
    pass_s: float
    layers: int = 0
    """Layers ahead."""
    slots: int = 0
    """Experts that a cache has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertWaits(Flat):
    """Waiting for experts; seconds are of an average rank."""

    expert_wait_s: float
    """Exposed: not behind what is computed meanwhile."""
    expert_load_s: float
    """That the loads take, in whichever thread."""
    expert_loop_s: float
    """From the first lookup to the end of the last one."""
    expert_pass_s: float
    """Of a pass through the layers."""
    expert_lookups: int
    expert_loads: int
    expert_hit_rate: float | None
    """Part of the lookups that need no load; None where the lookups that need none were not seen."""
    expert_bytes: float
    expert_bytes_per_s: float
    """While something is loaded."""
    costliest_layer: str
    """That which waits longest; empty where layers are not known."""
    costliest_layer_s: float
    expert_lookup: str
    """Function of the program that looks experts up."""
    expert_loader: str
    """The one that loads them."""
    expert_slots: int | None
    """Experts that the cache has room for, as lookups that need no load show; None where it keeps others than those
    that were used last."""
    expert_slots_by_layer: bool
    """Whether each layer has a cache with so much room."""
    other_loads: list[OtherLoads]
    """The shortest first; empty where a model of the lookups does not take as long as the run did."""
